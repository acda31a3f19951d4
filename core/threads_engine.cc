#include "core/threads_engine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <mutex>

#include "core/check.h"
#include "core/host_binding.h"
#include "core/spin_lock.h"

namespace pagestorm {

ThreadsEngine::ThreadsEngine(const EngineConfig& config, Scheduler& scheduler)
    : Engine(EngineKind::kThreads, config, scheduler),
      pay_(std::max<std::int64_t>(
          1, static_cast<std::int64_t>(static_cast<double>(config.pay.n) / config.scale))) {
  PS_CHECK(config_.scale > 0, "EngineConfig::scale");
  for (auto& cpu : cpus_) {
    auto lane = std::make_unique<Lane>();
    lane->cpu = cpu.get();
    lanes_.push_back(std::move(lane));
  }
}

ThreadsEngine::~ThreadsEngine() = default;

// --- a CPU's thread ---

void ThreadsEngine::CpuMain(Lane& lane) {
  prctl(PR_SET_TIMERSLACK, 1UL);  // the default, 50 us, is more than the debt that is paid
  AdoptHostThread(lane.base);
  lane.cpu->eh = HostEhGlobals();
  const int host_cpu = config_.cpus[static_cast<std::size_t>(lane.cpu->id.n)].host_cpu;
  if (binding_ && host_cpu >= 0) lane.bound = binding_->BindThisThread(host_cpu);
  Idle(lane);
  if (lanes_left_.fetch_sub(1) == 1) watch_bell_.Ring();
}

// Runs on the base. Never calls Current(): the thread's own stack belongs to no task.
void ThreadsEngine::Idle(Lane& lane) {
  Cpu& cpu = *lane.cpu;
  for (;;) {
    const std::int64_t now = EmulatedNow();
    if (now > cpu.clock) {
      cpu.idle_ns += now - cpu.clock;
      cpu.clock = now;
    }
    FireTimers(lane, now);
    if (parking_.load() != 0) Park();
    // Pairs with the fence in Notify(): either that CPU sees this one idle and rings, or this one
    // sees the task.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (Task* next = scheduler_.PickNext(cpu, nullptr); next != nullptr) {
      BeginTask(lane, *next);
      SwitchFiber(lane.base, next->fiber, cpu.eh);
      PublishOn(lane);
      continue;
    }
    if (stopping_.load() && live_tasks() == 0) return;
    const HostNs timer = HostTime(NextTimer(lane));
    lane.bell.Wait(std::min(timer, HostNow() + steal_period_));
  }
}

void ThreadsEngine::Publish(FiberContext&) { PublishOn(LaneOf(*Current().cpu)); }

// After the compare-and-swap, after PutPrev() and after Reap() `previous` belongs to others.
void ThreadsEngine::PublishOn(Lane& lane) {
  if (lane.previous == nullptr) return;
  Task& previous = *lane.previous;
  lane.previous = nullptr;
  switch (lane.left) {
    case Left::kSleeps: {
      const TaskId id = previous.id;
      TaskState announced = TaskState::kSleeping;
      if (previous.state.compare_exchange_strong(announced, TaskState::kSlept)) {
        // BeginStopping() sets the flag, then looks for sleepers: one of the two sees the other.
        if (stopping_.load()) WakeById(id, -1);
      } else {  // woken on its way out
        SetState(previous, TaskState::kRunnable);
        EnqueueWoken(previous, lane.cpu);
      }
      break;
    }
    case Left::kPreempted:
      SetState(previous, TaskState::kRunnable);
      scheduler_.PutPrev(*lane.cpu, previous);
      break;
    case Left::kDead:
      Reap(previous);
      if (stopping_.load() && live_tasks() == 0) RingAll();
      break;
  }
}

// --- tasks come and go ---

