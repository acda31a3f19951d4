#include "sched/entity.h"

#include <mutex>

#include "core/check.h"

namespace pagestorm::sched {

SchedEntity& EntityPool::Take(Task& task) {
  std::lock_guard guard(mu_);
  if (free_.empty()) {
    storage_.emplace_back();
    free_.push_back(&storage_.back());
  }
  SchedEntity& entity = *free_.back();
  free_.pop_back();
  entity = {};
  entity.task = &task;
  entity.weight = WeightOfNice(task.nice);
  task.sched = &entity;
  return entity;
}

void EntityPool::Return(SchedEntity& entity) {
  PS_CHECK(!entity.queued(), "a task on a run queue is freed");
  std::lock_guard guard(mu_);
  entity.task->sched = nullptr;
  entity.task = nullptr;
  free_.push_back(&entity);
}

}  // namespace pagestorm::sched
