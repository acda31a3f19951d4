// Tables as mmtests lays them out: one row a statistic and operation, one column a kernel.
//
// Source: spec workloads-and-reports 3.1 and 3.2, which reproduce the published tables.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/compare/compat.h"

namespace pagestorm::bench {

// Which values are better.
enum class Better : std::uint8_t { kHigher, kLower };

// How much better than the baseline, in percent: positive is always better.
[[nodiscard]] double PercentBetter(Better better, double baseline, double value, Compat compat);

// The two lines of a column's head: "4.11.0-rc1-vanilla" is 4.11.0-rc1 over vanilla. A following
// "-rcN" stays with the first part; with quirks only if N has one digit.
[[nodiscard]] std::pair<std::string, std::string> SplitName(std::string_view name, bool quirks);

// Right-aligned, like printf's "%<width>.<decimals>f"; what is no number is "NaN".
[[nodiscard]] std::string Fixed(double value, int width, int decimals);

// One value a column, the first of them the baseline's.
struct Row {
  std::string statistic;  // "Amean"
  std::string operation;  // "p50-Read"
  std::vector<double> values;
  Better better = Better::kLower;
  int decimals = 2;
  std::vector<bool> significant = {};  // kCurrent: marked with asterisks; empty: none is
};

struct TableOptions {
  Style style;
  int field_width = 12;
};

// Two lines of names, then a line for each row. Values that are wider than their field shift the
// rest of their row, as they did.
[[nodiscard]] std::string ComparisonTable(const std::vector<std::string>& names,
                                          const std::vector<Row>& rows,
                                          const TableOptions& options = {});

// A table without percentages: cells are finished texts of one width.
struct MonitorRow {
  std::string label;
  std::vector<std::string> cells;
};
[[nodiscard]] std::string MonitorTable(const std::vector<std::string>& names,
                                       const std::vector<MonitorRow>& rows, int field_width,
                                       bool quirks);

// User, System and Elapsed in seconds.
struct Duration {
  double user = 0;
  double system = 0;
  double elapsed = 0;
};
[[nodiscard]] std::string DurationTable(const std::vector<std::string>& names,
                                        const std::vector<Duration>& durations, Style style);

}  // namespace pagestorm::bench
