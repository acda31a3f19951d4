// One CPU of the emulated machine, as both engines see it.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/units.h"

namespace pagestorm {

class Engine;
struct Task;
struct EhGlobals;

enum class CpuKind : std::uint8_t {
  kOnline,   // an online CPU: has run queue, per-CPU lists, counters
  kService,  // runs devices (and, in the threads engine, kswapd and kcompactd of its node); counted
             // nowhere
};

// Aligned so that two CPUs never share a cache line. Written by the CPU's own context, except
// need_resched and horizon, which anybody may lower to get its attention.
struct alignas(128) Cpu {
  std::int64_t clock = 0;                    // ns of emulated time this CPU has reached
  std::atomic<std::int64_t> horizon{0};      // a charge that reaches it enters the engine
  std::int64_t sync_at = 0;                  // virtual engine: the horizon while preempt == 0
  std::int64_t slice_end = 0;                // when the scheduler wants to look again
  std::atomic<Task*> current_task{nullptr};  // the task that runs here; nullptr while idle
  Engine* engine = nullptr;
  std::int32_t preempt = 0;  // > 0: a spin lock is held or preemption is off
  CpuId id;
  NodeId node;
  CpuKind kind = CpuKind::kOnline;
  std::atomic<bool> need_resched{false};  // the running task should give way at its next chance

  // An event of the virtual engine touches the first cache line alone, up to here.
  EhGlobals* eh = nullptr;  // of the OS thread this CPU runs on
  OwnedCounter idle_ns;
  OwnedCounter switches;  // context switches

  // Exact on this CPU; a glance from elsewhere is stale at once.
  [[nodiscard]] Task* current() const { return current_task.load(std::memory_order_relaxed); }
  void set_current(Task* task) { current_task.store(task, std::memory_order_relaxed); }
};

}  // namespace pagestorm
