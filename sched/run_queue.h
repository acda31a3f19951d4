// The run queue of one CPU: who waits, who runs, and the rules of virtual time between them.
//
// Source of every rule: spec numa-balancing-v5 1.4. A queue knows no other queue and no engine; who
// is placed where is CfsScheduler's business (sched/cfs.h).
//
// Invariants, verified by CheckInvariants():
//   - the running task is not in the heap;
//   - nr_running and load count the waiting tasks, the running one and the one that has just been
//     preempted and is on its way back (PutBack);
//   - min_vruntime never decreases.
// All methods need mu() held, except those that end in Racy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/raw_lock.h"
#include "core/units.h"
#include "sched/cpu_load.h"
#include "sched/entity.h"
#include "sched/entity_heap.h"
#include "sched/sched_policy.h"

namespace pagestorm::sched {

enum class Arrival : std::uint8_t { kFork, kWake, kMove };

struct RunQueueStats {
  std::uint64_t wakeups = 0;
  std::uint64_t forks = 0;
  std::uint64_t wakeup_preemptions = 0;
  std::uint64_t tick_preemptions = 0;
  std::uint64_t yields = 0;
  std::uint64_t pulled = 0;       // tasks that this CPU pulled from others
  std::uint64_t pulled_away = 0;  // tasks that others pulled
};

class alignas(128) RunQueue {
 public:
  //   policy: scaled, outlives the queue.
  RunQueue(EngineKind kind, CpuId cpu, const SchedPolicy& policy);

  [[nodiscard]] RawLock& mu() const { return mu_; }

  // Charges the running task up to `now` and moves min_vruntime.
  void UpdateCurr(std::int64_t now);
  // `entity` becomes runnable here.
  //   old_min: the min_vruntime of the queue its vruntime belongs to, if that is another one; 0 for
  //     an entity of no queue.
  void Admit(SchedEntity& entity, Arrival how, std::int64_t old_min);
  // Whether a task that has just arrived should preempt the running one; if so, it is remembered as
  // next to run.
  bool ShouldPreempt(SchedEntity& arrived);
  // Whether the running task has had its slice, or is too far ahead.
  bool TickPreempts();
  // The task to run next, now the running one; nullptr if there is none. May be the running one
  // again. If it is another, the one preempted comes back with PutBack().
  SchedEntity* Pick(std::int64_t now);
  void PutBack(SchedEntity& entity);
  // The switch to the running task is over. Ticks that an idle CPU did not take are made up for.
  void Begin(std::int64_t now);
  // The running task sleeps or dies.
  void Leave();
  // A waiting task that may and should move to `to`: the first that is cache-cold among the first
  // policy.nr_migrate, else the first of these that may move at all; nullptr if there is none.
  // It leaves the queue and belongs to none.
  SchedEntity* TakeMovable(CpuId to, std::int64_t now);
  // Updates the averages for the ticks that have passed.
  void AccountTicks(std::int64_t now) { PassTicks(now, load()); }

  // ns that a task of this weight runs before others get their turn.
  [[nodiscard]] std::int64_t SliceNs(std::int64_t weight) const {
    return SliceNs(weight, nr_running(), load());
  }
  // When the running task should be looked at again.
  [[nodiscard]] std::int64_t NextLook(std::int64_t now) const;

  [[nodiscard]] SchedEntity* curr() const { return curr_; }
  [[nodiscard]] std::int64_t latest() const { return latest_; }
  [[nodiscard]] const CpuLoad& cpu_load() const { return cpu_load_; }
  [[nodiscard]] RunQueueStats& stats() { return stats_; }
  [[nodiscard]] const RunQueueStats& stats() const { return stats_; }
  [[nodiscard]] std::int64_t min_vruntime() const { return MinVruntimeRacy(); }
  [[nodiscard]] std::int64_t nr_running() const { return NrRunningRacy(); }
  [[nodiscard]] std::int64_t load() const { return LoadRacy(); }
  [[nodiscard]] bool has_waiting() const { return !heap_.empty(); }

  [[nodiscard]] std::int64_t MinVruntimeRacy() const { return min_vruntime_.load(kRelaxed); }
  [[nodiscard]] std::int64_t NrRunningRacy() const { return nr_running_.load(kRelaxed); }
  [[nodiscard]] std::int64_t LoadRacy() const { return load_.load(kRelaxed); }
  [[nodiscard]] std::int64_t WaitingRacy() const { return waiting_.load(kRelaxed); }

  void CheckInvariants() const;

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;  // written under mu_

  [[nodiscard]] std::int64_t SliceNs(std::int64_t weight, std::int64_t running,
                                     std::int64_t load) const {
    return policy_.PeriodNs(running) * weight / load;
  }
  SchedEntity& Choose(bool yields) const;
  // Whether running `late` before `early` would be too unfair to `early`.
  [[nodiscard]] bool TooFarBehind(const SchedEntity& late, const SchedEntity& early) const {
    return late.vruntime - early.vruntime > ToVirtual(policy_.wakeup_granularity_ns, early.weight);
  }
  void PassTicks(std::int64_t now, std::int64_t load);
  void Insert(SchedEntity& entity);
  void Extract(SchedEntity& entity);
  void Count(std::int64_t tasks, std::int64_t weight);
  void MoveMinVruntime();

  mutable RawLock mu_;  // guards everything below
  const SchedPolicy& policy_;
  const CpuId cpu_;
  EntityHeap heap_;
  SchedEntity* curr_ = nullptr;
  SchedEntity* next_ = nullptr;  // waiting: it preempts the running task
  SchedEntity* last_ = nullptr;  // running or waiting: it was preempted and its cache is warm
  bool idle_ = true;
  bool asked_ = false;       // the running task gives way because we asked, not by itself
  std::int64_t latest_ = 0;  // the latest time seen here
  std::int64_t next_tick_ = 0;
  std::int64_t arrivals_ = 0;  // key of the fifo order
  std::atomic<std::int64_t> min_vruntime_{0};
  std::atomic<std::int64_t> nr_running_{0};
  std::atomic<std::int64_t> load_{0};
  std::atomic<std::int64_t> waiting_{0};
  CpuLoad cpu_load_;
  RunQueueStats stats_;
};

}  // namespace pagestorm::sched
