// A reproduction for people and programs: text, Markdown, JSON. The same figures everywhere.
#pragma once

#include <string>

#include "bench/reproductions/reproduce.h"

namespace pagestorm::bench::reproductions {

inline constexpr int kReproductionSchema = 1;

// What the program prints: published and emulated side by side, then the claims.
[[nodiscard]] std::string ReproductionText(const Reproduction& reproduction);

// Described in docs/reproductions/README.md. A function of files and options but for "host".
[[nodiscard]] std::string ReproductionJson(const Reproduction& reproduction);

// What a page says beside the figures.
struct Provenance {
  std::string command;  // "pagestorm reproduce throttle-v7 --full"
  std::string commit;   // empty: not known
};

// A page's section on the table, from its marker `<!-- begin <id> -->` to `<!-- end <id> -->`. The
// chart is referred to as <id>.svg beside the page.
[[nodiscard]] std::string ReproductionMarkdown(const Reproduction& reproduction,
                                               const Provenance& provenance);
// The page with the section in place of the one it has, or at its end.
[[nodiscard]] std::string WithSection(const std::string& page, const std::string& id,
                                      const std::string& section);

// --- shared by the three ---

// Mean, interval and median over a cell's survivors, and how many there are.
struct CellSummary {
  std::optional<double> mean, median;
  std::optional<stats::Interval> interval;  // of the mean, 95 %, by a bootstrap over seeds
  OomCount ooms;
};
[[nodiscard]] CellSummary SummaryOf(const TableRuns& runs, Cell cell, std::size_t metric);

// Four significant digits, no more than three after the point.
[[nodiscard]] std::string Figure(double value);
[[nodiscard]] std::string Figure(const std::optional<double>& value);  // none: "-"
[[nodiscard]] std::string IntervalText(const std::optional<stats::Interval>& interval);
// Whether any figure of the metric was published.
[[nodiscard]] bool IsPublished(const Table& table, std::size_t metric);
// A cell of a metric beside the first: "published / emulated", or what was emulated where nothing
// was published; empty if the cell is not run.
[[nodiscard]] std::string PairText(const Reproduction& reproduction, Cell cell, std::size_t metric);
// "PASS", "FAIL", "not evaluated" or "fitted".
[[nodiscard]] const char* VerdictWord(const Verdict& verdict);

}  // namespace pagestorm::bench::reproductions
