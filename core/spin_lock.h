// The emulated kernel's spin lock: costs modelled time, is contended under both engines, counts its
// waits.
//
// Virtual engine: lock() is a synchronisation point before it takes the lock; inside the critical
// section charges advance this CPU's clock but let nobody else run, so the lock carries the time at
// which it becomes free instead of being seen held. A CPU that arrives earlier than that waits, in
// order of arrival, by moving its clock there. With EngineConfig sync_in_cs (a test mode) charges
// inside do let others run; then locks are seen held and waiters queue.
// Threads engine: a real, unfair lock that spins briefly and then sleeps on a futex. Never a ticket
// lock: with more CPUs than host cores its next owner is usually not running.
//
// While a task holds one its fiber never switches, and it must not block. Ranks (core/lock_rank.h)
// are checked in every build.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "core/check.h"
#include "core/engine.h"
#include "core/lock_rank.h"

namespace pagestorm {

// Since construction or the last ResetStats(). Times are emulated ns.
struct LockStats {
  std::uint64_t acquisitions = 0;
  std::uint64_t contentions = 0;  // acquisitions that had to wait
  std::int64_t wait_ns = 0;
  std::int64_t wait_ns_max = 0;
  // Of the waiting, the part by tasks with Task::in_window set, as their clocks saw it.
  std::int64_t window_wait_ns = 0;
  std::int64_t hold_ns = 0;
  std::int64_t hold_ns_max = 0;

  // Sums; maxima stay maxima.
  LockStats& operator+=(const LockStats& other);
  friend LockStats operator+(LockStats a, const LockStats& b) { return a += b; }
};

class ABSL_LOCKABLE SpinLock {
 public:
  // class_name: what /proc/lock_stat would call it; a string literal.
  SpinLock(Engine& engine, LockRank rank, const char* class_name);
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    Task& task = Current();
    PushRank(task);
    Cpu& cpu = *task.cpu;
    if (!virtual_) return LockThreads(cpu, task);
    const std::int64_t cost = AcquireCost(cpu);
    task.stime += cost;
    cpu.clock += cost;
    if (cpu.clock >= cpu.horizon.load(std::memory_order_relaxed)) [[unlikely]] {
      cpu.engine->ChargeSlow(cpu);  // everyone whose clock is behind runs first
    }
    if (cpu.preempt++ == 0 && !sync_in_cs_) cpu.horizon.store(kNever, std::memory_order_relaxed);
    if (owner_ != nullptr || free_at_ > cpu.clock) [[unlikely]]
      cpu.engine->LockSlow(*this);
    Acquired(task, cpu);
  }

  // Takes the lock unless someone holds it (virtual engine: at this CPU's time).
  [[nodiscard]] bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true);

  void unlock() ABSL_UNLOCK_FUNCTION() {
    Task& task = Current();
    Cpu& cpu = *task.cpu;
    PS_DCHECK(owner_ == &task);
    const std::int64_t hold = cpu.clock - acquired_at_;
    stats_.hold_ns += hold;
    if (hold > stats_.hold_ns_max) stats_.hold_ns_max = hold;
    owner_ = nullptr;
    if (!virtual_) return UnlockThreads(cpu, task);
    free_at_ = cpu.clock;
    PopRank(task);
    if (first_waiter_ != nullptr) [[unlikely]]
      cpu.engine->UnlockSlow(*this);
    if (--cpu.preempt == 0) {
      cpu.horizon.store(cpu.sync_at, std::memory_order_relaxed);
      if (cpu.clock >= cpu.sync_at) cpu.engine->ChargeSlow(cpu);
    }
  }

  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() { PS_DCHECK(owner_ == &Current()); }

  // Exact while the lock is held or the machine is stopped.
  [[nodiscard]] const LockStats& stats() const { return stats_; }
  void ResetStats() { stats_ = {}; }
  [[nodiscard]] const char* class_name() const { return class_name_; }

 private:
  friend class VirtualEngine;
  friend class ThreadsEngine;

  void PushRank(Task& task) const {
    PS_CHECK(task.held_count == 0 || task.held[task.held_count - 1U] < rank_, class_name_);
    PS_CHECK(task.held_count < task.held.size());
    task.held[task.held_count++] = rank_;
  }
  void PopRank(Task& task) const {
    PS_CHECK(task.held_count > 0 && task.held[task.held_count - 1U] == rank_, class_name_);
    --task.held_count;
  }
  std::int64_t AcquireCost(const Cpu& cpu) const {
    return last_cpu_ == cpu.id ? lock_ns_ : lock_ns_ + TransferCost(cpu);
  }
  std::int64_t TransferCost(const Cpu& cpu) const;
  void Acquired(Task& task, const Cpu& cpu) {
    owner_ = &task;
    last_cpu_ = cpu.id;
    acquired_at_ = cpu.clock;
    ++stats_.acquisitions;
  }
  void LockThreads(Cpu& cpu, Task& task);
  void UnlockThreads(Cpu& cpu, Task& task);
  void PayAcquisition(Cpu& cpu, Task& task) const;

  const bool virtual_;
  const bool sync_in_cs_;
  const LockRank rank_;
  std::atomic<std::uint32_t> word_{0};  // threads engine: 0 free, 1 held, 2 held and someone sleeps
  CpuId last_cpu_ = kNoCpu;
  // Written by the holder. Relaxed atomic only so that a report may look at it while others run.
  Task* owner_ = nullptr;
  std::int64_t free_at_ = 0;  // virtual engine: emulated time of the last release
  std::int64_t acquired_at_ = 0;
  Task* first_waiter_ = nullptr;  // virtual engine, sync_in_cs: FIFO, linked through the engine
  LockStats stats_;
  const std::int64_t lock_ns_;
  Engine& engine_;
  const char* const class_name_;
};

class ABSL_SCOPED_LOCKABLE SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) ABSL_EXCLUSIVE_LOCK_FUNCTION(lock) : lock_(lock) {
    lock_.lock();
  }
  ~SpinGuard() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace pagestorm
