#include "core/virtual_engine.h"

#include <algorithm>

#include "core/check.h"
#include "core/spin_lock.h"

namespace pagestorm {

namespace {

constexpr std::uint64_t kPollMask = 0xfff;  // the host is asked every so many events

}  // namespace

VirtualEngine::VirtualEngine(const EngineConfig& config, Scheduler& scheduler)
    : Engine(EngineKind::kVirtual, config, scheduler),
      tree_(cpus_.size() + 1),
      timer_leaf_(cpus_.size()),
      time_limit_(std::min(config.time_limit.n, WinnerTree::kTimeMax)),
      ties_(seeds_.Stream("engine ties")),
      lock_waiter_next_(cpus_.size(), nullptr) {}

VirtualEngine::~VirtualEngine() = default;

RunResult VirtualEngine::Run() {
  AdoptHostThread(host_);
  eh_ = HostEhGlobals();
  for (auto& cpu : cpus_) cpu->eh = eh_;
  if (foreground_tasks() == 0) BeginStopping(RunEnd::kDone);
  if (live_tasks() > 0) Dispatch(host_);
  for (auto& cpu : cpus_) {
    PS_CHECK(cpu->current() == nullptr && cpu->preempt == 0);
    NoteIdleUntil(*cpu, end_time_);
  }
  return {end_, Ns{end_time_}, stall_report_, hash_.value(), events_};
}

// --- time ---

inline void VirtualEngine::SetHorizon(Cpu& cpu) {
  const std::int64_t runner_up = WinnerTree::Time(tree_.top());
  const std::int64_t sync = runner_up == kNever ? kNever : runner_up + config_.slack.n;
  cpu.sync_at = std::min(sync, cpu.slice_end);
  cpu.horizon.store(cpu.preempt > 0 && !config_.sync_in_cs ? kNever : cpu.sync_at,
                    std::memory_order_relaxed);
}

inline void VirtualEngine::Resume(Cpu& cpu, const Task& task) {
  running_ = &cpu;
  SetHorizon(cpu);
  hash_.Mix(static_cast<std::uint64_t>(cpu.clock) ^ (static_cast<std::uint64_t>(task.id.n) << 44));
}

void VirtualEngine::ChargeSlow(Cpu& cpu) {
  if (cpu.preempt > 0 && !config_.sync_in_cs) return;  // unlock() comes back here
  if (cpu.clock >= cpu.slice_end) Tick(cpu);
  // A CPU that runs alone is never behind anyone: only its own clock tells that the time is over.
  if (cpu.clock >= cpu.sync_at || cpu.clock > time_limit_) Sync(cpu);
}

void VirtualEngine::Sync(Cpu& cpu) {
  const auto context = static_cast<std::size_t>(cpu.id.n);
  const std::uint64_t key = WinnerTree::Key(cpu.clock, ties_.Next(), context);
  const std::uint64_t winner = tree_.top();
  if (key < winner) {
    if (cpu.clock <= time_limit_ || stopping()) [[likely]] {
      SetHorizon(cpu);
    } else {
      tree_.Set(context, key);
      Dispatch(cpu.current()->fiber);
    }
    return;
  }
  // The usual case of NextContext(), cut short: the runner-up is known before the tree is updated,
  // so the host's processor can go ahead with the switch meanwhile.
  const std::size_t next_context = WinnerTree::Context(winner);
  if (next_context != timer_leaf_ && ((events_ + 1) & kPollMask) != 0) [[likely]] {
    Cpu& next = *cpus_[next_context];
    Task* const task = next.current();
    if (task != nullptr && next.clock <= time_limit_) [[likely]] {
      ++events_;
      tree_.Replace(next_context, context, key);
      FiberContext& self = cpu.current()->fiber;
      Resume(next, *task);
      SwitchFiber(self, task->fiber, eh_);
      if (dead_ != nullptr) [[unlikely]]
        ReapDead();
      return;
    }
  }
  tree_.Set(context, key);
  Dispatch(cpu.current()->fiber);
}

void VirtualEngine::Dispatch(FiberContext& self, bool finished) {
  FiberContext& next = NextContext();
  if (&next == &self) return;
  Publish(SwitchFiber(self, next, eh_, finished));
}

void VirtualEngine::Publish(FiberContext&) {
  if (dead_ != nullptr) ReapDead();
}

void VirtualEngine::ReapDead() {
  Task& dead = *dead_;
  dead_ = nullptr;
  Reap(dead);
}

FiberContext& VirtualEngine::NextContext() {
  running_ = nullptr;
  for (;;) {
    if ((++events_ & kPollMask) == 0) [[unlikely]]
      PollHost();
    const std::uint64_t key = tree_.top();
    if (key == WinnerTree::kIdle || WinnerTree::Context(key) == timer_leaf_) [[unlikely]] {
      if (live_tasks() == (dead_ != nullptr ? 1U : 0U)) return host_;
      if (Stalled()) {
        PS_CHECK(!stopping(), "tasks sleep through the shutdown");
        end_time_ = std::max(timer_now_, last_foreground_);
        stall_report_ = DescribeWaits();
        BeginStopping(RunEnd::kStalled);
      } else {
        FireTimer();
      }
      continue;
    }
    Cpu& cpu = *cpus_[WinnerTree::Context(key)];
    if (cpu.clock > time_limit_ && !stopping()) [[unlikely]] {
      end_time_ = time_limit_;
      BeginStopping(RunEnd::kTimeLimit);
      continue;
    }
    if (cpu.current() == nullptr) {
      if (!StartCpu(cpu)) tree_.Set(WinnerTree::Context(key), WinnerTree::kIdle);
      continue;  // the context switch took its clock onwards
    }
    tree_.Set(WinnerTree::Context(key),
              WinnerTree::kIdle);  // while it runs, top() is the runner-up
    Resume(cpu, *cpu.current());
    return cpu.current()->fiber;
  }
}

void VirtualEngine::LowerRunningHorizon(std::int64_t time) {
  if (running_ == nullptr || time + config_.slack.n >= running_->sync_at) return;
  SetHorizon(*running_);
}

void VirtualEngine::Tick(Cpu& cpu) {
  if (scheduler_.Tick(cpu, *cpu.current())) {
    cpu.need_resched.store(true, std::memory_order_relaxed);
    cpu.slice_end = kNever;  // until the task gives way
  } else {
    cpu.slice_end = scheduler_.SliceEnd(cpu, *cpu.current());
  }
  SetHorizon(cpu);
}

std::int64_t VirtualEngine::EventTime() const {
  return running_ != nullptr ? running_->clock : timer_now_;
}

void VirtualEngine::PollHost() {
  if (poll_) poll_();
  if (stop_requested_.load(std::memory_order_relaxed) && !stopping()) {
    end_time_ = last_foreground_;
    BeginStopping(RunEnd::kStopped);
  }
}

// --- CPUs and tasks ---

void VirtualEngine::PutInTree(Cpu& cpu) {
  const auto context = static_cast<std::size_t>(cpu.id.n);
  tree_.Set(context, WinnerTree::Key(cpu.clock, ties_.Next(), context));
  LowerRunningHorizon(cpu.clock);
}

void VirtualEngine::NoteIdleUntil(Cpu& cpu, std::int64_t time) {
  if (time <= cpu.clock) return;
  cpu.idle_ns += time - cpu.clock;
  cpu.clock = time;
}

void VirtualEngine::WakeIdle(Cpu& cpu) {
  if (tree_.Get(static_cast<std::size_t>(cpu.id.n)) != WinnerTree::kIdle) return;  // on its way
  NoteIdleUntil(cpu, EventTime() + config_.costs.wake_latency_ns);
  PutInTree(cpu);
}

bool VirtualEngine::StartCpu(Cpu& cpu) {
  Task* next = scheduler_.PickNext(cpu, nullptr);
  if (next == nullptr) return false;
  BeginTask(cpu, *next);
  PutInTree(cpu);
  return true;
}

void VirtualEngine::BeginTask(Cpu& cpu, Task& task) {
  SetState(task, TaskState::kRunning);
  task.cpu = &cpu;
  cpu.set_current(&task);
  cpu.clock += config_.costs.context_switch_ns;
  ++cpu.switches;
  cpu.need_resched.store(false, std::memory_order_relaxed);
  cpu.slice_end = scheduler_.SliceEnd(cpu, task);
  if (!task.daemon) last_foreground_ = std::max(last_foreground_, cpu.clock);
}

void VirtualEngine::Activate(Task& task, CpuId hint) {
  scheduler_.TaskCreated(task, running_ != nullptr ? running_->current() : nullptr);
  task.start_ns = EventTime();
  Cpu& target = hint != kNoCpu ? cpu(hint) : scheduler_.Place(task, EnqueueReason::kFork, running_);
  SetState(task, TaskState::kRunnable);
  task.cpu = &target;
  const bool preempt = scheduler_.Enqueue(target, task, EnqueueReason::kFork);
  if (target.current() == nullptr && &target != running_) {
    WakeIdle(target);
  } else if (preempt) {
    target.need_resched.store(true, std::memory_order_relaxed);
  }
}

bool VirtualEngine::Wake(Task& task) {
  if (task.state.load(std::memory_order_relaxed) == TaskState::kSleeping) {
    SetState(task, TaskState::kRunning);  // it has only announced its sleep
    return true;
  }
  if (task.state.load(std::memory_order_relaxed) != TaskState::kSlept) return false;
  DisarmTimer(task);
  SetState(task, TaskState::kRunnable);
  Cpu& target = scheduler_.Place(task, EnqueueReason::kWake, running_);
  const bool preempt = scheduler_.Enqueue(target, task, EnqueueReason::kWake);
  if (target.current() == nullptr) {
    WakeIdle(target);
  } else if (preempt) {
    target.need_resched.store(true, std::memory_order_relaxed);
  }
  return true;
}

// The current task has left the CPU: starts the next one, or leaves it idle.
void VirtualEngine::LeaveCpu(Cpu& cpu) {
  cpu.set_current(nullptr);
  cpu.need_resched.store(false, std::memory_order_relaxed);
  cpu.slice_end = kNever;
  static_cast<void>(StartCpu(cpu));
}

void VirtualEngine::Block(std::int64_t deadline, bool housekeeping) {
  Task& self = Current();
  PS_CHECK(!self.cancelling, "blocking call while a cancelled task unwinds");
  CheckCancelled(self);
  if (self.state.load(std::memory_order_relaxed) == TaskState::kRunning) return;  // woken already
  Cpu& cpu = *self.cpu;
  PS_CHECK(cpu.preempt == 0 && self.held_count == 0, "a task sleeps under a spin lock");
  SetState(self, TaskState::kSlept);
  ++self.switches_voluntary;
  if (deadline != kNever) ArmTimer(self, deadline, housekeeping);
  scheduler_.Stopped(cpu, self);
  LeaveCpu(cpu);
  Dispatch(self.fiber);
  CheckCancelled(self);
}

void VirtualEngine::Reschedule() {
  Task& self = Current();
  Cpu& cpu = *self.cpu;
  PS_CHECK(cpu.preempt == 0);
  cpu.need_resched.store(false, std::memory_order_relaxed);
  Task* next = scheduler_.PickNext(cpu, &self);
  PS_CHECK(next != nullptr);
  if (next == &self) {
    cpu.slice_end = scheduler_.SliceEnd(cpu, self);
    SetHorizon(cpu);
    return;
  }
  SetState(self, TaskState::kRunnable);
  BeginTask(cpu, *next);
  scheduler_.PutPrev(cpu, self);
  PutInTree(cpu);
  Dispatch(self.fiber);
}

void VirtualEngine::ExitCurrent() {
  Task& self = Current();
  Cpu& cpu = *self.cpu;
  PS_CHECK(cpu.preempt == 0);
  SetState(self, TaskState::kDead);
  scheduler_.Stopped(cpu, self);
  if (NoteExit(self) && !stopping()) {
    end_time_ = cpu.clock;
    BeginStopping(RunEnd::kDone);
  }
  dead_ = &self;
  LeaveCpu(cpu);
  Dispatch(self.fiber, /*finished=*/true);
  CheckFailed(__FILE__, __LINE__, "a dead task runs");
}

void VirtualEngine::BeginStopping(RunEnd why) {
  stopping_.store(true, std::memory_order_relaxed);
  end_ = why;
  // By index, and only those that exist now: woken tasks unwind and cannot sleep again.
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i] && tasks_[i]->state.load() == TaskState::kSlept) Wake(*tasks_[i]);
  }
}

