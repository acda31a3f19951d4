#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/reproductions/report.h"
#include "bench/reproductions/sensitivity.h"
#include "fmt/format.h"

namespace pagestorm::bench::reproductions {
namespace {

std::string Head(const Reproduction& reproduction) {
  const Table& table = reproduction.table;
  std::string text = fmt::format("{}: {}\n  published: {}\n  noise: {:.0f} % ({})\n", table.id,
                                 table.title, table.source, table.noise * 100, table.noise_source);
  absl::StrAppend(&text, "  emulated: ", reproduction.machine, "; engine virtual, ",
                  LengthName(reproduction.length), " length, ", reproduction.seeds, " seeds\n");
  absl::StrAppend(
      &text, "  shortened: ",
      reproduction.shortened.empty() ? "nothing" : absl::StrJoin(reproduction.shortened, "; "),
      "\n");
  for (const std::string& variant : reproduction.variants) {
    absl::StrAppend(&text, "  varied: ", variant, "\n");
  }
  for (const std::string& line : table.one_offs) absl::StrAppend(&text, "  one-off: ", line, "\n");
  for (const std::string& line : table.skipped) absl::StrAppend(&text, "  skipped: ", line, "\n");
  if (reproduction.partial) absl::StrAppend(&text, "  INTERRUPTED: the figures are partial\n");
  return text;
}

// A table about OOM rates also says how sure they are.
std::string OomText(const OomCount& ooms, bool with_band) {
  if (ooms.runs == 0) return "-";
  if (!with_band) return fmt::format("{}/{}", ooms.kills, ooms.runs);
  const stats::Interval band = stats::WilsonInterval(ooms.kills, ooms.runs);
  return fmt::format("{}/{} [{:.0f}, {:.0f}] %", ooms.kills, ooms.runs, band.low * 100,
                     band.high * 100);
}

std::size_t LabelWidth(const Table& table) {
  std::size_t width = 0;
  for (const Column& column : table.columns) width = std::max(width, column.label.size());
  return width;
}

// Every cell of the table's first metric.
std::string FirstMetric(const Reproduction& reproduction) {
  const Table& table = reproduction.table;
  const std::size_t metric = table.metrics.front();
  const std::size_t width = LabelWidth(table);
  std::string text = fmt::format(
      "\n{}, mean of the runs without an OOM kill; OOM: runs that ended in one\n"
      "{:<{}} {:>9} {:>10} {:>10} {:>20} {:>10}  {}\n",
      MetricTitle(metric), "", width, table.row_name, "published", "emulated", "95 % interval",
      "median", "OOM");
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    std::string label = table.columns[column].label;
    for (const std::size_t row : reproduction.rows()) {
      const Cell cell{column, row};
      if (!reproduction.IsRun(cell)) continue;
      const CellSummary summary = SummaryOf(reproduction.runs, cell, metric);
      absl::StrAppend(&text,
                      fmt::format("{:<{}} {:>9} {:>10} {:>10} {:>20} {:>10}  {}{}\n", label, width,
                                  table.rows[row].label, Figure(table.Published(cell, metric)),
                                  Figure(summary.mean), IntervalText(summary.interval),
                                  Figure(summary.median), OomText(summary.ooms, table.draws_rates),
                                  table.IsFitted(cell) ? "  fitted" : ""));
      label.clear();
    }
  }
  return text;
}

// The means of another metric, rows side by side.
std::string OtherMetric(const Reproduction& reproduction, std::size_t metric) {
  const Table& table = reproduction.table;
  const std::size_t width = LabelWidth(table);
  const int cell_width = IsPublished(table, metric) ? 18 : 10;
  std::string text =
      fmt::format("\n{}, {}\n{:<{}}", MetricTitle(metric),
                  IsPublished(table, metric) ? "published / emulated" : "emulated", "", width);
  for (const std::size_t row : reproduction.rows()) {
    absl::StrAppend(&text, fmt::format(" {:>{}}", table.rows[row].label, cell_width));
  }
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    absl::StrAppend(&text, fmt::format("\n{:<{}}", table.columns[column].label, width));
    for (const std::size_t row : reproduction.rows()) {
      absl::StrAppend(
          &text, fmt::format(" {:>{}}", PairText(reproduction, {column, row}, metric), cell_width));
    }
  }
  return text + "\n";
}

// What the machine decides.
std::string Sensitivity(const Reproduction& reproduction) {
  const Grid grid = SensitivityGrid(reproduction);
  if (grid.empty()) return "";
  std::vector<std::size_t> widths(grid.front().size());
  for (const auto& row : grid) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = fmt::format("\nclaims, and {}, on other machines\n",
                                 MetricTitle(reproduction.table.metrics.front()));
  for (const auto& row : grid) {
    absl::StrAppend(&text, fmt::format("{:<{}}", row.front(), widths.front()));
    for (std::size_t i = 1; i < row.size(); ++i) {
      absl::StrAppend(&text, fmt::format("  {:>{}}", row[i], widths[i]));
    }
    text += "\n";
  }
  return text;
}

std::string ClaimText(const Claim& claim, const Verdict& verdict) {
  std::string text = fmt::format("  {:<13} {}: {}\n", VerdictWord(verdict), verdict.id, claim.text);
  const std::string unit = claim.unit.empty() ? "" : " " + claim.unit;
  absl::StrAppend(&text,
                  fmt::format("                published {}{}", Figure(verdict.published), unit));
  if (verdict.emulated) {
    absl::StrAppend(&text, fmt::format(", emulated {}{} {}", Figure(verdict.emulated), unit,
                                       IntervalText(verdict.interval)));
  }
  absl::StrAppend(&text, fmt::format(", allowed [{}, {}], n = {}\n", Figure(claim.band.low),
                                     Figure(claim.band.high), verdict.emulated_n));
  if (!verdict.note.empty()) absl::StrAppend(&text, "                ", verdict.note, "\n");
  return text;
}

std::string Claims(const Reproduction& reproduction) {
  const Table& table = reproduction.table;
  std::string text = "\nclaims: a PASS needs the whole 95 % interval within what is allowed\n";
  int passed = 0;
  int scored = 0;
  for (std::size_t i = 0; i < table.claims.size(); ++i) {
    const Verdict& verdict = reproduction.verdicts[i];
    absl::StrAppend(&text, ClaimText(table.claims[i], verdict));
    scored += verdict.scored ? 1 : 0;
    passed += verdict.scored && verdict.holds ? 1 : 0;
  }
  absl::StrAppend(&text, passed, " of ", scored, " claims hold");
  if (reproduction.verdicts.size() > static_cast<std::size_t>(scored)) {
    absl::StrAppend(&text, "; fitted ones are not scored");
  }
  return text + "\n";
}

}  // namespace

std::string ReproductionText(const Reproduction& reproduction) {
  std::string text = Head(reproduction) + FirstMetric(reproduction);
  for (std::size_t i = 1; i < reproduction.table.metrics.size(); ++i) {
    text += OtherMetric(reproduction, reproduction.table.metrics[i]);
  }
  text += Claims(reproduction) + Sensitivity(reproduction);
  for (const std::string& trouble : reproduction.troubles) text += "failed run: " + trouble + "\n";
  return text;
}

}  // namespace pagestorm::bench::reproductions
