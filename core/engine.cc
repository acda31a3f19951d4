#include "core/engine.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "core/wait_queue.h"

namespace pagestorm {

Engine::Engine(EngineKind kind, const EngineConfig& config, Scheduler& scheduler)
    : kind_(kind), config_(config), seeds_(config.seed), scheduler_(scheduler), tasks_lock_(kind) {
  PS_CHECK(!config_.cpus.empty() && config_.cpus.size() <= kMaxCpus);
  for (const CpuSpec& spec : config_.cpus) {
    auto cpu = std::make_unique<Cpu>();
    cpu->engine = this;
    cpu->id = {static_cast<std::int32_t>(cpus_.size())};
    cpu->node = spec.node;
    cpu->kind = spec.kind;
    cpu->slice_end = kNever;
    if (spec.kind == CpuKind::kOnline) {
      PS_CHECK(online_cpus_ == cpus_.size(), "online CPUs come before service CPUs");
      online_mask_.set(cpus_.size());
      ++online_cpus_;
    }
    cpus_.push_back(std::move(cpu));
  }
  PS_CHECK(online_cpus_ > 0);
  scheduler_.Attach(*this);
}

Engine::~Engine() { PS_CHECK(live_tasks() == 0, "an engine is destroyed with live tasks"); }

std::size_t Engine::max_tasks() {
  // Each stack takes two of the host's mappings (itself and its guard page).
  std::size_t mappings = 65'530;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
  return std::min<std::size_t>(mappings / 2 - 2'000, 1'000'000);
}

Task& Engine::Spawn(SpawnOptions options, std::function<void()> body) {
  auto owned = std::make_unique<Task>();
  Task& task = *owned;
  task.name = std::move(options.name);
  task.daemon = options.daemon;
  task.nice = options.nice;
  task.flags = options.flags;
  task.mm = options.mm;
  task.allowed = options.allowed.none() ? online_mask_ : options.allowed;
  task.body = std::move(body);
  {
    std::lock_guard guard(tasks_lock_);
    task.stack = stacks_.Take();
    PS_CHECK(task.stack != nullptr, "the host gives no more stacks");
    MakeFiber(task.fiber, task.stack, &task, TaskMain);
    task.id = {static_cast<std::int32_t>(tasks_.size() + 1)};
    tasks_.push_back(std::move(owned));
  }
  live_.fetch_add(1, std::memory_order_relaxed);
  if (!task.daemon) foreground_.fetch_add(1, std::memory_order_relaxed);
  Activate(task, options.cpu_hint);
  return task;
}

void Engine::TaskMain(FiberContext& predecessor) {
  Task& task = Current();
  task.cpu->engine->Publish(predecessor);
  try {
    if (task.cpu->engine->stopping()) ThrowCancelled(task);
    task.body();
  } catch (const Cancelled&) {
    // Unwound by shutdown or a signal; what the task held was released on the way.
  } catch (const std::exception& error) {
    CheckFailed(__FILE__, __LINE__, "a task let an exception escape", error.what());
  }
  PS_CHECK(task.held_count == 0, "a task exits with a spin lock held");
  task.body = nullptr;
  CurrentEngine().ExitCurrent();
}

bool Engine::NoteExit(Task& task) {
  return !task.daemon && foreground_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void Engine::Reap(Task& task) {
  PS_CHECK(task.state.load() == TaskState::kDead);
  scheduler_.TaskExited(task);
  DestroyFiber(task.fiber);
  live_.fetch_sub(1, std::memory_order_relaxed);
  std::lock_guard guard(tasks_lock_);
  exited_times_.user += {task.utime};
  exited_times_.system += {task.stime};
  if (task.daemon) exited_times_.daemon_system += {task.stime};
  stacks_.Return(task.stack);
  tasks_[static_cast<std::size_t>(task.id.n) - 1].reset();
}

Engine::CpuTimes Engine::Times() const {
  std::lock_guard guard(tasks_lock_);
  CpuTimes times = exited_times_;
  for (const auto& task : tasks_) {
    if (!task) continue;
    times.user += {task->utime};
    times.system += {task->stime};
    if (task->daemon) times.daemon_system += {task->stime};
  }
  for (std::size_t i = 0; i < online_cpus_; ++i) times.idle += {cpus_[i]->idle_ns};
  return times;
}

void Engine::Kill(Task& task, bool memdie) {
  if (memdie) task.memdie.store(true, std::memory_order_relaxed);
  // Sequentially consistent on both sides (WaitQueue sets interruptible, then looks for the
  // signal): one of the two sees the other.
  task.fatal_signal.store(true);
  if (task.interruptible.load()) Wake(task);
  SignalSent();
}

void Engine::ThrowCancelled(Task& task) {
  task.cancelling = true;
  throw Cancelled{};
}

void Engine::CheckCancelled(Task& task) {
  if (stopping() && !task.cancelling) ThrowCancelled(task);
}

std::string Engine::DescribeWaits() {
  struct Group {
    std::int64_t count = 0;
    std::string examples;
  };
  // Keyed by name and number: reports must not depend on addresses.
  std::map<std::pair<std::string, std::int64_t>, Group> groups;
  std::int64_t runnable = 0;
  ForEachTask([&](Task& task) {
    if (task.waiting_on == nullptr) {
      if (task.state.load() != TaskState::kSlept) ++runnable;
      return;
    }
    Group& group = groups[{task.waiting_on->name(), task.waiting_on->number()}];
    if (++group.count > 4) return;
    group.examples +=
        (group.examples.empty() ? "" : ", ") + task.name + "-" + std::to_string(task.id.n);
    if (task.waiting_for.n != 0) {
      group.examples += " (held by task " + std::to_string(task.waiting_for.n) + ")";
    }
  });
  std::string text = std::to_string(live_tasks()) + " live tasks, " + std::to_string(runnable) +
                     " runnable or running\n";
  constexpr std::size_t kMostLines = 40;
  std::size_t lines = 0;
  std::int64_t hidden = 0;
  for (const auto& [key, group] : groups) {
    if (++lines > kMostLines) {
      hidden += group.count;
      continue;
    }
    text += "  " + std::to_string(group.count) + " wait on " + key.first;
    if (key.second != 0) text += " " + std::to_string(key.second);
    text += ": " + group.examples + (group.count > 4 ? ", ..." : "") + "\n";
  }
  if (hidden > 0) {
    text += "  " + std::to_string(hidden) + " more wait on " +
            std::to_string(groups.size() - kMostLines) + " other queues\n";
  }
  for (const auto& reporter : stall_reporters_) text += reporter();
  return text;
}

void ChargeUser(Ns cost) {
  Task& task = Current();
  std::int64_t left = cost.n;
  do {
    Cpu& cpu = *task.cpu;
    // Up to the end of the slice only: a long computation is preempted in the middle.
    const std::int64_t until_tick = std::max<std::int64_t>(1, cpu.slice_end - cpu.clock);
    const std::int64_t step = std::min(left, until_tick);
    const std::int64_t done = cpu.engine->kind() == EngineKind::kThreads
                                  ? cpu.engine->ComputeUser(cpu, step)
                                  : (cpu.clock += step, step);
    task.utime += done;
    left -= done;
    if (cpu.clock >= cpu.horizon.load(std::memory_order_relaxed)) cpu.engine->ChargeSlow(cpu);
    if (task.cpu->need_resched.load(std::memory_order_relaxed) ||
        task.fatal_signal.load(std::memory_order_relaxed) || task.cpu->engine->stopping()) {
      ReturnToUser();
    }
  } while (left > 0);
}

void CondReschedSlow() {
  Task& task = Current();
  if (task.cpu->preempt > 0) return;
  Engine& engine = *task.cpu->engine;
  engine.CheckCancelled(task);
  if (!task.cpu->need_resched.load(std::memory_order_relaxed)) return;
  ++task.switches_involuntary;
  engine.Reschedule();
  engine.CheckCancelled(task);
}

void ReturnToUser() {
  Task& task = Current();
  CondResched();
  if (task.fatal_signal.load(std::memory_order_acquire) && !task.cancelling) {
    Engine::ThrowCancelled(task);
  }
}

void Yield() {
  PS_CHECK(CurrentCpu().preempt == 0, "yield under a spin lock");
  CurrentCpu().need_resched.store(true, std::memory_order_relaxed);
  CondReschedSlow();
}

namespace {

void Sleep(Ns duration, bool housekeeping) {
  // A queue of its own that nobody wakes; its name is what a stall report shows.
  WaitQueue nobody(CurrentEngine(), "a timer");
  nobody.WaitForWake(duration, {.housekeeping = housekeeping});
}

}  // namespace

void SleepFor(Ns duration) { Sleep(duration, /*housekeeping=*/false); }
void SleepForHousekeeping(Ns duration) { Sleep(duration, /*housekeeping=*/true); }

void PreemptEnableSlow(Cpu& cpu) {
  if (cpu.engine->kind() != EngineKind::kVirtual) return;
  cpu.horizon.store(cpu.sync_at, std::memory_order_relaxed);
  if (cpu.clock >= cpu.sync_at) cpu.engine->ChargeSlow(cpu);
}

}  // namespace pagestorm