// --- timers ---

void VirtualEngine::ArmTimer(Task& task, std::int64_t deadline, bool housekeeping) {
  timers_.push({deadline, ++timer_sequence_, task.id, ++task.wait_generation, housekeeping});
  task.timer_armed = true;
  task.timer_housekeeping = housekeeping;
  if (!housekeeping) {
    ++armed_;
    if (!task.daemon) ++armed_foreground_;
  }
  ArmTimerLeaf();
}

void VirtualEngine::DisarmTimer(Task& task) {
  if (!task.timer_armed) return;
  task.timer_armed = false;
  ++task.wait_generation;
  if (task.timer_housekeeping) return;
  --armed_;
  if (!task.daemon) --armed_foreground_;
}

void VirtualEngine::ArmTimerLeaf() {
  const std::uint64_t key =
      timers_.empty() ? WinnerTree::kIdle
                      : WinnerTree::Key(timers_.top().deadline, 0, timer_leaf_);  // before any CPU
  if (tree_.Get(timer_leaf_) == key) return;
  tree_.Set(timer_leaf_, key);
  if (!timers_.empty()) LowerRunningHorizon(timers_.top().deadline);
}

void VirtualEngine::FireTimer() {
  const Timer timer = timers_.top();
  timers_.pop();
  ArmTimerLeaf();
  const auto& task = tasks_[static_cast<std::size_t>(timer.id.n) - 1];
  if (!task) return;
  if (timer.generation == kAnySleep) {
    if (task->state.load(std::memory_order_relaxed) != TaskState::kSlept) return;
  } else if (!task->timer_armed || task->wait_generation != timer.generation) {
    return;  // stale
  }
  timer_now_ = timer.deadline;
  if (timer_now_ > time_limit_ && !stopping()) {
    end_time_ = time_limit_;
    BeginStopping(RunEnd::kTimeLimit);
    return;
  }
  hash_.Mix(static_cast<std::uint64_t>(timer_now_) ^ timer.sequence);
  Wake(*task);
}

