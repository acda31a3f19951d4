// The plainest scheduler: one FIFO queue a CPU, a fixed slice, idle CPUs pull from the longest
// queue.
//
// What core's own tests and micro-benchmarks run on, and a check that the engines need nothing of
// sched/. Thread-safe: one host lock over all queues.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/raw_lock.h"
#include "core/scheduler.h"

namespace pagestorm {

class FifoScheduler final : public Scheduler {
 public:
  // slice: how long a task runs while others wait on its CPU.
  FifoScheduler(EngineKind kind, Ns slice) : slice_(slice), mu_(kind) {}

  void Attach(Engine& engine) override;
  void TaskCreated(Task&, const Task*) override {}
  void TaskExited(Task&) override {}
  Cpu& Place(Task& task, EnqueueReason reason, Cpu* waker) override;
  bool Enqueue(Cpu& cpu, Task& task, EnqueueReason reason) override;
  Task* PickNext(Cpu& cpu, Task* prev) override;
  void PutPrev(Cpu& cpu, Task& prev) override;
  void Stopped(Cpu&, Task&) override {}
  std::int64_t SliceEnd(Cpu& cpu, Task& task) override;
  bool Tick(Cpu& cpu, Task& task) override;
  [[nodiscard]] std::int64_t QueuedRacy(const Cpu& cpu) const override;

 private:
  std::deque<Task*>& QueueOf(const Cpu& cpu) { return queues_[static_cast<std::size_t>(cpu.id.n)]; }
  Task* TakeAllowed(std::deque<Task*>& queue, const Cpu& cpu);

  const Ns slice_;
  Engine* engine_ = nullptr;
  mutable RawLock mu_;  // guards queues_
  std::vector<std::deque<Task*>> queues_;
};

}  // namespace pagestorm
