#include "sched/run_queue.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace pagestorm::sched {

RunQueue::RunQueue(EngineKind kind, CpuId cpu, const SchedPolicy& policy)
    : mu_(kind), policy_(policy), cpu_(cpu), next_tick_(policy.tick_ns) {}

void RunQueue::UpdateCurr(std::int64_t now) {
  latest_ = std::max(latest_, now);
  if (curr_ == nullptr || curr_->fresh) return;
  const std::int64_t delta = now - curr_->exec_start;
  if (delta <= 0) return;
  curr_->exec_start = now;
  curr_->sum_exec += delta;
  curr_->vruntime += ToVirtual(delta, curr_->weight);
  MoveMinVruntime();
}

void RunQueue::MoveMinVruntime() {
  std::int64_t least = INT64_MAX;
  if (curr_ != nullptr) least = curr_->vruntime;
  if (!heap_.empty()) least = std::min(least, heap_.top().vruntime);
  if (least != INT64_MAX && least > min_vruntime()) min_vruntime_.store(least, kRelaxed);
}

void RunQueue::Admit(SchedEntity& entity, Arrival how, std::int64_t old_min) {
  if (entity.cpu != cpu_) {
    entity.vruntime += min_vruntime() - old_min;
    if (how != Arrival::kFork) ++entity.migrations;
    entity.cpu = cpu_;
  }
  if (how == Arrival::kFork) {
    ++stats_.forks;
    const std::int64_t slice = SliceNs(entity.weight, nr_running() + 1, load() + entity.weight);
    const std::int64_t debit = policy_.start_debit ? ToVirtual(slice, entity.weight) : 0;
    entity.vruntime = std::max(entity.vruntime, min_vruntime() + debit);
  } else if (how == Arrival::kWake) {
    ++stats_.wakeups;
    entity.vruntime = std::max(entity.vruntime, min_vruntime() - policy_.SleeperCreditNs());
  }
  Count(1, entity.weight);
  Insert(entity);
  MoveMinVruntime();
}

bool RunQueue::ShouldPreempt(SchedEntity& arrived) {
  if (curr_ == nullptr || !policy_.wakeup_preemption || policy_.order == QueueOrder::kFifo) {
    return false;
  }
  if (!TooFarBehind(*curr_, arrived)) return false;
  next_ = &arrived;
  if (policy_.last_buddy && nr_running() >= policy_.NrLatency()) last_ = curr_;
  asked_ = true;
  ++stats_.wakeup_preemptions;
  return true;
}

bool RunQueue::TickPreempts() {
  if (curr_ == nullptr || heap_.empty()) return false;
  const std::int64_t ran = curr_->sum_exec - curr_->stint_start;
  const std::int64_t slice = SliceNs(curr_->weight);
  // Without hrtick a slice that ends exactly at the tick goes on, as in the kernel.
  bool preempt = policy_.hrtick ? ran >= slice : ran > slice;
  if (!preempt && policy_.tick_fairness && policy_.order == QueueOrder::kFair) {
    preempt = ran >= policy_.min_granularity_ns && curr_->vruntime - heap_.top().vruntime > slice;
  }
  if (!preempt) return false;
  if (last_ == curr_) last_ = nullptr;  // it had its turn
  asked_ = true;
  ++stats_.tick_preemptions;
  return true;
}

SchedEntity* RunQueue::Pick(std::int64_t now) {
  SchedEntity* prev = curr_;
  const bool yields = !std::exchange(asked_, false);
  if (prev == nullptr && heap_.empty()) {
    idle_ = true;
    return nullptr;
  }
  SchedEntity* next = heap_.empty() ? prev : &Choose(yields);
  if (prev != nullptr && yields && next != prev) ++stats_.yields;
  if (next != prev) Extract(*next);
  if (next_ == next) next_ = nullptr;
  if (last_ == next) last_ = nullptr;
  curr_ = next;
  next->stint_start = next->sum_exec;
  next->exec_start = now;
  next->fresh = true;
  return next;
}

// The leftmost task; but the one that preempts, then the one that was preempted before, if that is
// not too unfair to the leftmost. A task that yields does not take part.
SchedEntity& RunQueue::Choose(bool yields) const {
  SchedEntity* left = &heap_.top();
  if (policy_.order == QueueOrder::kFifo) return *left;
  if (curr_ != nullptr && !yields &&
      std::pair(curr_->vruntime, curr_->task->id) < std::pair(left->vruntime, left->task->id)) {
    left = curr_;
  }
  for (SchedEntity* buddy : {next_, last_}) {
    if (buddy != nullptr && buddy->queued() && !TooFarBehind(*buddy, *left)) return *buddy;
  }
  return *left;
}