// Without a trace until its time: it takes no number from the other timers, counts as none of them,
// and is in nobody's way, since a horizon that it lowers is one that no clock has reached yet.
void VirtualEngine::WakeAt(TaskId id, Ns time) {
  PS_CHECK(running_ == nullptr, "WakeAt() is for outside of the machine");
  if (time.n > time_limit_) return;
  timers_.push({time.n, 0, id, kAnySleep, true});
  ArmTimerLeaf();
}

Ns VirtualEngine::EarliestWake() const {
  std::int64_t latest = timer_now_;
  for (const auto& cpu : cpus_) latest = std::max(latest, static_cast<std::int64_t>(cpu->clock));
  return {latest + 1};
}

// Nothing is left that could let a foreground task run: no timer but housekeeping, or only daemons
// have been busy for as long as the kernel calls a task hung.
bool VirtualEngine::Stalled() const {
  if (timers_.empty()) return true;
  if (stopping()) return false;
  if (armed_ == 0) {
    for (const auto& cpu : cpus_) {
      if (cpu->current() != nullptr || scheduler_.QueuedRacy(*cpu) > 0) return false;
    }
    return true;
  }
  return armed_foreground_ == 0 &&
         timers_.top().deadline - last_foreground_ > config_.stall_after.n;
}

// --- contended spin locks ---

