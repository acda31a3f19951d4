// The statistics of mmtests' summaries, by its names and definitions: not all of them are what a
// textbook means by the word. Source: spec workloads-and-reports 3.3, 3.4.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/compat.h"
#include "bench/compare/layout.h"
#include "bench/stats/describe.h"

namespace pagestorm::bench {

// One operation of a benchmark: one sample a column, the first of them the baseline's.
struct Operation {
  std::string name;
  Better better = Better::kLower;
  int decimals = 2;  // of kCurrent; the older ones always had two
  std::vector<stats::Sample> samples;
};

// Of no values: not a number, for all of these.
[[nodiscard]] double Amean(const stats::Sample& sample);
// n / sum of 1/x. A value that is not positive makes it -1, today not a number.
[[nodiscard]] double Hmean(const stats::Sample& sample, Compat compat);
// Divided by n, today by n - 1: not a number for a single value then.
[[nodiscard]] double Stddev(const stats::Sample& sample, Compat compat);
// Of a harmonic mean: sqrt(sum of (1/x - 1/m)^2 * m^4 / n).
[[nodiscard]] double HarmonicStddev(const stats::Sample& sample, Compat compat);
// Percent of the arithmetic mean.
[[nodiscard]] double CoeffVar(const stats::Sample& sample, Compat compat);
// The values' best `percent` percent, at least one of them.
[[nodiscard]] stats::Sample BestOf(stats::Sample sample, int percent, Better better);
// Of the values sorted best first, the one at n * percent / 100, counted from 1.
[[nodiscard]] double Pctile(stats::Sample sample, int percent, Better better);

// Rows by statistic, then operation: Min, Amean or Hmean, Stddev, CoeffVar, Max, today also the
// mean of the best 95 %. Only the mean where no sample has two values.
[[nodiscard]] std::vector<Row> SummaryRows(const std::vector<Operation>& operations, Compat compat);

}  // namespace pagestorm::bench