void ThreadsEngine::BeginTask(Lane& lane, Task& task) {
  Cpu& cpu = *lane.cpu;
  SetState(task, TaskState::kRunning);
  task.cpu = &cpu;
  cpu.set_current(&task);
  // Time does not run backwards for a task that comes from a CPU with a little more debt.
  cpu.clock = std::max(cpu.clock, task.left_at) + config_.costs.context_switch_ns;
  ++cpu.switches;
  cpu.need_resched.store(false, std::memory_order_relaxed);
  cpu.slice_end = scheduler_.SliceEnd(cpu, task);
  SetHorizon(lane, cpu.clock);
  lane.begun.store(lane.begun.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  lane.runs_foreground.store(!task.daemon, std::memory_order_relaxed);
}

void ThreadsEngine::SwitchTo(Lane& lane, Task& self, Task* next, Left why) {
  Cpu& cpu = *lane.cpu;
  self.left_at = cpu.clock;
  if (!self.daemon) lane.last_foreground.store(cpu.clock, std::memory_order_relaxed);
  lane.previous = &self;
  lane.left = why;
  if (next != nullptr) {
    BeginTask(lane, *next);
  } else {
    lane.runs_foreground.store(false, std::memory_order_relaxed);
    cpu.slice_end = kNever;
    cpu.set_current(nullptr);
  }
  FiberContext& to = next != nullptr ? next->fiber : lane.base;
  Publish(SwitchFiber(self.fiber, to, cpu.eh, why == Left::kDead));
}

void ThreadsEngine::SwitchAway(Lane& lane, Task& self, Left why) {
  scheduler_.Stopped(*lane.cpu, self);
  // A CPU that is to stand still does so on its base.
  Task* next = parking_.load() != 0 ? nullptr : scheduler_.PickNext(*lane.cpu, nullptr);
  SwitchTo(lane, self, next, why);
}

void ThreadsEngine::Block(std::int64_t deadline, bool housekeeping) {
  Task& self = Current();
  PS_CHECK(!self.cancelling, "blocking call while a cancelled task unwinds");
  CheckCancelled(self);
  if (self.state.load(std::memory_order_acquire) == TaskState::kRunning) return;  // woken already
  Cpu& cpu = *self.cpu;
  PS_CHECK(cpu.preempt == 0 && self.held_count == 0, "a task sleeps under a spin lock");
  Lane& lane = LaneOf(cpu);
  CatchUp(lane, &self);
  ++self.switches_voluntary;
  ++self.wait_generation;
  if (deadline != kNever) {
    self.sleep_timer.store(housekeeping ? SleepTimer::kHousekeeping : SleepTimer::kProgress,
                           std::memory_order_relaxed);
    lane.timers.push({deadline, self.id, self.wait_generation});
  }
  SwitchAway(lane, self, Left::kSleeps);
  self.sleep_timer.store(SleepTimer::kNone, std::memory_order_relaxed);
  CheckCancelled(self);
}

void ThreadsEngine::Reschedule() {
  Task& self = Current();
  Cpu& cpu = *self.cpu;
  PS_CHECK(cpu.preempt == 0);
  Lane& lane = LaneOf(cpu);
  const std::int64_t now = CatchUp(lane, &self);
  FireTimers(lane, now);
  cpu.need_resched.store(false, std::memory_order_relaxed);
  Task* next = scheduler_.PickNext(cpu, &self);
  PS_CHECK(next != nullptr);
  if (next != &self) return SwitchTo(lane, self, next, Left::kPreempted);
  cpu.slice_end = scheduler_.SliceEnd(cpu, self);
  SetHorizon(lane, now);
}

void ThreadsEngine::ExitCurrent() {
  Task& self = Current();
  Cpu& cpu = *self.cpu;
  PS_CHECK(cpu.preempt == 0);
  Lane& lane = LaneOf(cpu);
  CatchUp(lane, &self);
  SetState(self, TaskState::kDead);
  if (NoteExit(self)) BeginStopping(RunEnd::kDone, cpu.clock);
  SwitchAway(lane, self, Left::kDead);
  CheckFailed(__FILE__, __LINE__, "a dead task runs");
}

void ThreadsEngine::Activate(Task& task, CpuId hint) {
  Cpu* const parent_cpu = running_ ? Current().cpu : nullptr;
  scheduler_.TaskCreated(task, running_ ? &Current() : nullptr);
  task.start_ns = parent_cpu != nullptr ? parent_cpu->clock : 0;
  task.left_at = task.start_ns;
  Cpu& target =
      hint != kNoCpu ? cpu(hint) : scheduler_.Place(task, EnqueueReason::kFork, parent_cpu);
  task.cpu = &target;
  SetState(task, TaskState::kRunnable);
  const bool preempt = scheduler_.Enqueue(target, task, EnqueueReason::kFork);
  if (running_) Notify(target, preempt);
}

// --- waking ---

bool ThreadsEngine::Wake(Task& task) {
  TaskState state = task.state.load(std::memory_order_acquire);
  for (;;) {
    if (state == TaskState::kSleeping) {  // still on its CPU: it will see it, or its successor
      if (task.state.compare_exchange_weak(state, TaskState::kRunning)) return true;
    } else if (state == TaskState::kSlept) {
      if (task.state.compare_exchange_weak(state, TaskState::kRunnable)) {
        EnqueueWoken(task, running_ ? Current().cpu : nullptr);
        return true;
      }
    } else {
      return false;
    }
  }
}

bool ThreadsEngine::WakeById(TaskId id, std::int64_t generation) {
  Task* task = nullptr;
  {
    std::lock_guard guard(tasks_lock_);  // it cannot be reaped meanwhile
    task = tasks_[static_cast<std::size_t>(id.n) - 1].get();
    if (task == nullptr || (generation >= 0 && task->wait_generation != generation)) return false;
    TaskState sleeping = TaskState::kSleeping;
    if (generation < 0 && task->state.compare_exchange_strong(sleeping, TaskState::kRunning)) {
      return true;  // it has only announced its sleep
    }
    TaskState slept = TaskState::kSlept;
    if (!task->state.compare_exchange_strong(slept, TaskState::kRunnable)) return false;
  }
  EnqueueWoken(*task, nullptr);
  return true;
}

void ThreadsEngine::WakeAt(TaskId id, Ns time) {
  constexpr std::int64_t kTooFar = 1'000'000 * kSecond.n;  // eleven days, as a host time, too
  if (running_) {
    static_cast<void>(WakeById(id, -1));
  } else if (time.n < kTooFar) {
    lanes_.back()->timers.push({time.n, id, -1});
  }
}

void ThreadsEngine::EnqueueWoken(Task& task, Cpu* waker) {
  Cpu& target = scheduler_.Place(task, EnqueueReason::kWake, waker);
  const bool preempt = scheduler_.Enqueue(target, task, EnqueueReason::kWake);
  Notify(target, preempt);
}

void ThreadsEngine::Notify(Cpu& target, bool preempt) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // see Idle()
  if (target.current() == nullptr) {
    LaneOf(target).bell.Ring();
  } else if (preempt) {
    target.need_resched.store(true, std::memory_order_relaxed);
    LaneOf(target).bell.Ring();  // it may be pausing in user mode
  }
}

