// What the scheduler keeps for a task, and where it keeps it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/raw_lock.h"
#include "core/task.h"
#include "core/units.h"
#include "sched/weights.h"

namespace pagestorm::sched {

inline constexpr std::uint32_t kNotQueued = UINT32_MAX;

// Guarded by the lock of the run queue it belongs to; a sleeping task's entity belongs to whoever
// sleeps or wakes it. Times in ns.
struct SchedEntity {
  Task* task = nullptr;
  // Time it has run, weighted. Absolute on `cpu`'s queue: comparable only with entities there.
  // Relative to the minimum of no queue while cpu is kNoCpu (new, or on its way between two).
  std::int64_t vruntime = 0;
  std::int64_t weight = kNice0Weight;
  std::int64_t sum_exec = 0;     // time it has run, ever
  std::int64_t stint_start = 0;  // sum_exec when it was last picked
  std::int64_t exec_start = 0;   // up to when it has been charged; after a stint: when it ended
  std::int64_t wake_clock = 0;   // the waker's time, carried from Place() to Enqueue()
  CpuId cpu = kNoCpu;            // whose queue it is on, runs on, or last was on
  std::uint32_t heap_index = kNotQueued;
  bool fresh = false;  // picked, but the switch to it is not over
  std::uint64_t migrations = 0;

  [[nodiscard]] bool queued() const { return heap_index != kNotQueued; }
};

inline SchedEntity& EntityOf(const Task& task) { return *static_cast<SchedEntity*>(task.sched); }

// Entities with stable addresses, recycled. Thread-safe.
class EntityPool {
 public:
  explicit EntityPool(EngineKind kind) : mu_(kind) {}

  SchedEntity& Take(Task& task);
  void Return(SchedEntity& entity);
  [[nodiscard]] std::size_t live() const { return storage_.size() - free_.size(); }

 private:
  RawLock mu_;  // guards both
  std::deque<SchedEntity> storage_;
  std::vector<SchedEntity*> free_;
};

}  // namespace pagestorm::sched
