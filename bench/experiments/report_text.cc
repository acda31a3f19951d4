#include "bench/experiments/report_text.h"

#include <algorithm>

#include "core/shared_line.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

std::int64_t Of(const Counters& counters, std::string_view name) {
  const auto found = std::find_if(counters.begin(), counters.end(),
                                  [&](const auto& counter) { return counter.first == name; });
  return found == counters.end() ? 0 : found->second;
}

std::int64_t Grown(const RunRecord& record, std::string_view name) {
  return Of(record.after, name) - Of(record.before, name);
}

double Seconds(Ns time) { return static_cast<double>(time.n) / 1e9; }

std::string Duration(const RunRecord& record) {
  const Engine::CpuTimes& times = record.outcome.times;
  const bool ended = record.outcome.main_end.n > 0;
  const Ns elapsed = ended ? record.outcome.main_end : record.outcome.run.emulated;
  return fmt::format("emulated time [s]: elapsed {:.3f}, user {:.3f}, system {:.3f}, idle {:.3f}\n",
                     Seconds(elapsed), Seconds(times.user), Seconds(times.system),
                     Seconds(times.idle));
}

std::string Memory(const RunRecord& record) {
  return fmt::format(
      "memory: {} swapped out, {} swapped in, {} major faults, {} direct reclaims, {} OOM kills\n"
      "reclaim: at most {} tasks at once, {} pages isolated, {}.{} % of a zone's LRU\n",
      Grown(record, "pswpout"), Grown(record, "pswpin"), Grown(record, "pgmajfault"),
      Grown(record, "allocstall"), record.oom_kills, record.peaks.reclaimers_max,
      record.peaks.isolated_max, record.peaks.isolated_share_max_permille / 10,
      record.peaks.isolated_share_max_permille % 10);
}

// Of the lock, or of the lines that stand in its place.
std::string LockLine(const RunRecord& record) {
  LockStats lock;
  LockStats line;
  LockStats cgroup;
  for (const ZoneRecord& zone : record.zones) {
    lock += zone.lru_lock;
    line += zone.lru_line;
    cgroup += zone.cgroup_lock;
  }
  const bool lines = line.acquisitions > 0;
  const LockStats& lru = lines ? line : lock;
  std::string text = fmt::format(
      "zone->{}: {} {}, {} contended, {:.6f} s waited; {:.2f} % of {:.3f} CPU s in reclaim\n",
      lines ? "lru lines" : "lru_lock", lru.acquisitions, lines ? "operations" : "acquisitions",
      lru.contentions, Seconds({lru.wait_ns}),
      static_cast<double>(record.lru_wait_share_ppm()) / 1e4,
      Seconds({record.peaks.shrinker_cpu_ns}));
  if (record.cgroups.empty()) return text;
  return text + fmt::format(
                    "locks of the cgroups' lists: {} acquisitions, {} contended, {:.6f} s waited\n",
                    cgroup.acquisitions, cgroup.contentions, Seconds({cgroup.wait_ns}));
}

std::string CgroupLine(const RunRecord& record) {
  if (record.cgroups.empty()) return {};
  CgroupRecord sum;
  std::int64_t at_limit = 0;
  for (const CgroupRecord& group : record.cgroups) {
    sum.failcnt += group.failcnt;
    sum.reclaims += group.reclaims;
    sum.reclaimed += group.reclaimed;
    sum.kills += group.kills;
    at_limit += group.max_usage == group.limit ? 1 : 0;
  }
  return fmt::format(
      "cgroups: {}, {} of them at their limit once; {} charges refused, {} limit reclaims, {} "
      "pages "
      "reclaimed, {} kills\n",
      record.cgroups.size(), at_limit, sum.failcnt, sum.reclaims, sum.reclaimed, sum.kills);
}

}  // namespace

std::string ReportText(const RunRecord& record) {
  const RunConfig& config = record.config;
  std::string text =
      fmt::format("{} on machine {} ({} CPUs, {} nodes, {} MiB), kernel {}, engine {}, seed {}\n",
                  config.workload, config.machine.name, record.topology.cpu_count(),
                  record.topology.node_count(), record.topology.TotalMemoryBytes() >> 20,
                  config.policy.name, EngineName(config.engine.kind), config.seed);
  for (const std::string& line : record.workload.out) text += line + "\n";
  text += Duration(record) + Memory(record) + LockLine(record) + CgroupLine(record);
  if (config.policy.throttle.gate != "none") {
    text += fmt::format("gate {}: at most {} tickets, {} waiting, {} cut off",
                        config.policy.throttle.gate, record.gate.tickets, record.gate.waiters,
                        record.gate.cut_offs);
    for (const auto& [name, number] : record.gate_numbers) {
      text += fmt::format(", {} {}", number, name);
    }
    text += "\n";
  }
  if (!record.outcome.run.stall_report.empty()) text += record.outcome.run.stall_report;
  const std::string verdict = record.verdict();
  if (!verdict.empty()) text += verdict + "\n";
  return text;
}

}  // namespace pagestorm::bench
