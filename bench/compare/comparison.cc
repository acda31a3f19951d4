#include "bench/compare/comparison.h"

#include <cstddef>
#include <utility>

#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

constexpr int kEnoughSeeds = 5;  // spec workloads-and-reports 8

stats::Sample SampleOf(const Column& column, const Metric& metric) {
  stats::Sample sample;
  for (const StoredRun& run : column.runs) {
    if (!run.counts()) continue;
    if (const auto value = ValueOf(metric, run.numbers)) sample.push_back(*value);
  }
  return sample;
}

MetricComparison CompareMetric(const std::vector<Column>& columns, const Metric& metric) {
  MetricComparison comparison{metric, {}};
  for (const Column& column : columns) {
    MetricColumn result;
    result.sample = SampleOf(column, metric);
    result.mean_interval = stats::MeanInterval(result.sample);
    if (!comparison.columns.empty()) {
      const stats::Sample& baseline = comparison.columns.front().sample;
      result.welch = stats::WelchTest(baseline, result.sample);
      result.mann_whitney = stats::MannWhitneyTest(baseline, result.sample);
    }
    comparison.columns.push_back(std::move(result));
  }
  return comparison;
}

Duration MeanDuration(const std::vector<const StoredRun*>& runs) {
  Duration sum;
  for (const StoredRun* run : runs) {
    sum.user += run->duration.user;
    sum.system += run->duration.system;
    sum.elapsed += run->duration.elapsed;
  }
  const auto n = static_cast<double>(runs.size());
  return {sum.user / n, sum.system / n, sum.elapsed / n};
}

VmGrowth MeanGrowth(const std::vector<const StoredRun*>& runs) {
  VmGrowth mean;
  for (const StoredRun* run : runs) {
    for (const auto& [name, value] : run->vmstat.counters) mean.counters[name] += value;
    mean.zones.insert(run->vmstat.zones.begin(), run->vmstat.zones.end());
    mean.elapsed_s += run->vmstat.elapsed_s;
  }
  const auto n = static_cast<double>(runs.size());
  for (auto& [name, value] : mean.counters) value /= n;
  mean.elapsed_s /= n;
  return mean;
}

void NoteRuns(const Column& column, std::vector<std::string>& notes) {
  const int counting = column.counting();
  const int left_out = static_cast<int>(column.runs.size()) - counting;
  if (left_out > 0) {
    notes.push_back(
        fmt::format("{}: {} of {} runs left out: {} with an OOM kill, {} that failed or were cut",
                    column.name, left_out, column.runs.size(), column.ooms(), column.failures()));
  }
  if (counting == 0) {
    notes.push_back(fmt::format("{}: no run counts; Duration and Vmstat are those of all its runs",
                                column.name));
  } else if (counting < kEnoughSeeds) {
    notes.push_back(fmt::format("{}: {} run{}; conclusions need {} seeds or more", column.name,
                                counting, counting == 1 ? "" : "s", kEnoughSeeds));
  }
  if (column.first().engine != "virtual") {
    notes.push_back(fmt::format("{}: {} engine: its figures vary with the host", column.name,
                                column.first().engine));
  }
}

bool Differ(const std::vector<KnobDifference>& knobs, const std::string& prefix) {
  for (const KnobDifference& knob : knobs) {
    if (knob.knob.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

}  // namespace

Comparison Compare(std::vector<Column> columns) {
  Comparison comparison;
  WorkloadNumbers numbers;
  for (const Column& column : columns) {
    for (const StoredRun& run : column.runs) numbers.insert(run.numbers.begin(), run.numbers.end());
    comparison.durations.push_back(MeanDuration(column.Shown()));
    comparison.vmstat.push_back(MeanGrowth(column.Shown()));
  }
  for (const Metric& metric : MetricsOf(columns.front().first().workload, numbers)) {
    comparison.metrics.push_back(CompareMetric(columns, metric));
  }
  comparison.knobs = KnobDifferences(columns);
  comparison.columns = std::move(columns);
  return comparison;
}

std::vector<std::string> Notes(const Comparison& comparison) {
  std::vector<std::string> notes;
  if (Differ(comparison.knobs, "machine.")) notes.emplace_back("the machines differ");
  if (Differ(comparison.knobs, "workload.")) notes.emplace_back("the workload's parameters differ");
  if (Differ(comparison.knobs, "engine.")) notes.emplace_back("the engines differ");
  for (const Column& column : comparison.columns) {
    if (column.first().version != comparison.columns.front().first().version) {
      notes.push_back(fmt::format("{}: made by pagestorm {}, the baseline by {}", column.name,
                                  column.first().version,
                                  comparison.columns.front().first().version));
    }
    NoteRuns(column, notes);
  }
  return notes;
}

}  // namespace pagestorm::bench