void RunQueue::PutBack(SchedEntity& entity) {
  PS_CHECK(&entity != curr_ && entity.cpu == cpu_);
  entity.fresh = false;
  Insert(entity);
}

void RunQueue::Begin(std::int64_t now) {
  latest_ = std::max(latest_, now);
  if (std::exchange(idle_, false)) PassTicks(now, 0);
  if (curr_ == nullptr || !curr_->fresh) return;
  curr_->fresh = false;
  curr_->exec_start = now;
}

void RunQueue::Leave() {
  PS_CHECK(curr_ != nullptr);
  SchedEntity& entity = *std::exchange(curr_, nullptr);
  if (last_ == &entity) last_ = nullptr;
  entity.fresh = false;
  asked_ = false;
  Count(-1, -entity.weight);
  MoveMinVruntime();
}

SchedEntity* RunQueue::TakeMovable(CpuId to, std::int64_t now) {
  const std::size_t looked = std::min(heap_.size(), static_cast<std::size_t>(policy_.nr_migrate));
  SchedEntity* found = nullptr;
  for (std::size_t i = 0; i < looked; ++i) {
    SchedEntity* candidate = heap_.slots()[i].entity;
    if (!candidate->task->allowed.test(static_cast<std::size_t>(to.n))) continue;
    if (now - candidate->exec_start >= policy_.migration_cost_ns) {
      found = candidate;
      break;
    }
    if (found == nullptr) found = candidate;
  }
  if (found == nullptr) return nullptr;
  Extract(*found);
  if (next_ == found) next_ = nullptr;
  if (last_ == found) last_ = nullptr;
  Count(-1, -found->weight);
  found->vruntime -= min_vruntime();
  found->cpu = kNoCpu;
  ++stats_.pulled_away;
  return found;
}

void RunQueue::PassTicks(std::int64_t now, std::int64_t load) {
  if (now < next_tick_) return;
  const std::int64_t ticks = (now - next_tick_) / policy_.tick_ns + 1;
  cpu_load_.Ticks(ticks, load);
  next_tick_ += ticks * policy_.tick_ns;
}

std::int64_t RunQueue::NextLook(std::int64_t now) const {
  const std::int64_t tick = (now / policy_.tick_ns + 1) * policy_.tick_ns;
  if (!policy_.hrtick || curr_ == nullptr || heap_.empty()) return tick;
  const std::int64_t ran = curr_->sum_exec - curr_->stint_start;
  const std::int64_t end = curr_->exec_start + SliceNs(curr_->weight) - ran;
  return end > now ? std::min(tick, end) : tick;
}

void RunQueue::Insert(SchedEntity& entity) {
  heap_.Push(entity, policy_.order == QueueOrder::kFair ? entity.vruntime : ++arrivals_);
  waiting_.store(static_cast<std::int64_t>(heap_.size()), kRelaxed);
}

void RunQueue::Extract(SchedEntity& entity) {
  heap_.Remove(entity);
  waiting_.store(static_cast<std::int64_t>(heap_.size()), kRelaxed);
}

void RunQueue::Count(std::int64_t tasks, std::int64_t weight) {
  nr_running_.store(nr_running() + tasks, kRelaxed);
  load_.store(load() + weight, kRelaxed);
}

void RunQueue::CheckInvariants() const {
  heap_.CheckInvariants();
  std::int64_t weight = 0;
  for (const EntityHeap::Slot& slot : heap_.slots()) {
    PS_CHECK(slot.entity->cpu == cpu_ && slot.entity != curr_);
    if (policy_.order == QueueOrder::kFair) PS_CHECK(slot.key == slot.entity->vruntime);
    weight += slot.entity->weight;
  }
  if (curr_ != nullptr) {
    PS_CHECK(curr_->cpu == cpu_ && !curr_->queued());
    weight += curr_->weight;
  }
  PS_CHECK(load() >= weight, "weights are lost");
  PS_CHECK(nr_running() >= static_cast<std::int64_t>(heap_.size()) + (curr_ != nullptr ? 1 : 0));
  PS_CHECK(next_ == nullptr || next_->queued());
}

}  // namespace pagestorm::sched
