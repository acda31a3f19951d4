#include "core/fifo_scheduler.h"

#include <mutex>

#include "core/check.h"
#include "core/engine.h"

namespace pagestorm {

void FifoScheduler::Attach(Engine& engine) {
  engine_ = &engine;
  queues_.resize(engine.cpu_count());
}

Cpu& FifoScheduler::Place(Task& task, EnqueueReason, Cpu*) {
  std::lock_guard guard(mu_);
  // The shortest queue among the allowed CPUs, counting the running task; lowest number on a tie.
  Cpu* best = nullptr;
  std::size_t best_load = 0;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (!task.allowed.test(i)) continue;
    Cpu& cpu = engine_->cpu({static_cast<std::int32_t>(i)});
    const std::size_t load = queues_[i].size() + (cpu.current() != nullptr ? 1 : 0);
    if (best == nullptr || load < best_load) {
      best = &cpu;
      best_load = load;
    }
  }
  PS_CHECK(best != nullptr, "a task is allowed on no CPU");
  return *best;
}

bool FifoScheduler::Enqueue(Cpu& cpu, Task& task, EnqueueReason) {
  std::lock_guard guard(mu_);
  QueueOf(cpu).push_back(&task);
  return false;
}

Task* FifoScheduler::TakeAllowed(std::deque<Task*>& queue, const Cpu& cpu) {
  for (auto it = queue.begin(); it != queue.end(); ++it) {
    if (!(*it)->allowed.test(static_cast<std::size_t>(cpu.id.n))) continue;
    Task* task = *it;
    queue.erase(it);
    return task;
  }
  return nullptr;
}

Task* FifoScheduler::PickNext(Cpu& cpu, Task* prev) {
  std::lock_guard guard(mu_);
  if (Task* own = TakeAllowed(QueueOf(cpu), cpu)) return own;
  if (prev != nullptr) return prev;
  std::deque<Task*>* longest = nullptr;
  for (auto& queue : queues_) {
    if (!queue.empty() && (longest == nullptr || queue.size() > longest->size())) longest = &queue;
  }
  return longest != nullptr ? TakeAllowed(*longest, cpu) : nullptr;
}

void FifoScheduler::PutPrev(Cpu& cpu, Task& prev) {
  std::lock_guard guard(mu_);
  QueueOf(cpu).push_back(&prev);
}

std::int64_t FifoScheduler::SliceEnd(Cpu& cpu, Task&) { return cpu.clock + slice_.n; }

bool FifoScheduler::Tick(Cpu& cpu, Task&) { return QueuedRacy(cpu) > 0; }

std::int64_t FifoScheduler::QueuedRacy(const Cpu& cpu) const {
  std::lock_guard guard(mu_);
  return static_cast<std::int64_t>(queues_[static_cast<std::size_t>(cpu.id.n)].size());
}

}  // namespace pagestorm
