#include "bench/experiments/record.h"

namespace pagestorm::bench {

std::string_view RunEndName(RunEnd end) {
  switch (end) {
    case RunEnd::kDone:
      return "done";
    case RunEnd::kStopped:
      return "interrupted";
    case RunEnd::kTimeLimit:
      return "time_limit";
    case RunEnd::kSlip:
      return "host_too_slow";
    case RunEnd::kStalled:
      return "stalled";
  }
  return "";
}

std::int64_t RunRecord::lru_wait_in_reclaim_ns() const {
  std::int64_t sum = 0;
  for (const ZoneRecord& zone : zones) {
    sum += zone.lru_lock.window_wait_ns + zone.lru_line.window_wait_ns +
           zone.cgroup_lock.window_wait_ns;
  }
  return sum;
}

std::int64_t RunRecord::lru_wait_share_ppm() const {
  // In parts of a microsecond, so that a million times it fits for all of an engine's 4.8 hours on
  // a thousand CPUs.
  const std::int64_t whole = peaks.shrinker_cpu_ns / 1000;
  return whole == 0 ? 0 : lru_wait_in_reclaim_ns() * 1000 / whole;
}

ExitCode RunRecord::exit_code() const {
  if (!outcome.broken.empty()) return kExitFailed;
  if (outcome.panicked) return kExitStalled;
  switch (outcome.run.end) {
    case RunEnd::kStalled:
      return kExitStalled;
    case RunEnd::kStopped:
      return kExitInterrupted;
    case RunEnd::kTimeLimit:
      return kExitFailed;
    case RunEnd::kSlip:
      return kExitFailed;
    case RunEnd::kDone:
      break;
  }
  if (outcome.main == ProcessTable::MainEnd::kNotStarted) return kExitFailed;
  return workload.ok ? kExitDone : kExitFailed;
}

std::string RunRecord::verdict() const {
  if (!outcome.broken.empty()) return "invariant broken: " + outcome.broken;
  if (outcome.panicked)
    return "the emulated machine died of a kernel panic: the end of its dmesg says why";
  switch (outcome.run.end) {
    case RunEnd::kStalled:
      return "stalled: no task can ever run again";
    case RunEnd::kStopped:
      return "interrupted: the results are partial";
    case RunEnd::kTimeLimit:
      return config.engine.time_limit_s > 0
                 ? "cut at engine.time_limit_s: the results are partial"
                 : "cut where the engine's clock ends: the results are partial";
    case RunEnd::kSlip:
      return "the host could not keep up (engine.strict)";
    case RunEnd::kDone:
      break;
  }
  if (outcome.main == ProcessTable::MainEnd::kNotStarted) {
    return "the workload's first process could not be started";
  }
  return workload.ok ? "" : "workload failed: " + workload.failure;
}

}  // namespace pagestorm::bench