// --- contended spin locks ---

// Unfair: the lock goes to whoever comes first when it is free. With more emulated CPUs than host
// cores the next in line of a fair lock is usually not running, and everyone would wait for it.
void ThreadsEngine::LockSlow(SpinLock& lock) {
  Task& self = Current();
  Lane& lane = LaneOf(*self.cpu);
  const std::int64_t arrived = EmulatedNow();
  const auto try_take = [&lock] {
    std::uint32_t free = 0;
    return lock.word_.load(std::memory_order_relaxed) == 0 &&
           lock.word_.compare_exchange_strong(free, 1, std::memory_order_acquire);
  };
  bool taken = false;
  for (int spin = 0; spin < 100 && !taken; ++spin) {
    CpuRelax();
    taken = try_take();
  }
  if (!taken) {
    // From here on the word is 2 while we hold it, too: others may sleep.
    while (lock.word_.exchange(2, std::memory_order_acquire) != 0) {
      FutexWait(lock.word_, 2, kHostForever);
    }
  }
  const std::int64_t waited = std::max<std::int64_t>(0, EmulatedNow() - arrived);
  const std::int64_t before = lane.cpu->clock;
  lane.cpu->clock = std::max(before, arrived + waited);
  self.stime += lane.cpu->clock - before;
  ++lock.stats_.contentions;
  lock.stats_.wait_ns += waited;
  if (self.in_window) lock.stats_.window_wait_ns += lane.cpu->clock - before;
  lock.stats_.wait_ns_max = std::max(lock.stats_.wait_ns_max, waited);
}

void ThreadsEngine::UnlockSlow(SpinLock& lock) { FutexWake(lock.word_, 1); }

}  // namespace pagestorm
