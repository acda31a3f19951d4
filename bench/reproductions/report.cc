#include "bench/reproductions/report.h"

#include <cmath>

#include "bench/stats/describe.h"
#include "fmt/format.h"

namespace pagestorm::bench::reproductions {

CellSummary SummaryOf(const TableRuns& runs, Cell cell, std::size_t metric) {
  const MeasuredFigures measured(runs);
  CellSummary summary;
  summary.ooms = measured.Ooms(cell);
  const stats::Sample values = measured.Values(cell, metric);
  if (values.empty()) return summary;
  summary.mean = stats::Mean(values);
  summary.median = stats::Median(values);
  if (values.size() > 1) summary.interval = stats::BootstrapInterval(values, stats::Mean, {});
  return summary;
}

std::string Figure(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  const double size = std::abs(value);
  const int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return fmt::format("{:.{}f}", value, digits);
}

std::string Figure(const std::optional<double>& value) { return value ? Figure(*value) : "-"; }

std::string IntervalText(const std::optional<stats::Interval>& interval) {
  return interval ? fmt::format("[{}, {}]", Figure(interval->low), Figure(interval->high)) : "-";
}

const char* VerdictWord(const Verdict& verdict) {
  if (!verdict.scored) return "fitted";
  if (!verdict.evaluated) return "not evaluated";
  return verdict.holds ? "PASS" : "FAIL";
}

}  // namespace pagestorm::bench::reproductions
