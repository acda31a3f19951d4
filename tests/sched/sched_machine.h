// A machine with the fair scheduler, for tests.
#pragma once

#include <deque>
#include <initializer_list>
#include <string>

#include "core/check.h"
#include "core/engine.h"
#include "core/virtual_engine.h"
#include "numa/topology.h"
#include "sched/cfs.h"

namespace pagestorm::sched {

inline constexpr std::int64_t kMs = 1'000'000;

inline EngineConfig ConfigOf(const CpuTopology& topology, std::uint64_t seed = 1) {
  EngineConfig config;
  for (const int node : topology.node) {
    config.cpus.push_back({.node = topology.node_ids[static_cast<std::size_t>(node)]});
  }
  config.seed = seed;
  return config;
}

struct Machine {
  explicit Machine(CpuTopology topology, const SchedPolicy& policy = SchedPolicy::Linux39(),
                   std::uint64_t seed = 1, int service_cpus = 0)
      : config(ConfigOf(topology, seed)),
        scheduler(EngineKind::kVirtual, policy, topology),
        engine(WithService(service_cpus), scheduler) {}

  const EngineConfig& WithService(int count) {
    for (int i = 0; i < count; ++i) {
      config.cpus.push_back({.node = config.cpus.front().node, .kind = CpuKind::kService});
    }
    return config;
  }

  EngineConfig config;
  CfsScheduler scheduler;
  VirtualEngine engine;
};

inline CpuMask On(std::initializer_list<int> cpus) {
  CpuMask mask;
  for (const int cpu : cpus) mask.set(static_cast<std::size_t>(cpu));
  return mask;
}

// Plays the engine's part by hand, one call at a time.
struct Puppet {
  explicit Puppet(CpuTopology topology, const SchedPolicy& policy = SchedPolicy::Linux39(),
                  int service_cpus = 0)
      : machine(std::move(topology), policy, 1, service_cpus) {}
  ~Puppet() { machine.scheduler.CheckInvariants(); }

  CfsScheduler& sched() { return machine.scheduler; }
  Cpu& cpu(int id) { return machine.engine.cpu(CpuId{id}); }

  Task& NewTask(int nice = 0) {
    Task& task = tasks.emplace_back();
    task.id = {static_cast<std::int32_t>(tasks.size())};
    task.nice = nice;
    for (std::size_t i = 0; i < machine.engine.online_cpus(); ++i) task.allowed.set(i);
    sched().TaskCreated(task, nullptr);
    return task;
  }
  // A new task that runs on `id`, which was idle.
  Task& Busy(int id, int nice = 0) {
    Task& task = NewTask(nice);
    sched().Enqueue(cpu(id), task, EnqueueReason::kFork);
    PS_CHECK(PickOn(id) == &task);
    return task;
  }
  // A new task that waits on `id`.
  Task& Waiting(int id) {
    Task& task = NewTask();
    sched().Enqueue(cpu(id), task, EnqueueReason::kFork);
    return task;
  }
  // A task that ran on `id` last and sleeps; `id` is idle then.
  Task& Asleep(int id) {
    Task& task = Busy(id);
    Stop(id, task);
    return task;
  }
  void Stop(int id, Task& task) {
    sched().Stopped(cpu(id), task);
    PS_CHECK(PickOn(id) == nullptr);
  }
  Task* PickOn(int id) {
    Task* next = sched().PickNext(cpu(id), nullptr);
    if (next != nullptr) static_cast<void>(sched().SliceEnd(cpu(id), *next));
    return next;
  }
  int WakeFrom(Task& task, int waker) {
    return sched().Place(task, EnqueueReason::kWake, waker < 0 ? nullptr : &cpu(waker)).id.n;
  }
  int ForkFrom(Task& task, int parent) {
    return sched().Place(task, EnqueueReason::kFork, parent < 0 ? nullptr : &cpu(parent)).id.n;
  }

  Machine machine;
  std::deque<Task> tasks;
};

}  // namespace pagestorm::sched
