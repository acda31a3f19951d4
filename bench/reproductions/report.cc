#include "bench/reproductions/report.h"

#include <algorithm>
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

bool IsPublished(const Table& table, std::size_t metric) {
  return std::any_of(table.columns.begin(), table.columns.end(), [&](const Column& column) {
    return std::any_of(column.published.begin(), column.published.end(),
                       [&](const Column::Published& figures) { return figures.metric == metric; });
  });
}

std::string PairText(const Reproduction& reproduction, Cell cell, std::size_t metric) {
  if (!reproduction.IsRun(cell)) return "";
  const std::string emulated = Figure(SummaryOf(reproduction.runs, cell, metric).mean);
  if (!IsPublished(reproduction.table, metric)) return emulated;
  return Figure(reproduction.table.Published(cell, metric)) + " / " + emulated;
}

const char* VerdictWord(const Verdict& verdict) {
  if (!verdict.scored) return "fitted";
  if (!verdict.evaluated) return "not evaluated";
  return verdict.holds ? "PASS" : "FAIL";
}

}  // namespace pagestorm::bench::reproductions
