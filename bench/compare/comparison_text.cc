// The formats for people.
#include <algorithm>
#include <cstddef>

#include "absl/strings/str_join.h"
#include "bench/compare/comparison.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

std::vector<std::string> NamesOf(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const Column& column : comparison.columns) names.push_back(column.name);
  return names;
}

std::vector<Row> Summary(const Comparison& comparison, Compat compat) {
  std::vector<Operation> operations;
  for (const MetricComparison& each : comparison.metrics) {
    Operation operation{each.metric.name, each.metric.better, each.metric.decimals, {}};
    for (const MetricColumn& column : each.columns) operation.samples.push_back(column.sample);
    operations.push_back(std::move(operation));
  }
  return SummaryRows(operations, compat);
}

std::string Tables(const Comparison& comparison, const VmstatOptions& options) {
  const std::vector<std::string> names = NamesOf(comparison);
  return ComparisonTable(names, Summary(comparison, options.style.compat), {options.style}) + "\n" +
         DurationTable(names, comparison.durations, options.style) + "\n" +
         VmstatTable(names, comparison.vmstat, options);
}

// "1-3,7"
std::string SeedList(const Column& column) {
  std::vector<std::int64_t> seeds;
  for (const StoredRun& run : column.runs) seeds.push_back(run.seed);
  std::sort(seeds.begin(), seeds.end());
  std::string text;
  for (std::size_t first = 0; first < seeds.size();) {
    std::size_t last = first;
    while (last + 1 < seeds.size() && seeds[last + 1] == seeds[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", seeds[first]);
    if (last > first) text += fmt::format("-{}", seeds[last]);
    first = last + 1;
  }
  return text;
}

std::size_t LongestName(const Comparison& comparison) {
  std::size_t longest = std::string("column").size();
  for (const Column& column : comparison.columns) longest = std::max(longest, column.name.size());
  return longest;
}

std::string IntervalText(const std::optional<stats::Interval>& interval, int decimals) {
  if (!interval) return "-";
  return fmt::format("[{:.{}f}, {:.{}f}]", interval->low, decimals, interval->high, decimals);
}

// What the difference amounts to, by Welch's p.
std::string Verdict(const stats::Welch& welch, Better better) {
  if (welch.p >= 0.05) return "undecided";
  return (welch.difference > 0) == (better == Better::kHigher) ? "better" : "worse";
}

std::string MetricLine(const MetricComparison& each, std::size_t index, const std::string& name,
                       std::size_t width) {
  const MetricColumn& column = each.columns[index];
  const int decimals = each.metric.decimals;
  std::string line = fmt::format("  {:<{}} {:>4} {} {:>28}", name, width, column.sample.size(),
                                 Fixed(Amean(column.sample), 14, decimals),
                                 IntervalText(column.mean_interval, decimals));
  if (column.welch) {
    line += fmt::format(" {:>14.{}f} {:>28} {:>9.3g} {:>9.3g} {}", column.welch->difference,
                        decimals, IntervalText(column.welch->interval, decimals), column.welch->p,
                        column.mann_whitney->p, Verdict(*column.welch, each.metric.better));
  }
  return line + "\n";
}

std::string MetricSection(const Comparison& comparison, const MetricComparison& each,
                          std::size_t width) {
  std::string text = fmt::format("{} [{}], {} is better\n", each.metric.name, each.metric.unit,
                                 each.metric.better == Better::kHigher ? "higher" : "lower");
  text += fmt::format("  {:<{}} {:>4} {:>14} {:>28}", "column", width, "n", "mean",
                      "95 % interval of the mean");
  if (comparison.columns.size() > 1) {
    text += fmt::format(" {:>14} {:>28} {:>9} {:>9} {}", "- baseline", "95 % interval", "Welch p",
                        "M-W p", "verdict");
  }
  text += '\n';
  for (std::size_t i = 0; i < each.columns.size(); ++i) {
    text += MetricLine(each, i, comparison.columns[i].name, width);
  }
  return text;
}

std::string RunsSection(const Comparison& comparison, std::size_t width) {
  std::size_t kernels = std::string_view("kernel").size();
  for (const Column& column : comparison.columns) {
    kernels = std::max(kernels, column.first().kernel.size());
  }
  std::string text = fmt::format("runs\n  {:<{}} {:<{}} {:>9} {:>20} {:>9}  seeds\n", "column",
                                 width, "kernel", kernels, "OOM kill", "95 % interval", "failed");
  for (const Column& column : comparison.columns) {
    const int runs = static_cast<int>(column.runs.size());
    const stats::Interval share = stats::ClopperPearsonInterval(column.ooms(), runs);
    text += fmt::format("  {:<{}} {:<{}} {:>9} {:>20} {:>9}  {}\n", column.name, width,
                        column.first().kernel, kernels, fmt::format("{}/{}", column.ooms(), runs),
                        fmt::format("{:.1f} .. {:.1f} %", 100 * share.low, 100 * share.high),
                        fmt::format("{}/{}", column.failures(), runs), SeedList(column));
  }
  return text;
}

std::string KnobSection(const Comparison& comparison) {
  if (comparison.knobs.empty()) return "";
  std::string text = "\nknobs that differ, by column\n";
  for (const KnobDifference& knob : comparison.knobs) {
    text += fmt::format("  {} = {}\n", knob.knob, absl::StrJoin(knob.values, " | "));
  }
  return text;
}

std::string Heading(const Comparison& comparison) {
  const StoredRun& first = comparison.columns.front().first();
  return fmt::format(
      "{} on machine {}, baseline {}; percentages: positive is better; emulated time\n",
      first.workload, first.machine, comparison.columns.front().name);
}

}  // namespace

std::string MmtestsText(const Comparison& comparison, Style style) {
  return Tables(comparison, {.style = style, .keep_zeros = true});
}

std::string ComparisonText(const Comparison& comparison, Style style) {
  const std::size_t width = LongestName(comparison);
  std::string text = Heading(comparison);
  for (const std::string& note : Notes(comparison)) text += "note: " + note + "\n";
  text += "\n" + Tables(comparison, {.style = style, .keep_zeros = false});
  text +=
      "(Duration in seconds and Vmstat: means over the runs; Vmstat rows of zeros not shown)\n\n";
  for (const MetricComparison& each : comparison.metrics) {
    text += MetricSection(comparison, each, width) + "\n";
  }
  text += RunsSection(comparison, width) + KnobSection(comparison);
  text +=
      "\nn: runs that came to their end without an OOM kill, one value each. Intervals of means: "
      "Student's t;\ndifferences: Welch's t-test, and Mann and Whitney's; OOM kills: Clopper and "
      "Pearson's. Latencies are of a\nclosed loop: service time only. * above: mmtests' mark, by "
      "standard deviations, not by a test.\n";
  return text;
}

}  // namespace pagestorm::bench
