#include "core/virtual_engine.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/fifo_scheduler.h"
#include "core/sleep_lock.h"
#include "core/spin_lock.h"
#include "core/wait_queue.h"

namespace pagestorm {
namespace {

EngineConfig Cpus(int count, std::uint64_t seed = 1) {
  EngineConfig config;
  for (int i = 0; i < count; ++i) config.cpus.push_back({.node = {0}});
  config.seed = seed;
  return config;
}

struct Machine {
  explicit Machine(const EngineConfig& config)
      : scheduler(EngineKind::kVirtual, kMillisecond), engine(config, scheduler) {}
  FifoScheduler scheduler;
  VirtualEngine engine;
};

// Contended locks, sleeps, a token queue and preemption; returns the hash of its events.
std::uint64_t MixedRun(const EngineConfig& config) {
  Machine machine(config);
  Engine& engine = machine.engine;
  SpinLock lock(engine, LockRank::kLru, "test lock");
  WaitQueue queue(engine, "tokens");
  int tokens = 0;
  int sum = 0;
  for (int i = 0; i < 12; ++i) {
    engine.Spawn({.name = "worker"}, [&, i] {
      Rng rng = engine.seeds().Stream("worker", i);
      for (int round = 0; round < 50; ++round) {
        Charge({rng.Between(10, 900)});
        {
          SpinGuard guard(lock);
          Charge({rng.Between(50, 300)});
          ++sum;
        }
        if (i % 3 == 0) {
          ++tokens;
          queue.WakeOne();
          SleepFor({rng.Between(100, 5000)});
        } else if (tokens > 0) {
          queue.Wait([&] { return tokens > 0 && tokens-- > 0; }, {.exclusive = true});
          ++tokens;
          queue.WakeAll();
        }
        ChargeUser({rng.Between(1000, 400'000)});
      }
    });
  }
  const RunResult result = engine.Run();
  CHECK(result.end == RunEnd::kDone);
  CHECK(sum == 600);
  CHECK(lock.stats().acquisitions == 600);
  return result.trace_hash;
}

TEST_CASE("VirtualEngine: the same seed replays event by event, another seed does not", "[core]") {
  const std::uint64_t first = MixedRun(Cpus(4, 7));
  CHECK(MixedRun(Cpus(4, 7)) == first);
  CHECK(MixedRun(Cpus(4, 8)) != first);
  EngineConfig inside = Cpus(4, 7);
  inside.sync_in_cs = true;
  const std::uint64_t interleaved = MixedRun(inside);
  CHECK(interleaved != first);
  CHECK(MixedRun(inside) == interleaved);
}

TEST_CASE("VirtualEngine: two CPUs advance side by side", "[core]") {
  Machine machine(Cpus(2));
  std::vector<std::int64_t> order;
  for (int i = 0; i < 2; ++i) {
    machine.engine.Spawn({.name = "t", .cpu_hint = CpuId{i}}, [&, i] {
      for (int k = 0; k < 5; ++k) {
        Charge({i == 0 ? 1000 : 3000});
        order.push_back(Now().n);
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  // Whoever is behind runs: the recorded times never step back by more than one charge.
  REQUIRE(order.size() == 10);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("VirtualEngine: a contended spin lock makes the later CPU wait until the release",
          "[core]") {
  EngineConfig config = Cpus(2);
  config.costs = {.lock_ns = 0, .context_switch_ns = 0, .wake_ns = 0, .wake_latency_ns = 0};
  Machine machine(config);
  SpinLock lock(machine.engine, LockRank::kLru, "test lock");
  std::int64_t second_got_it = 0;
  machine.engine.Spawn({.name = "first", .cpu_hint = CpuId{0}}, [&] {
    SpinGuard guard(lock);
    Charge({5000});
  });
  machine.engine.Spawn({.name = "second", .cpu_hint = CpuId{1}}, [&] {
    Charge({1000});
    SpinGuard guard(lock);
    second_got_it = Now().n;
  });
  machine.engine.Run();
  CHECK(second_got_it == 5000);
  CHECK(lock.stats().contentions == 1);
  CHECK(lock.stats().wait_ns == 4000);
  CHECK(lock.stats().hold_ns == 5000);
}

TEST_CASE("VirtualEngine: waiting for what nobody will do is a stall with a wait-for report",
          "[core]") {
  Machine machine(Cpus(2));
  WaitQueue never(machine.engine, "a wake that never comes", 3);
  SleepMutex mutex(machine.engine, "the big mutex");
  machine.engine.Spawn({.name = "holder"}, [&] {
    SleepGuard guard(mutex);
    never.Wait([] { return false; });
  });
  machine.engine.Spawn({.name = "victim"}, [&] {
    Charge({100'000});
    SleepGuard guard(mutex);
  });
  // A periodic daemon must not hide the stall.
  machine.engine.Spawn({.name = "vmstat", .daemon = true}, [&] {
    for (;;) SleepForHousekeeping(kSecond);
  });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kStalled);
  CAPTURE(result.stall_report);
  CHECK(result.stall_report.find("1 wait on a wake that never comes 3: holder-1") !=
        std::string::npos);
  CHECK(result.stall_report.find("victim-2 (held by task 1)") != std::string::npos);
  CHECK(machine.engine.live_tasks() == 0);
}

TEST_CASE("VirtualEngine: daemons that only nap do not keep a hung machine alive", "[core]") {
  Machine machine(Cpus(1));
  WaitQueue never(machine.engine, "nothing");
  machine.engine.Spawn({.name = "hung"}, [&] { never.Wait([] { return false; }); });
  machine.engine.Spawn({.name = "kswapd0", .daemon = true}, [&] {
    for (;;) SleepFor(100 * kMillisecond);
  });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kStalled);
  CHECK(result.stall_report.find("hung-1") != std::string::npos);
}

TEST_CASE("VirtualEngine: the end of the last foreground task unwinds every daemon", "[core]") {
  Machine machine(Cpus(2));
  WaitQueue never(machine.engine, "nothing");
  int unwound = 0;
  struct Count {
    int& n;
    ~Count() { ++n; }
  };
  for (int i = 0; i < 5; ++i) {
    machine.engine.Spawn({.name = "daemon", .daemon = true}, [&] {
      Count count{unwound};
      never.Wait([] { return false; });
    });
  }
  machine.engine.Spawn({.name = "main"}, [] { Charge({1'000'000}); });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(unwound == 5);
}

TEST_CASE("VirtualEngine: a time limit ends the run at that time", "[core]") {
  EngineConfig config = Cpus(2);
  config.time_limit = 5 * kMillisecond;
  Machine machine(config);
  machine.engine.Spawn({.name = "endless"}, [] {
    for (;;) ChargeUser({10'000});
  });
  machine.engine.Spawn({.name = "sleepy"}, [] {
    for (;;) SleepFor({300});
  });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kTimeLimit);
  CHECK(result.emulated == 5 * kMillisecond);
}

TEST_CASE("VirtualEngine: a slice ends only at a preemption point of the kernel", "[core]") {
  Machine machine(Cpus(1));
  std::string order;
  machine.engine.Spawn({.name = "kernel"}, [&] {
    Charge({3'000'000});  // past the slice, but in kernel mode
    order += 'k';
    CondResched();
    order += 'K';
  });
  machine.engine.Spawn({.name = "other"}, [&] { order += 'o'; });
  machine.engine.Run();
  CHECK(order == "koK");
}

TEST_CASE("VirtualEngine: a killed task dies at its return to user mode", "[core]") {
  Machine machine(Cpus(2));
  WaitQueue sleep(machine.engine, "an interruptible sleep");
  bool survived = false;
  Task& spinner = machine.engine.Spawn({.name = "spinner"}, [&] {
    for (int i = 0; i < 1'000'000; ++i) ChargeUser({1000});
    survived = true;
  });
  Task& sleeper = machine.engine.Spawn({.name = "sleeper"}, [&] {
    sleep.Wait([] { return false; }, {.interruptible = true});
    survived = true;
  });
  machine.engine.Spawn({.name = "killer"}, [&] {
    SleepFor(kMillisecond);
    CurrentEngine().Kill(spinner, false);
    CurrentEngine().Kill(sleeper, true);
  });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kDone);
  CHECK_FALSE(survived);
  CHECK(result.emulated < kSecond);
}

TEST_CASE("WaitQueue: a condition with a side effect succeeds exactly once a waiter", "[core]") {
  Machine machine(Cpus(4));
  WaitQueue queue(machine.engine, "tickets");
  int tickets = 0;
  int taken = 0;
  for (int i = 0; i < 100; ++i) {
    machine.engine.Spawn({.name = "taker"}, [&] {
      queue.Wait([&] {
        if (tickets == 0) return false;
        --tickets;
        ++taken;
        return true;
      });
    });
  }
  machine.engine.Spawn({.name = "giver"}, [&] {
    for (int i = 0; i < 100; ++i) {
      ++tickets;
      queue.WakeOne();
      SleepFor({50'000});
    }
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(taken == 100);
  CHECK(tickets == 0);
}

TEST_CASE("WaitQueue: a timeout is told from a wake by the condition", "[core]") {
  Machine machine(Cpus(1));
  WaitQueue queue(machine.engine, "q");
  bool met = true;
  std::int64_t waited = 0;
  machine.engine.Spawn({.name = "waiter"}, [&] {
    const Ns start = Now();
    met = queue.WaitFor({250'000}, [] { return false; });
    waited = (Now() - start).n;
  });
  machine.engine.Run();
  CHECK_FALSE(met);
  CHECK(waited >= 250'000);
  CHECK(waited < 260'000);
}

}  // namespace
}  // namespace pagestorm
