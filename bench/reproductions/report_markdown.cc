#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "bench/reproductions/report.h"
#include "bench/reproductions/sensitivity.h"
#include "fmt/format.h"

namespace pagestorm::bench::reproductions {
namespace {

std::string Begin(const std::string& id) { return absl::StrCat("<!-- begin ", id, " -->"); }
std::string End(const std::string& id) { return absl::StrCat("<!-- end ", id, " -->"); }

// A cell of a table may not end it.
std::string EscapedCell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}});
}

std::string Head(const Reproduction& reproduction, const Provenance& provenance) {
  const Table& table = reproduction.table;
  std::string text =
      absl::StrCat("## ", table.id, "\n\n", table.title, ". Published: ", table.source, ".\n\n");
  absl::StrAppend(&text, "`", provenance.command, "`, ", reproduction.started.substr(0, 10),
                  provenance.commit.empty() ? "" : ", commit " + provenance.commit, ", ",
                  reproduction.seeds, " seeds, ", LengthName(reproduction.length), " length",
                  fmt::format(", {:.0f} s of host time", reproduction.host_s),
                  ". Machine: ", reproduction.machine, ".\n\n");
  absl::StrAppend(&text, "* Noise: ", fmt::format("{:.0f} %", table.noise * 100), " (",
                  table.noise_source, ").\n");
  absl::StrAppend(
      &text, "* Shortened: ",
      reproduction.shortened.empty() ? "nothing" : absl::StrJoin(reproduction.shortened, "; "),
      ".\n");
  for (const std::string& line : reproduction.variants) {
    absl::StrAppend(&text, "* Varied: ", line, ".\n");
  }
  for (const std::string& line : table.one_offs) absl::StrAppend(&text, "* One-off: ", line, ".\n");
  for (const std::string& line : table.skipped) absl::StrAppend(&text, "* Skipped: ", line, ".\n");
  if (reproduction.partial) absl::StrAppend(&text, "* **Interrupted: the figures are partial.**\n");
  return absl::StrCat(text, "\n![", table.title, "](", table.id, ".svg)\n");
}

std::string FirstMetric(const Reproduction& reproduction, std::size_t metric) {
  const Table& table = reproduction.table;
  std::string text = absl::StrCat("\n### ", MetricTitle(metric),
                                  "\n\nMean over runs without an OOM kill, 95 % interval by a "
                                  "bootstrap over seeds.\n\n| column | ",
                                  table.row_name,
                                  " | published | emulated | interval | median | OOM |\n"
                                  "|---|---|---|---|---|---|---|\n");
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    for (const std::size_t row : reproduction.rows()) {
      const Cell cell{column, row};
      if (!reproduction.IsRun(cell)) continue;
      const CellSummary summary = SummaryOf(reproduction.runs, cell, metric);
      absl::StrAppend(&text, "| ", EscapedCell(table.columns[column].label), " | ",
                      table.rows[row].label, table.IsFitted(cell) ? " (fitted)" : "", " | ",
                      Figure(table.Published(cell, metric)), " | ", Figure(summary.mean), " | ",
                      IntervalText(summary.interval), " | ", Figure(summary.median), " | ",
                      summary.ooms.kills, "/", summary.ooms.runs, " |\n");
    }
  }
  return text;
}

// The means of another metric, rows side by side.
std::string OtherMetric(const Reproduction& reproduction, std::size_t metric) {
  const Table& table = reproduction.table;
  std::string text = absl::StrCat("\n### ", MetricTitle(metric), "\n\n",
                                  IsPublished(table, metric) ? "Published / emulated, m" : "M",
                                  "ean over runs without an OOM kill.\n\n| ", table.row_name);
  std::string line = "\n|---";
  for (const std::size_t row : reproduction.rows()) {
    absl::StrAppend(&text, " | ", table.rows[row].label);
    line += "|---";
  }
  absl::StrAppend(&text, " |", line, "|\n");
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    absl::StrAppend(&text, "| ", EscapedCell(table.columns[column].label));
    for (const std::size_t row : reproduction.rows()) {
      absl::StrAppend(&text, " | ", PairText(reproduction, {column, row}, metric));
    }
    text += " |\n";
  }
  return text;
}

std::string Claims(const Reproduction& reproduction) {
  const Table& table = reproduction.table;
  std::string text =
      "\n### Claims\n\n| | claim | published | emulated | 95 % interval | allowed | n | |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < table.claims.size(); ++i) {
    const Claim& claim = table.claims[i];
    const Verdict& verdict = reproduction.verdicts[i];
    absl::StrAppend(&text, "| **", VerdictWord(verdict), "** | ", verdict.id, ": ",
                    EscapedCell(claim.text), " | ", Figure(verdict.published), " | ",
                    Figure(verdict.emulated), " | ", IntervalText(verdict.interval), " | [",
                    Figure(claim.band.low), ", ", Figure(claim.band.high), "] | ",
                    verdict.emulated_n, " | ", EscapedCell(verdict.note), " |\n");
  }
  return text;
}

std::string Sensitivity(const Reproduction& reproduction) {
  const Grid grid = SensitivityGrid(reproduction);
  if (grid.empty()) return "";
  std::string text =
      absl::StrCat("\n### What the disk and the memory decide\n\nThe claims, and the means of ",
                   MetricTitle(reproduction.table.metrics.front()), ".\n\n");
  for (std::size_t i = 0; i < grid.size(); ++i) {
    for (const std::string& cell : grid[i]) absl::StrAppend(&text, "| ", EscapedCell(cell), " ");
    text += "|\n";
    if (i > 0) continue;
    for (std::size_t k = 0; k < grid[i].size(); ++k) text += "|---";
    text += "|\n";
  }
  return text;
}

}  // namespace

std::string ReproductionMarkdown(const Reproduction& reproduction, const Provenance& provenance) {
  const Table& table = reproduction.table;
  std::string text = Begin(table.id) + "\n" + Head(reproduction, provenance) + Claims(reproduction);
  text += FirstMetric(reproduction, table.metrics.front());
  for (std::size_t i = 1; i < table.metrics.size(); ++i) {
    text += OtherMetric(reproduction, table.metrics[i]);
  }
  text += Sensitivity(reproduction);
  for (const std::string& trouble : reproduction.troubles) {
    absl::StrAppend(&text, "\nFailed run: ", trouble, "\n");
  }
  return text + End(table.id) + "\n";
}

std::string WithSection(const std::string& page, const std::string& id,
                        const std::string& section) {
  const std::size_t begin = page.find(Begin(id));
  const std::size_t end = page.find(End(id));
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    const bool needs_gap = !page.empty() && page.substr(page.size() - 1) != "\n";
    return absl::StrCat(page, needs_gap ? "\n" : "", page.empty() ? "" : "\n", section);
  }
  std::size_t after = end + End(id).size();
  if (after < page.size() && page[after] == '\n') ++after;
  return page.substr(0, begin) + section + page.substr(after);
}

}  // namespace pagestorm::bench::reproductions
