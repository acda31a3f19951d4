// Who runs where and when: the questions an engine asks, answered by sched/.
//
// Place and Enqueue may be called from any CPU for any CPU. PickNext, PutPrev, Stopped, SliceEnd
// and Tick are called by the CPU itself (in the virtual engine: on its behalf). An implementation
// guards its queues with RawLock; it never blocks, charges or calls back into the engine's blocking
// part.
#pragma once

#include <cstdint>

#include "core/cpu.h"
#include "core/task.h"

namespace pagestorm {

class Engine;

enum class EnqueueReason : std::uint8_t { kFork, kWake };

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Called once, before any task exists; the engine's CPUs are final.
  virtual void Attach(Engine& engine) = 0;
  // A task was created or is about to be freed. `parent` is nullptr for tasks spawned before Run().
  virtual void TaskCreated(Task& task, const Task* parent) = 0;
  virtual void TaskExited(Task& task) = 0;

  // The CPU a new or waking task should be queued on, within task.allowed.
  //   waker: the CPU that creates or wakes it; nullptr for a timer.
  virtual Cpu& Place(Task& task, EnqueueReason reason, Cpu* waker) = 0;
  // Puts a runnable task on the queue of `cpu`. Returns true if cpu's running task should be
  // preempted.
  virtual bool Enqueue(Cpu& cpu, Task& task, EnqueueReason reason) = 0;

  // The task to run next on `cpu`, taken off its queue, or pulled from another CPU's when there is
  // none; nullptr: idle.  prev: the task running now if it could go on, else nullptr. May return
  // prev.
  virtual Task* PickNext(Cpu& cpu, Task* prev) = 0;
  // `prev` was preempted for another task; its context is saved now and it goes back to the queue.
  virtual void PutPrev(Cpu& cpu, Task& prev) = 0;
  // `prev` went to sleep or died: the stint it ran is over.
  virtual void Stopped(Cpu& cpu, Task& prev) = 0;

  // `task` starts to run on `cpu` now. Returns the emulated time at which Tick() wants to be asked.
  virtual std::int64_t SliceEnd(Cpu& cpu, Task& task) = 0;
  // That time has come. Returns true if the running task should be preempted. Otherwise SliceEnd()
  // is asked again.
  virtual bool Tick(Cpu& cpu, Task& task) = 0;

  // Tasks queued (not running) on a CPU, racy; for reports and idle decisions.
  [[nodiscard]] virtual std::int64_t QueuedRacy(const Cpu& cpu) const = 0;
};

}  // namespace pagestorm
