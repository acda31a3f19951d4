// `pagestorm compare`: columns of runs against each other, as numbers and in its formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/compare/column.h"
#include "bench/compare/compat.h"
#include "bench/compare/metrics.h"
#include "bench/compare/summary.h"
#include "bench/stats/comparison.h"
#include "bench/stats/interval.h"

namespace pagestorm::bench {

// One metric of one column, over its runs that count.
struct MetricColumn {
  stats::Sample sample;
  std::optional<stats::Interval> mean_interval;  // Student's t
  // Against the baseline; none for the baseline itself and where a sample is too small.
  std::optional<stats::Welch> welch;
  std::optional<stats::MannWhitney> mann_whitney;
};

struct MetricComparison {
  Metric metric;
  std::vector<MetricColumn> columns;
};

// Everything that is printed, whatever the format.
struct Comparison {
  std::vector<Column> columns;  // the baseline first
  std::vector<MetricComparison> metrics;
  std::vector<Duration> durations;  // means over Column::Shown(), as are the next
  std::vector<VmGrowth> vmstat;
  std::vector<KnobDifference> knobs;
};

[[nodiscard]] Comparison Compare(std::vector<Column> columns);

// What a reader must know before believing a table: few seeds, runs left out, machines that differ.
// Sentences without a line's end.
[[nodiscard]] std::vector<std::string> Notes(const Comparison& comparison);

// mmtests' layout and nothing else: statistics, Duration, Vmstat.
[[nodiscard]] std::string MmtestsText(const Comparison& comparison, Style style);
// The same without rows that are 0 everywhere, then samples, intervals, tests, seeds and OOM kills.
[[nodiscard]] std::string ComparisonText(const Comparison& comparison, Style style);
// Versioned: docs/compare.md.
[[nodiscard]] std::string ComparisonJson(const Comparison& comparison);
// One line a number: table,row,operation,unit,column,value,percent_better.
[[nodiscard]] std::string ComparisonCsv(const Comparison& comparison);
// What mmtests' own programs extract from the logs of a benchmark, of all columns' runs one after
// the other: metric, factors, interval, value, extra. Source: spec workloads-and-reports 3.7.
[[nodiscard]] std::string ExtractionTsv(const Comparison& comparison);

inline constexpr int kComparisonSchema = 1;

}  // namespace pagestorm::bench
