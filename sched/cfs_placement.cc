// Where a task should run: CfsScheduler::Place and its helpers.
//
// All of it reads other CPUs' loads and idle bits without a lock, like the kernel: a stale value
// costs a detour and nothing else.
#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "core/check.h"
#include "core/engine.h"
#include "sched/cfs.h"

namespace pagestorm::sched {
namespace {

constexpr std::int64_t kImbalancePct = 125;  // of the levels above SMT; spec 1.6
// Half of what is above 100: the bias towards where the task was. Spec 1.9.
constexpr std::int64_t kHalfPct = 100 + (kImbalancePct - 100) / 2;
constexpr int kReclaimDistance =
    30;  // nodes farther apart are not woken or forked across; spec 1.6

bool Allows(const Task& task, CpuId cpu) {
  return task.allowed.test(static_cast<std::size_t>(cpu.n));
}

}  // namespace

Cpu& CfsScheduler::Place(Task& task, EnqueueReason reason, Cpu* waker) {
  SchedEntity& entity = EntityOf(task);
  entity.wake_clock = waker != nullptr ? waker->clock : 0;
  const bool woken = reason == EnqueueReason::kWake && Allows(task, entity.cpu);
  const CpuId target = woken ? PlaceWoken(task, entity.cpu, waker) : PlaceForked(task, waker);
  return engine_->cpu(target);
}

// The waker's CPU or the previous one, then an idle CPU near it. Source: spec 1.9 items 2-4. An
// idle previous CPU has no load, so WakeAffine() leaves the task there unless the waker's is idle,
// too.
CpuId CfsScheduler::PlaceWoken(const Task& task, CpuId prev, const Cpu* waker) const {
  CpuId target = prev;
  if (waker != nullptr && waker->id != prev && Allows(task, waker->id) &&
      topology_.Distance(NodeOf(waker->id), NodeOf(prev)) <= kReclaimDistance &&
      WakeAffine(waker->id, prev, EntityOf(task).weight)) {
    target = waker->id;
  }
  if (idle_.Test(target)) return target;
  if (const auto near = IdleSibling(task, target)) return *near;
  if (!policy_.wake_any_idle) return target;
  return IdleFarAway(task, target).value_or(target);
}

// Whether the waker's CPU would not be busier with the task than its previous one is. The powers
// are crossed as in the kernel.
bool CfsScheduler::WakeAffine(CpuId here, CpuId prev, std::int64_t weight) const {
  const std::int64_t this_load = queue(here).LoadRacy();
  const std::int64_t prev_load = queue(prev).LoadRacy();
  if (this_load == 0) return true;
  const std::int64_t this_eff = 100 * Power(prev) * (this_load + weight);
  const std::int64_t prev_eff = kHalfPct * Power(here) * prev_load;
  if (this_eff <= prev_eff) return true;
  const std::int64_t running = queue(here).NrRunningRacy();
  const std::int64_t average = running > 0 ? this_load / running : 0;
  return this_load <= prev_load && this_load + prev_load <= average;
}

// An idle CPU that shares the last-level cache with `target`: of a core that is idle as a whole,
// else a sibling of the target, else any.
std::optional<CpuId> CfsScheduler::IdleSibling(const Task& task, CpuId target) const {
  std::optional<CpuId> whole;
  std::optional<CpuId> sibling;
  std::optional<CpuId> any;
  ForEachCpu(LlcMask(target), idle_, words_, [&](CpuId cpu) {
    if (!Allows(task, cpu)) return false;
    if (CoreOf(cpu) == CoreOf(target)) {
      if (!sibling) sibling = cpu;
    } else if (WholeCoreIdle(CoreOf(cpu))) {
      whole = cpu;
    }
    if (!any) any = cpu;
    return whole.has_value();
  });
  if (whole) return whole;
  return sibling ? sibling : any;
}

bool CfsScheduler::WholeCoreIdle(int core) const {
  const CpuBits& mask = core_masks_[static_cast<std::size_t>(core)];
  for (std::size_t w = 0; w < words_; ++w) {
    if ((mask.words[w] & ~idle_.word(w)) != 0) return false;
  }
  return true;
}

std::optional<CpuId> CfsScheduler::IdleIn(const Task& task, const CpuBits& within) const {
  std::optional<CpuId> found;
  ForEachCpu(within, idle_, words_, [&](CpuId cpu) {
    if (!Allows(task, cpu)) return false;
    found = cpu;
    return true;
  });
  return found;
}

// Stands in for the balancer's visits to idle CPUs: the nearest idle CPU beyond the cache.
std::optional<CpuId> CfsScheduler::IdleFarAway(const Task& task, CpuId target) const {
  for (const int node : nodes_by_distance_[static_cast<std::size_t>(NodeOf(target))]) {
    if (const auto idle = IdleIn(task, node_masks_[static_cast<std::size_t>(node)])) return idle;
  }
  return std::nullopt;
}

// The idlest node, the parent's own unless another is clearly idler; then the idlest CPU there.
// Source: spec 1.9 item 1 with two levels, node and core.
CpuId CfsScheduler::PlaceForked(const Task& task, const Cpu* parent) const {
  std::vector<std::int64_t> load(topology_.nodes(), 0);
  std::vector<std::int64_t> power(topology_.nodes(), 0);
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (!task.allowed.test(i)) continue;
    const auto node = static_cast<std::size_t>(topology_.node[i]);
    load[node] += queues_[i]->LoadRacy();
    power[node] += power_[i];
  }
  const int home = parent != nullptr ? NodeOf(parent->id) : -1;
  int best = -1;
  std::int64_t best_average = 0;
  std::int64_t home_average = -1;
  for (std::size_t node = 0; node < load.size(); ++node) {
    if (power[node] == 0) continue;  // no CPU of it is allowed
    const std::int64_t average = load[node] * kNice0Weight / power[node];
    if (static_cast<int>(node) == home) home_average = average;
    if (best < 0 || average < best_average) {
      best = static_cast<int>(node);
      best_average = average;
    }
  }
  PS_CHECK(best >= 0, "a task is allowed on no CPU");
  if (home_average >= 0 && 100 * home_average <= kHalfPct * best_average) best = home;
  return IdlestCpu(task, best);
}

// By load of the core, then of the CPU; the lower number wins a tie.
CpuId CfsScheduler::IdlestCpu(const Task& task, int node) const {
  std::vector<std::int64_t> core_load(core_masks_.size(), 0);
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (topology_.node[i] == node) {
      core_load[static_cast<std::size_t>(topology_.core[i])] += queues_[i]->LoadRacy();
    }
  }
  CpuId best = kNoCpu;
  std::int64_t best_core = 0;
  std::int64_t best_load = 0;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (topology_.node[i] != node || !task.allowed.test(i)) continue;
    const std::int64_t core = core_load[static_cast<std::size_t>(topology_.core[i])];
    const std::int64_t load = queues_[i]->LoadRacy();
    if (best == kNoCpu || std::tie(core, load) < std::tie(best_core, best_load)) {
      best = {static_cast<std::int32_t>(i)};
      best_core = core;
      best_load = load;
    }
  }
  PS_CHECK(best != kNoCpu);
  return best;
}

}  // namespace pagestorm::sched
