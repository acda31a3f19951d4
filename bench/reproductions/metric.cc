#include "bench/reproductions/metric.h"

#include <algorithm>

namespace pagestorm::bench::reproductions {
namespace {

double Seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::int64_t Of(const std::vector<std::pair<std::string, std::int64_t>>& numbers,
                std::string_view name, std::int64_t otherwise) {
  const auto found = std::find_if(numbers.begin(), numbers.end(),
                                  [&](const auto& number) { return number.first == name; });
  return found == numbers.end() ? otherwise : found->second;
}

double Grown(const RunRecord& record, std::string_view name) {
  return static_cast<double>(Of(record.after, name, 0) - Of(record.before, name, 0));
}

double LruLockWait(const RunRecord& record) {
  std::int64_t wait_ns = 0;
  for (const ZoneRecord& zone : record.zones) {
    wait_ns += zone.lru_lock.wait_ns + zone.cgroup_lock.wait_ns;
  }
  return Seconds(wait_ns);
}

// For the lock or for lines that CPUs share without one, of the CPU time of all tasks.
double LruWaitShare(const RunRecord& record) {
  std::int64_t wait_ns = 0;
  for (const ZoneRecord& zone : record.zones)
    wait_ns += zone.lru_lock.wait_ns + zone.lru_line.wait_ns;
  const std::int64_t cpu_ns = record.outcome.times.user.n + record.outcome.times.system.n;
  return cpu_ns == 0 ? 0 : static_cast<double>(wait_ns) / static_cast<double>(cpu_ns);
}

// Pages of a program's hot set that it had to fetch back, of all that reclaim took.
double HotEvicted(const RunRecord& record) {
  const auto fetched = static_cast<double>(Of(record.workload.numbers, "hot_refaults", 0));
  double taken = 0;
  for (const char* name : {"pgsteal_dma", "pgsteal_dma32", "pgsteal_normal", "pgsteal_movable"}) {
    taken += Grown(record, name);
  }
  return taken == 0 ? 0 : fetched / taken;
}

// The time that the workload's program prints; of a program that prints none, its life.
double ProgramTime(const RunRecord& record) {
  return Seconds(Of(record.workload.numbers, "time_ns", record.outcome.main_end.n));
}

}  // namespace

const std::vector<Metric>& Metrics() {
  static const std::vector<Metric> metrics{
      {"time_s", "s", "time", ProgramTime},
      {"elapsed_s", "s", "elapsed time of the whole program",
       [](const RunRecord& r) { return Seconds(r.outcome.main_end.n); }},
      {"user_s", "s", "user time, all CPUs",
       [](const RunRecord& r) { return Seconds(r.outcome.times.user.n); }},
      {"system_s", "s", "system time of the load",
       [](const RunRecord& r) { return Seconds(r.outcome.times.load_system().n); }},
      {"major_faults", "", "major faults",
       [](const RunRecord& r) { return Grown(r, "pgmajfault"); }},
      {"swap_outs", "pages", "pages swapped out",
       [](const RunRecord& r) { return Grown(r, "pswpout"); }},
      {"swap_ins", "pages", "pages swapped in",
       [](const RunRecord& r) { return Grown(r, "pswpin"); }},
      {"direct_reclaims", "", "direct reclaims",
       [](const RunRecord& r) { return Grown(r, "allocstall"); }},
      {"reclaimers_max", "tasks", "most tasks in reclaim at once",
       [](const RunRecord& r) { return static_cast<double>(r.peaks.reclaimers_max); }},
      {"isolated_share", "", "largest isolated share of a zone's LRU",
       [](const RunRecord& r) {
         return static_cast<double>(r.peaks.isolated_share_max_permille) / 1000;
       }},
      {"lru_lock_wait_s", "s", "time waited for zone->lru_lock", LruLockWait},
      {"pages_per_s", "1/s", "pages written a second",
       [](const RunRecord& r) {
         return static_cast<double>(Of(r.workload.numbers, "pages_per_second", 0));
       }},
      {"lru_wait_share", "", "share of CPU time waited for the LRU's lock or shared lines",
       LruWaitShare},
      {"hot_evicted", "", "share of hot pages among the evicted", HotEvicted},
      {"cut_offs", "", "reclaimers sent away by the throttle",
       [](const RunRecord& r) { return static_cast<double>(r.gate.cut_offs); }},
  };
  return metrics;
}

std::optional<std::size_t> FindMetric(std::string_view name) {
  const auto& metrics = Metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (metrics[i].name == name) return i;
  }
  return std::nullopt;
}

std::string MetricTitle(std::size_t metric) {
  const Metric& known = Metrics()[metric];
  return known.unit.empty() ? known.label : known.label + " [" + known.unit + "]";
}

RunOutcome Measure(const RunRecord& record) {
  RunOutcome outcome;
  outcome.host_s = record.host.seconds;
  outcome.trace_hash = record.outcome.run.trace_hash;
  outcome.exit_code = record.exit_code();
  if (outcome.exit_code == kExitInterrupted) return outcome;
  outcome.oom_kills = record.oom_kills;
  for (const Metric& metric : Metrics()) outcome.values.push_back(metric.of(record));
  if (outcome.exit_code != kExitDone) {
    outcome.end = RunOutcome::End::kFailed;
    outcome.trouble = record.verdict();
    return outcome;
  }
  outcome.end = record.oom_kills > 0 ? RunOutcome::End::kOom : RunOutcome::End::kFinished;
  if (!record.ooms.empty() && record.ooms.front().lru + record.ooms.front().isolated > 0) {
    const auto& oom = record.ooms.front();
    outcome.isolated_at_oom_permille =
        static_cast<int>(oom.isolated * 1000 / (oom.isolated + oom.lru));
  }
  return outcome;
}

const char* EndName(RunOutcome::End end) {
  switch (end) {
    case RunOutcome::End::kNotRun:
      return "not_run";
    case RunOutcome::End::kFinished:
      return "finished";
    case RunOutcome::End::kOom:
      return "oom";
    case RunOutcome::End::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace pagestorm::bench::reproductions
