#include "sched/sched_policy.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace pagestorm::sched {
namespace {

absl::Status CheckRange(const char* key, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sched.", key, " = ", value, ": allowed are ", least, " .. ", most));
}

}  // namespace

SchedPolicy SchedPolicy::Linux2626() {
  SchedPolicy policy;
  policy.latency_ns = 20'000'000;
  policy.min_granularity_ns = 4'000'000;
  policy.wakeup_granularity_ns = 10'000'000;
  policy.scaling_cpus_max = 0;
  policy.hrtick = true;
  policy.gentle_fair_sleepers = false;
  policy.last_buddy = false;
  policy.tick_fairness = false;
  return policy;
}

absl::Status SchedPolicy::Validate() const {
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  // The bounds of latency and granularity are those of the kernel's sysctls: 0.1 ms to 1 s.
  for (const absl::Status& status :
       {CheckRange("latency_ns", latency_ns, 100'000, kSecondNs),
        CheckRange("min_granularity_ns", min_granularity_ns, 100'000, kSecondNs),
        CheckRange("wakeup_granularity_ns", wakeup_granularity_ns, 0, kSecondNs),
        CheckRange("migration_cost_ns", migration_cost_ns, 0, kSecondNs),
        CheckRange("scaling_cpus_max", scaling_cpus_max, 0, 1 << 20),
        CheckRange("nr_migrate", nr_migrate, 1, 1 << 20),
        CheckRange("tick_ns", tick_ns, 100'000, kSecondNs)}) {
    if (!status.ok()) return status;
  }
  if (min_granularity_ns > latency_ns) {
    return absl::InvalidArgumentError(
        absl::StrCat("sched.min_granularity_ns = ", min_granularity_ns,
                     ": allowed is at most latency_ns = ", latency_ns));
  }
  if (preempt == PreemptModel::kFull) {
    return absl::InvalidArgumentError(
        "sched.preempt = full: allowed is none (kernel code gives way at cond_resched only)");
  }
  return absl::OkStatus();
}

SchedPolicy SchedPolicy::Scaled(int online_cpus) const {
  PS_CHECK(online_cpus > 0);
  const int cpus = scaling_cpus_max > 0 ? std::min(online_cpus, scaling_cpus_max) : online_cpus;
  std::int64_t factor = 1;
  if (scaling == Scaling::kLog) factor = std::bit_width(static_cast<unsigned>(cpus));
  if (scaling == Scaling::kLinear) factor = cpus;
  SchedPolicy scaled = *this;
  scaled.scaling = Scaling::kNone;
  scaled.latency_ns *= factor;
  scaled.min_granularity_ns *= factor;
  scaled.wakeup_granularity_ns *= factor;
  return scaled;
}

}  // namespace pagestorm::sched
