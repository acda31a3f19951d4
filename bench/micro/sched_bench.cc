// What do the scheduler's own operations cost the host?
//
// BM_RunQueue_Cycle: the running task is preempted by the next of `tasks` waiting ones and put
// back; expected: grows with the logarithm of the tasks. BM_CfsScheduler_WakeSleep: the scheduler's
// share of a task that wakes, runs and sleeps again on a busy machine of `cpus`; expected: about
// the same for any number of CPUs, since the idle ones are found by word.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>

#include "core/check.h"
#include "core/virtual_engine.h"
#include "numa/topology.h"
#include "sched/cfs.h"

namespace pagestorm::sched {
namespace {

struct Puppet {
  Puppet(int nodes, int cores_per_node)
      : topology(CpuTopology::From(
            numa::Topology::Synthetic({.nodes = nodes, .cores_per_node = cores_per_node}))),
        scheduler(EngineKind::kVirtual, SchedPolicy::Linux39(), topology),
        engine(Config(topology), scheduler) {}

  static EngineConfig Config(const CpuTopology& topology) {
    EngineConfig config;
    config.cpus.resize(topology.cpus());
    return config;
  }
  Cpu& cpu(int id) { return engine.cpu(CpuId{id}); }
  Task& Waiting(int id) {
    Task& task = tasks.emplace_back();
    task.id = {static_cast<std::int32_t>(tasks.size())};
    task.allowed.set();
    scheduler.TaskCreated(task, nullptr);
    scheduler.Enqueue(cpu(id), task, EnqueueReason::kFork);
    return task;
  }
  Task* Start(int id) {
    Task* next = scheduler.PickNext(cpu(id), nullptr);
    if (next != nullptr) scheduler.SliceEnd(cpu(id), *next);
    return next;
  }

  CpuTopology topology;
  CfsScheduler scheduler;
  VirtualEngine engine;
  std::deque<Task> tasks;
};

void BM_RunQueue_Cycle(benchmark::State& state) {
  Puppet p(1, 1);
  for (std::int64_t i = 0; i <= state.range(0); ++i) p.Waiting(0);
  Task* running = p.Start(0);
  for (auto _ : state) {
    p.cpu(0).clock += 5'000'000;
    Task* next = p.scheduler.PickNext(p.cpu(0), running);
    benchmark::DoNotOptimize(p.scheduler.SliceEnd(p.cpu(0), *next));
    p.scheduler.PutPrev(p.cpu(0), *running);
    running = next;
  }
  p.scheduler.CheckInvariants();
  PS_CHECK(p.scheduler.queue(CpuId{0}).nr_running() == state.range(0) + 1);
}
BENCHMARK(BM_RunQueue_Cycle)->ArgName("tasks")->Arg(1)->Arg(64)->Arg(1000);

void BM_CfsScheduler_WakeSleep(benchmark::State& state) {
  Puppet p(4, static_cast<int>(state.range(0)) / 4);
  const int cpus = static_cast<int>(state.range(0));
  for (int id = 0; id < cpus; ++id) {
    p.Waiting(id);
    PS_CHECK(p.Start(id) != nullptr);
  }
  // The last CPU's task sleeps; every other CPU wakes it in turn.
  Task* task = p.scheduler.queue(CpuId{cpus - 1}).curr()->task;
  p.scheduler.Stopped(p.cpu(cpus - 1), *task);
  PS_CHECK(p.Start(cpus - 1) == nullptr);
  int waker = 0;
  for (auto _ : state) {
    waker = waker + 1 == cpus - 1 ? 0 : waker + 1;
    Cpu& target = p.scheduler.Place(*task, EnqueueReason::kWake, &p.cpu(waker));
    p.scheduler.Enqueue(target, *task, EnqueueReason::kWake);
    PS_CHECK(p.Start(target.id.n) == task);
    target.clock += 20'000;
    p.scheduler.Stopped(target, *task);
    PS_CHECK(p.Start(target.id.n) == nullptr);
  }
  p.scheduler.CheckInvariants();
}
BENCHMARK(BM_CfsScheduler_WakeSleep)->ArgName("cpus")->Arg(8)->Arg(96)->Arg(512);

}  // namespace
}  // namespace pagestorm::sched
