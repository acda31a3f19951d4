// What differs between the fair schedulers of two kernels, as plain data.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace pagestorm::sched {

// How the three time values grow with the number of online CPUs.
enum class Scaling : std::uint8_t { kNone, kLog, kLinear };
enum class QueueOrder : std::uint8_t {
  kFair,  // smallest vruntime first
  kFifo,  // first come, first served; slices as in kFair. An ablation, no kernel of ours
};
enum class PreemptModel : std::uint8_t {
  kNone,  // user mode anywhere, the kernel only where it calls cond_resched: what the engines do
  kFull,  // refused by Validate(): the engines never preempt inside kernel code
};

struct SchedPolicy {
  // Unscaled, in ns: the period in which every task runs once, the shortest share of it, and the
  // lead in virtual time a waking task needs to preempt.
  std::int64_t latency_ns = 6'000'000;
  std::int64_t min_granularity_ns = 750'000;
  std::int64_t wakeup_granularity_ns = 1'000'000;
  Scaling scaling = Scaling::kLog;
  int scaling_cpus_max = 8;  // CPUs beyond do not scale further; 0: no bound
  // A task that ran less than this many ns ago counts as cache-hot (never scaled).
  std::int64_t migration_cost_ns = 500'000;
  int nr_migrate = 32;  // queued tasks looked at by one attempt to pull

  std::int64_t tick_ns = 4'000'000;  // a jiffy: 1 s / HZ
  bool hrtick = false;               // slices end on time instead of at the next tick

  bool gentle_fair_sleepers = true;  // sleeper credit is half a latency instead of a whole one
  bool start_debit = true;           // a new task starts a slice behind
  bool wakeup_preemption = true;
  bool last_buddy = true;     // a preempted task comes back first, if that is not too unfair
  bool tick_fairness = true;  // rule (b) of tick preemption: far ahead of the leftmost task
  bool idle_stealing = true;  // a CPU that would go idle pulls a task
  bool wake_any_idle =
      true;  // without an idle CPU near, a waking task goes to an idle one far away
  QueueOrder order = QueueOrder::kFair;
  PreemptModel preempt = PreemptModel::kNone;

  // Linux 3.9. Source: spec numa-balancing-v5 1.3 and 1.4; HZ: the Kconfig default (0.3).
  static SchedPolicy Linux39() { return {}; }
  // Linux 2.6.26: 80 / 16 / 40 ms with 8 CPUs and a sleeper credit of a whole latency. Source:
  // engine notes 12. Exact slices because the figures there were found with them; last_buddy and
  // tick_fairness are later inventions (medium confidence: no source of the era at hand).
  static SchedPolicy Linux2626();

  // InvalidArgument with key, value and what is allowed.
  [[nodiscard]] absl::Status Validate() const;
  // The same policy with the values of a machine with that many online CPUs, scaling kNone.
  [[nodiscard]] SchedPolicy Scaled(int online_cpus) const;
  // The most tasks that share one latency; beyond, everybody gets min_granularity.
  [[nodiscard]] std::int64_t NrLatency() const {
    return (latency_ns + min_granularity_ns - 1) / min_granularity_ns;
  }
  // In which every one of `running` tasks runs once.
  [[nodiscard]] std::int64_t PeriodNs(std::int64_t running) const {
    return running <= NrLatency() ? latency_ns : running * min_granularity_ns;
  }
  [[nodiscard]] std::int64_t SleeperCreditNs() const {
    return gentle_fair_sleepers ? latency_ns / 2 : latency_ns;
  }

  friend bool operator==(const SchedPolicy&, const SchedPolicy&) = default;
};

}  // namespace pagestorm::sched
