// What do core's operations cost the host? Modelled costs are set to zero where they would make the
// threads engine pause.
//
// BM_FiberSwitch/N: one switch in a ring of N fibers; grows with N as their stacks leave the
// caches. BM_VirtualEvent/N: one charge that passes the runner-up, N CPUs, seeded ties, checks on:
// a switch, two updates of the winner tree, the trace hash; grows slowly with N. BM_Charge,
// BM_LockPair and BM_WaitWake on both engines (0 virtual, 1 threads). Debian's benchmark library is
// a debug build; its overhead of some ns an iteration is in every figure.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/check.h"
#include "core/fifo_scheduler.h"
#include "core/make_engine.h"
#include "core/spin_lock.h"
#include "core/wait_queue.h"

namespace pagestorm {
namespace {

constexpr EngineCosts kFree{
    .lock_ns = 0, .context_switch_ns = 0, .wake_ns = 0, .wake_latency_ns = 0, .fork_ns = 0};

struct Machine {
  Machine(EngineKind kind, std::size_t cpus, Ns slice = kMillisecond)
      : scheduler(kind, slice), engine(MakeEngine(kind, Config(cpus), scheduler)) {}
  static EngineConfig Config(std::size_t cpus) {
    EngineConfig config;
    config.cpus.resize(cpus);
    config.costs = kFree;
    return config;
  }
  FifoScheduler scheduler;
  std::unique_ptr<Engine> engine;
};

EngineKind Kind(const benchmark::State& state) {
  return state.range(0) == 0 ? EngineKind::kVirtual : EngineKind::kThreads;
}

// Runs the measured loop as the only foreground task of a machine.
template <class Body>
void RunInTask(Machine& machine, Body body) {
  machine.engine->Spawn({.name = "bench"}, body);
  PS_CHECK(machine.engine->Run().end == RunEnd::kDone);
}

// --- fibers ---

struct Ring {
  struct Member {
    FiberContext context;
    FiberContext* next = nullptr;
    EhGlobals* eh = nullptr;
  };
  static void Loop(FiberContext&) {
    auto& self = *static_cast<Member*>(StackOwner());
    for (;;) SwitchFiber(self.context, *self.next, self.eh);
  }
};

void BM_FiberSwitch(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  StackPool stacks;
  std::vector<std::unique_ptr<Ring::Member>> ring;
  EhGlobals* eh = HostEhGlobals();
  for (std::size_t i = 0; i < size; ++i) {
    ring.push_back(std::make_unique<Ring::Member>());
    ring.back()->eh = eh;
  }
  for (std::size_t i = 0; i < size; ++i) ring[i]->next = &ring[(i + 1) % size]->context;
  AdoptHostThread(ring[0]->context);
  for (std::size_t i = 1; i < size; ++i) {
    void* stack = stacks.Take();
    PS_CHECK(stack != nullptr);
    MakeFiber(ring[i]->context, stack, ring[i].get(), Ring::Loop);
  }
  for (auto _ : state) SwitchFiber(ring[0]->context, *ring[0]->next, eh);
  for (std::size_t i = 1; i < size; ++i) DestroyFiber(ring[i]->context);
  state.SetItemsProcessed(static_cast<std::int64_t>(size) * state.iterations());
}
BENCHMARK(BM_FiberSwitch)->Arg(2)->Arg(64)->Arg(1024)->Arg(6000);

// --- the virtual engine's event ---

void BM_VirtualEvent(benchmark::State& state) {
  const auto cpus = static_cast<std::size_t>(state.range(0));
  constexpr int kCharges = 20'000;
  std::uint64_t events = 0;
  for (auto _ : state) {
    Machine machine(EngineKind::kVirtual, cpus, kSecond);
    for (std::size_t i = 0; i < cpus; ++i) {
      machine.engine->Spawn({.name = "t", .cpu_hint = CpuId{static_cast<std::int32_t>(i)}}, [i] {
        Rng rng = CurrentEngine().seeds().Stream("bench", static_cast<std::int64_t>(i));
        for (int k = 0; k < kCharges; ++k) {
          Charge({static_cast<std::int64_t>(64 + (rng.Next() & 1023U))});
        }
      });
    }
    events += machine.engine->Run().events;
  }
  // Every charge counts that took its CPU past the runner-up: with this many CPUs nearly all.
  state.counters["events_per_charge"] =
      static_cast<double>(events) /
      (static_cast<double>(state.iterations()) * kCharges * static_cast<double>(cpus));
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
}
BENCHMARK(BM_VirtualEvent)->Arg(4)->Arg(64)->Arg(288)->Unit(benchmark::kMillisecond);

// --- both engines ---

void BM_Charge(benchmark::State& state) {
  Machine machine(Kind(state), 1);
  RunInTask(machine, [&state] {
    for (auto _ : state) Charge({1});
  });
}
BENCHMARK(BM_Charge)->Arg(0)->Arg(1);

void BM_LockPair(benchmark::State& state) {
  Machine machine(Kind(state), 1);
  SpinLock lock(*machine.engine, LockRank::kZone, "bench");
  RunInTask(machine, [&] {
    for (auto _ : state) {
      lock.lock();
      lock.unlock();
    }
  });
  PS_CHECK(lock.stats().contentions == 0);
}
BENCHMARK(BM_LockPair)->Arg(0)->Arg(1);

// Two tasks on one CPU wake each other in turn: a wake, a sleep and a switch each.
void BM_WaitWake(benchmark::State& state) {
  Machine machine(Kind(state), 1);
  WaitQueue queue(*machine.engine, "bench");
  int turn = 0;
  machine.engine->Spawn({.name = "partner", .daemon = true}, [&] {
    for (;;) {
      queue.Wait([&] { return turn == 1; });
      turn = 0;
      queue.WakeOne();
    }
  });
  RunInTask(machine, [&] {
    for (auto _ : state) {
      turn = 1;
      queue.WakeOne();
      queue.Wait([&] { return turn == 0; });
    }
  });
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(BM_WaitWake)->Arg(0)->Arg(1);

}  // namespace
}  // namespace pagestorm