void VirtualEngine::LockSlow(SpinLock& lock) {
  Task& self = Current();
  Cpu& cpu = *self.cpu;
  const std::int64_t arrived = cpu.clock;
  ++lock.stats_.contentions;
  if (lock.owner_ == nullptr) {
    cpu.clock = lock.free_at_ + lock.TransferCost(cpu);
  } else {
    PS_CHECK(config_.sync_in_cs, "a spin lock is seen held: someone switched while holding it");
    Task** link = &lock.first_waiter_;
    while (*link != nullptr)
      link = &lock_waiter_next_[static_cast<std::size_t>((*link)->cpu->id.n)];
    *link = &self;
    lock_waiter_next_[static_cast<std::size_t>(cpu.id.n)] = nullptr;
    Dispatch(self.fiber);  // UnlockSlow() makes this task the owner and puts its CPU back
    PS_CHECK(lock.owner_ == &self);
  }
  const std::int64_t waited = cpu.clock - arrived;
  self.stime += waited;
  lock.stats_.wait_ns += waited;
  if (self.in_window) lock.stats_.window_wait_ns += waited;
  lock.stats_.wait_ns_max = std::max(lock.stats_.wait_ns_max, waited);
}

void VirtualEngine::UnlockSlow(SpinLock& lock) {
  Task& next = *lock.first_waiter_;
  Cpu& cpu = *next.cpu;
  lock.first_waiter_ = lock_waiter_next_[static_cast<std::size_t>(cpu.id.n)];
  lock.owner_ = &next;
  cpu.clock = std::max(cpu.clock, lock.free_at_ + lock.TransferCost(cpu));
  PutInTree(cpu);
}

}  // namespace pagestorm
