// The threads engine's start and end: the watch on the run, stall detection, shutdown.
#include <algorithm>
#include <mutex>

#include "core/check.h"
#include "core/host_binding.h"
#include "core/threads_engine.h"

namespace pagestorm {
namespace {

constexpr HostNs kWatchPeriod{10'000'000};
constexpr HostNs kPollPeriod{100'000'000};
constexpr HostNs kParkPatience{2'000'000'000};
constexpr HostNs kShutdownPatience{120'000'000'000};

}  // namespace

RunResult ThreadsEngine::Run() {
  PS_CHECK(!running_ && !ended_.load(), "an engine runs once");
  const int cores = HostCores();
  crowded_ = lanes_.size() > static_cast<std::size_t>(cores);
  // 1 ms, or more where so many idle threads looking around would keep the host busy.
  steal_period_ = HostNs{1'000'000} *
                  std::max<std::int64_t>(1, static_cast<std::int64_t>(lanes_.size()) / (8 * cores));
  const bool bind = std::any_of(config_.cpus.begin(), config_.cpus.end(),
                                [](const CpuSpec& spec) { return spec.host_cpu >= 0; });
  if (config_.bind && bind) binding_ = std::make_unique<HostBinding>();
  report_.host_cores = cores;
  start_ = HostNow();
  running_ = true;
  lanes_left_.store(lanes_.size());
  if (foreground_tasks() == 0) BeginStopping(RunEnd::kDone, 0);
  for (auto& lane : lanes_) {
    lane->thread = std::thread([this, &lane = *lane] { CpuMain(lane); });
  }
  Watch();
  for (auto& lane : lanes_) lane->thread.join();
  running_ = false;
  FillReport();
  std::uint64_t switches = 0;
  for (auto& cpu : cpus_) {
    PS_CHECK(cpu->current() == nullptr && cpu->preempt == 0);
    switches += static_cast<std::uint64_t>(cpu->switches.get());
  }
  PS_CHECK(live_tasks() == 0, "tasks survive the shutdown");
  return {end_, Ns{end_time_}, stall_report_, 0, switches};
}

void ThreadsEngine::FillReport() {
  report_.elapsed = HostNow() - start_;
  report_.emulated_cpus = static_cast<int>(lanes_.size());
  report_.oversubscribed = crowded_;
  report_.bound = binding_ != nullptr;
  const auto to_host = [this](std::int64_t emulated) {
    return HostNs{static_cast<std::int64_t>(static_cast<double>(emulated) * config_.scale)};
  };
  for (const auto& lane : lanes_) {
    report_.host_bound += to_host(lane->host_bound);
    report_.paused += to_host(lane->paused);
    report_.slip.Merge(lane->slip);
    report_.bound = report_.bound && lane->bound;
  }
}

// --- the watch: on the thread that called Run() ---

void ThreadsEngine::Watch() {
  HostNs next_poll = start_ + kPollPeriod;
  HostNs give_up = kHostForever;
  while (lanes_left_.load() > 0) {
    watch_bell_.Wait(std::min(HostNow() + kWatchPeriod, HostTime(config_.time_limit.n)));
    const HostNs now = HostNow();
    if (poll_ && now >= next_poll) {
      poll_();
      next_poll = now + kPollPeriod;
    }
    if (!stopping()) {
      CheckEnd();
    } else if (give_up == kHostForever) {
      give_up = now + kShutdownPatience;
    } else {
      PS_CHECK(now < give_up, "tasks do not end although the machine shuts down");
    }
  }
}

void ThreadsEngine::CheckEnd() {
  const std::int64_t now = EmulatedNow();
  if (stop_requested_.load(std::memory_order_relaxed)) return BeginStopping(RunEnd::kStopped, now);
  if (now >= config_.time_limit.n) {
    return BeginStopping(RunEnd::kTimeLimit, config_.time_limit.n);
  }
  if (slipped_.load(std::memory_order_relaxed)) return BeginStopping(RunEnd::kSlip, now);
  if (EverybodySleeps() || ForegroundHangs(now)) EndStalled(now);
}

// True if no task ran at any moment of the look and none will: all sleep, without a timer that
// means progress. Without a lock over all CPUs: a task that ran meanwhile counts in `begun`, which
// is seen by whoever sees that it sleeps now.
bool ThreadsEngine::EverybodySleeps() {
  const auto begun = [this] {
    std::uint64_t sum = 0;
    for (const auto& lane : lanes_) sum += lane->begun.load(std::memory_order_acquire);
    return sum;
  };
  const std::uint64_t before = begun();
  for (const auto& cpu : cpus_) {
    if (cpu->current() != nullptr) return false;
  }
  {
    std::lock_guard guard(tasks_lock_);
    for (const auto& task : tasks_) {
      if (task == nullptr) continue;
      if (task->state.load(std::memory_order_acquire) != TaskState::kSlept) return false;
      if (task->sleep_timer.load(std::memory_order_relaxed) == SleepTimer::kProgress) return false;
    }
  }
  return begun() == before;
}

// True if only daemons have been busy for as long as the kernel calls a task hung.
bool ThreadsEngine::ForegroundHangs(std::int64_t now) {
  std::int64_t last = 0;
  for (const auto& lane : lanes_) {
    if (lane->runs_foreground.load(std::memory_order_relaxed)) return false;
    last = std::max(last, lane->last_foreground.load(std::memory_order_relaxed));
  }
  if (now - last <= config_.stall_after.n) return false;
  std::lock_guard guard(tasks_lock_);
  return std::none_of(tasks_.begin(), tasks_.end(), [](const auto& task) {
    return task != nullptr && !task->daemon &&
           task->sleep_timer.load(std::memory_order_relaxed) == SleepTimer::kProgress;
  });
}

// Reports while every CPU stands still, so that the reporters may look at the machine's state.
void ThreadsEngine::EndStalled(std::int64_t now) {
  ParkAll();
  if (EverybodySleeps() || ForegroundHangs(now)) {
    stall_report_ = DescribeWaits();
    BeginStopping(RunEnd::kStalled, now);
  }
  UnparkAll();
}

// A CPU parks on its base or at a charge outside critical sections. One that does neither for
// seconds is beyond help; the report is then made while it runs.
void ThreadsEngine::ParkAll() {
  parking_.store(1);
  const HostNs give_up = HostNow() + kParkPatience;
  while (parked_.load() < lanes_.size() && HostNow() < give_up) {
    RingAll();
    watch_bell_.Wait(HostNow() + HostNs{1'000'000});
  }
}

void ThreadsEngine::UnparkAll() {
  parking_.store(0);
  FutexWake(parking_, INT32_MAX);
}

void ThreadsEngine::Park() {
  if (parked_.fetch_add(1) + 1 == lanes_.size()) watch_bell_.Ring();
  while (parking_.load() != 0) FutexWait(parking_, 1, kHostForever);
  parked_.fetch_sub(1);
}

// --- the end ---

void ThreadsEngine::BeginStopping(RunEnd why, std::int64_t when) {
  if (ended_.exchange(true)) return;
  end_ = why;
  end_time_ = when;
  stopping_.store(true);
  std::vector<Task*> woken;
  {
    std::lock_guard guard(tasks_lock_);
    for (const auto& task : tasks_) {
      TaskState slept = TaskState::kSlept;
      if (task != nullptr && task->state.compare_exchange_strong(slept, TaskState::kRunnable)) {
        woken.push_back(task.get());
      }
    }
  }
  for (Task* task : woken) EnqueueWoken(*task, nullptr);
  RingAll();
  watch_bell_.Ring();
}

void ThreadsEngine::RingAll() {
  for (auto& lane : lanes_) lane->bell.Ring();
}

}  // namespace pagestorm
