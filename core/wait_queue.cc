#include "core/wait_queue.h"

#include <mutex>

#include "core/check.h"

namespace pagestorm {

WaitQueue::WaitQueue(Engine& engine, const char* name, std::int64_t number)
    : engine_(engine), name_(name), number_(number), mu_(engine.kind()) {}

WaitQueue::~WaitQueue() { PS_CHECK(head_ == nullptr, name_); }

WaitQueue::Scope::Scope(WaitQueue& queue, const WaitOptions& options)
    : queue_(queue), options_(options) {
  Task& task = Current();
  PS_CHECK(!task.cancelling, "blocking call while a cancelled task unwinds");
  PS_CHECK(task.cpu->preempt == 0, "blocking call under a spin lock");
  waiter_.task = &task;
  waiter_.exclusive = options.exclusive;
  task.waiting_on = &queue;
  task.waiting_for = options.holder;
}

WaitQueue::Scope::~Scope() {
  Task& task = *waiter_.task;
  Leave();
  if (waiter_.exclusive && woken() && !satisfied_) queue_.PassOn();
  TaskState announced = TaskState::kSleeping;
  task.state.compare_exchange_strong(announced, TaskState::kRunning);
  task.waiting_on = nullptr;
  task.waiting_for = {};
}

void WaitQueue::Scope::Leave() {
  std::lock_guard guard(queue_.mu_);
  if (waiter_.queued) queue_.Remove(waiter_);
}

void WaitQueue::Scope::Prepare() {
  std::lock_guard guard(queue_.mu_);
  if (!waiter_.queued) {
    waiter_.woken.store(false, std::memory_order_relaxed);  // an earlier wake has been answered
    queue_.Insert(waiter_, !options_.exclusive && !options_.at_tail);
  }
  if (waiter_.task->state.load(std::memory_order_relaxed) == TaskState::kRunning) {
    SetState(*waiter_.task, TaskState::kSleeping);
  }
}

void WaitQueue::Scope::Sleep(std::int64_t deadline) {
  Task& task = *waiter_.task;
  if (options_.interruptible || options_.killable) {
    task.interruptible.store(true);
    if (task.fatal_signal.load()) {
      task.interruptible.store(false);
      if (options_.killable) return;  // the caller looks for the signal before its next sleep
      task.cancelling = true;
      throw Cancelled{};
    }
  }
  queue_.engine_.Block(deadline, options_.housekeeping);
  task.interruptible.store(false, std::memory_order_relaxed);
}

bool WaitQueue::WaitForWake(Ns timeout, WaitOptions options) {
  const std::int64_t deadline = timeout.n == kNever ? kNever : FreshNow().n + timeout.n;
  Scope scope(*this, options);
  scope.Prepare();
  while (!scope.woken()) {
    if (Now().n >= deadline) return false;
    scope.Sleep(deadline);
    if (!scope.woken()) scope.Prepare();
  }
  scope.Satisfied();
  return true;
}

void WaitQueue::Insert(Waiter& waiter, bool at_head) {
  waiter.queued = true;
  ++waiters_;
  waiter.prev = waiter.next = nullptr;
  if (head_ == nullptr) {
    head_ = tail_ = &waiter;
  } else if (at_head) {
    waiter.next = head_;
    head_->prev = &waiter;
    head_ = &waiter;
  } else {
    waiter.prev = tail_;
    tail_->next = &waiter;
    tail_ = &waiter;
  }
}

void WaitQueue::Remove(Waiter& waiter) {
  PS_CHECK(waiter.queued);
  waiter.queued = false;
  --waiters_;
  (waiter.prev != nullptr ? waiter.prev->next : head_) = waiter.next;
  (waiter.next != nullptr ? waiter.next->prev : tail_) = waiter.prev;
}

bool WaitQueue::WakeWaiter(Waiter& waiter) {
  Remove(waiter);
  waiter.woken.store(true, std::memory_order_relaxed);
  const bool woke = engine_.Wake(*waiter.task);
  if (woke) CurrentCpu().clock += engine_.config().costs.wake_ns;  // synchronised by the caller
  return woke;
}

int WaitQueue::WakeLocked(int exclusive) {
  int woken = 0;
  // No waiter requeues before mu_ is free again, so one walk ends.
  for (Waiter* waiter = head_; waiter != nullptr && exclusive > 0;) {
    Waiter* next = waiter->next;
    if (waiter->exclusive) --exclusive;
    if (WakeWaiter(*waiter)) ++woken;
    waiter = next;
  }
  return woken;
}

int WaitQueue::Wake(int exclusive) {
  int woken = 0;
  {
    std::lock_guard guard(mu_);
    woken = WakeLocked(exclusive);
  }
  if (woken > 0) Charge({0});
  return woken;
}

void WaitQueue::PassOn() {
  std::lock_guard guard(mu_);
  WakeLocked(1);  // no charge: this may run while an exception unwinds the stack
}

bool WaitQueue::WakeOldest() {
  Waiter* waiter = nullptr;
  {
    std::lock_guard guard(mu_);
    waiter = tail_;  // non-exclusive waiters enter at the head
    if (waiter != nullptr) WakeWaiter(*waiter);
  }
  if (waiter != nullptr) Charge({0});
  return waiter != nullptr;
}

bool WaitQueue::WakeNewest() {
  Waiter* waiter = nullptr;
  {
    std::lock_guard guard(mu_);
    waiter = head_;
    if (waiter != nullptr) WakeWaiter(*waiter);
  }
  if (waiter != nullptr) Charge({0});
  return waiter != nullptr;
}

}  // namespace pagestorm
