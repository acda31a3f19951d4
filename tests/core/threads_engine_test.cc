#include "core/threads_engine.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "core/host_binding.h"
#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "tests/support/machine.h"

namespace pagestorm {
namespace {

using testing::Cpus;
using testing::Machine;

CpuMask Only(std::size_t cpu) { return CpuMask{}.set(cpu); }

// Host time that the model knows nothing of.
void Burn(HostNs duration) {
  const HostNs start = HostNow();
  while (HostNow() - start < duration) CpuRelax();
}

TEST_CASE("ThreadsEngine: charged time is lived through on the host", "[core][threads]") {
  EngineConfig config = Cpus(1);
  config.scale = 2.0;
  Machine machine(EngineKind::kThreads, config);
  machine.engine.Spawn({.name = "t"}, [] {
    for (int i = 0; i < 200; ++i) Charge({50'000});
  });
  const HostNs start = HostNow();
  const RunResult result = machine.engine.Run();
  const HostNs elapsed = HostNow() - start;
  CHECK(result.emulated >= 10 * kMillisecond);
  CHECK(elapsed >= HostNs{19'900'000});  // twice that, less the debt a CPU may carry
  const HostReport& report = *machine.engine.host_report();
  CHECK(report.elapsed <= elapsed);
  CHECK(report.emulated_cpus == 1);
  CHECK(report.host_cores == HostCores());
  CHECK(report.paused > HostNs{0});
}

TEST_CASE("ThreadsEngine: what the model does not account for is host-bound time",
          "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(1));
  std::int64_t before = 0;
  std::int64_t after = 0;
  machine.engine.Spawn({.name = "t"}, [&] {
    before = FreshNow().n;
    Burn({3'000'000});
    after = FreshNow().n;
  });
  machine.engine.Run();
  CHECK(after - before >= 2'900'000);
  CHECK(machine.engine.host_report()->host_bound >= HostNs{2'900'000});
  CHECK(machine.engine.Times().system >= Ns{2'900'000});
}

TEST_CASE("ThreadsEngine: the slip of every timer is recorded", "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2));
  for (int i = 0; i < 4; ++i) {
    machine.engine.Spawn({.name = "t"}, [] {
      for (int k = 0; k < 25; ++k) SleepFor({50'000});
    });
  }
  machine.engine.Run();
  const SlipHistogram& slip = machine.engine.host_report()->slip;
  CHECK(slip.timers >= 100);
  CHECK(slip.max > HostNs{0});
  std::uint64_t counted = 0;
  for (const std::uint64_t bucket : slip.buckets) counted += bucket;
  CHECK(counted == slip.timers);
}

TEST_CASE("ThreadsEngine: strict ends a run whose timers are late", "[core][threads]") {
  EngineConfig config = Cpus(1);
  config.strict = true;
  config.slip_limit = {2'000'000};
  Machine machine(EngineKind::kThreads, config);
  machine.engine.Spawn({.name = "sleeper"}, [] { SleepFor(kMillisecond); });
  machine.engine.Spawn({.name = "hog"}, [] {
    Burn({10'000'000});
    for (;;) ChargeUser({10'000});
  });
  CHECK(machine.engine.Run().end == RunEnd::kSlip);
}

TEST_CASE("ThreadsEngine: CPU threads are bound to the host CPUs asked for", "[core][threads]") {
  EngineConfig config = Cpus(2);
  config.cpus[0].host_cpu = 0;
  Machine machine(EngineKind::kThreads, config);
  machine.engine.Spawn({.name = "t"}, [] { Charge({1000}); });
  machine.engine.Run();
  HostBinding binding;
  std::thread probe(
      [&] { CHECK(binding.BindThisThread(0) == machine.engine.host_report()->bound); });
  probe.join();

  EngineConfig impossible = Cpus(1);
  impossible.cpus[0].host_cpu = 1'000'000;
  Machine other(EngineKind::kThreads, impossible);
  other.engine.Spawn({.name = "t"}, [] { Charge({1000}); });
  CHECK(other.engine.Run().end == RunEnd::kDone);
  CHECK_FALSE(other.engine.host_report()->bound);
}

TEST_CASE("ThreadsEngine: more emulated CPUs than host cores are reported", "[core][threads]") {
  for (const int cpus : {1, HostCores() + 1}) {
    Machine machine(EngineKind::kThreads, Cpus(cpus));
    machine.engine.Spawn({.name = "t"}, [] { Charge({1000}); });
    machine.engine.Run();
    CHECK(machine.engine.host_report()->oversubscribed == (cpus > HostCores()));
  }
}

TEST_CASE("ThreadsEngine: a contended spin lock is waited for on the emulated clock",
          "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2));
  SpinLock lock(machine.engine, LockRank::kLru, "test lock");
  std::atomic<bool> held{false};
  machine.engine.Spawn({.name = "holder", .cpu_hint = CpuId{0}}, [&] {
    SpinGuard guard(lock);
    held = true;
    Charge(5 * kMillisecond);
  });
  machine.engine.Spawn({.name = "waiter", .cpu_hint = CpuId{1}}, [&] {
    while (!held) SleepFor({100'000});
    SpinGuard guard(lock);
  });
  machine.engine.Run();
  CHECK(lock.stats().contentions == 1);
  CHECK(lock.stats().wait_ns >=
        200'000);  // most of the 5 ms, unless the host lets the waiter come late
  CHECK(lock.stats().wait_ns_max == lock.stats().wait_ns);
  CHECK(lock.stats().hold_ns_max >= 5'000'000);
}

TEST_CASE("ThreadsEngine: service CPUs run only what is pinned to them", "[core][threads]") {
  EngineConfig config = Cpus(2);
  config.cpus.push_back({.node = {0}, .kind = CpuKind::kService});
  Machine machine(EngineKind::kThreads, config);
  CpuMask service;
  service.set(2);
  std::atomic<int> astray{0};
  machine.engine.Spawn({.name = "kswapd0", .allowed = service}, [&] {
    for (int i = 0; i < 20; ++i) {
      if (CurrentCpu().id != CpuId{2}) ++astray;
      SleepFor({100'000});
    }
  });
  for (int i = 0; i < 10; ++i) {
    machine.engine.Spawn({.name = "t"}, [&] {
      for (int k = 0; k < 10; ++k) {
        if (CurrentCpu().id == CpuId{2}) ++astray;
        SleepFor({20'000});
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(astray == 0);
}

TEST_CASE("ThreadsEngine: an idle CPU pulls tasks that queue up elsewhere", "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2), 100 * kMillisecond);
  std::array<std::atomic<int>, 2> ran{};
  machine.engine.Spawn({.name = "parent", .allowed = Only(0)}, [&] {
    SleepFor(5 * kMillisecond);  // CPU 1 has long been asleep, and nobody rings it
    for (int i = 0; i < 10; ++i) {
      CurrentEngine().Spawn({.name = "t", .cpu_hint = CpuId{0}}, [&] {
        ChargeUser({3'000'000});
        ++ran[static_cast<std::size_t>(CurrentCpu().id.n)];
      });
    }
    ChargeUser(10 * kMillisecond);
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(ran[0] + ran[1] == 10);
  CHECK(ran[1] > 0);
}

TEST_CASE("ThreadsEngine: a timer fires although a host-bound task never leaves its CPU",
          "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2), kSecond);
  std::atomic<bool> asleep{false};
  std::atomic<bool> woken{false};
  std::atomic<bool> in_time{false};
  machine.engine.Spawn({.name = "sleeper", .allowed = Only(0)}, [&] {
    Current().allowed.set(1);  // its timer is CPU 0's, but it may go on elsewhere
    asleep = true;
    SleepFor(2 * kMillisecond);
    woken = true;
  });
  machine.engine.Spawn({.name = "hog", .allowed = Only(0)}, [&] {
    const HostNs give_up = HostNow() + HostNs{2'000'000'000};
    while (!woken && HostNow() < give_up) {  // no debt to pay, and no preemption point
      Burn({20'000});
      Charge({10'000});
    }
    in_time = woken.load();
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(asleep);
  CHECK(in_time);
}

TEST_CASE("ThreadsEngine: a kill cuts long user-mode work short", "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2), 10 * kSecond);
  Task& worker = machine.engine.Spawn({.name = "worker"}, [&] { ChargeUser({5 * kSecond.n}); });
  machine.engine.Spawn({.name = "killer"}, [&] {
    SleepFor(5 * kMillisecond);
    CurrentEngine().Kill(worker, false);
  });
  CHECK(machine.engine.Run().emulated.n < 3'000'000'000);
}

TEST_CASE("ThreadsEngine: time does not run backwards for a task that changes its CPU",
          "[core][threads]") {
  EngineConfig config = Cpus(2);
  config.pay = {50'000'000};  // a CPU may carry a large debt
  Machine machine(EngineKind::kThreads, config);
  WaitQueue queue(machine.engine, "q");
  std::int64_t before = 0;
  std::int64_t after = 0;
  machine.engine.Spawn({.name = "waker", .allowed = Only(1)}, [&] {
    while (queue.WakeOne() == 0) SleepFor({100'000});
  });
  machine.engine.Spawn({.name = "mover", .allowed = Only(0)}, [&] {
    Charge({40'000'000});
    before = Now().n;
    Current().allowed = Only(1);
    queue.WaitForWake({kNever});
    after = Now().n;
    CHECK(CurrentCpu().id == CpuId{1});
  });
  machine.engine.Run();
  CHECK(before >= 40'000'000);
  CHECK(after >= before);
}

// A waker on another CPU that acts while a waiter looks at its condition for the last time.
struct Interloper {
  std::atomic<bool> wanted{false};
  std::atomic<bool> done{false};

  void Spawn(Engine& engine, std::function<void()> act) {
    engine.Spawn({.name = "interloper", .allowed = Only(1)}, [this, act] {
      while (!wanted) SleepFor({10'000});
      act();
      done = true;
    });
  }
  void Let() {
    wanted = true;
    while (!done) CpuRelax();
  }
};

TEST_CASE("WaitQueue: a wake that meets a waiter whose time is up is not lost", "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2));
  WaitQueue queue(machine.engine, "tokens");
  std::atomic<bool> token{false};
  int looks = 0;
  bool met = false;
  Interloper waker;
  machine.engine.Spawn({.name = "waiter", .allowed = Only(0)}, [&] {
    met = queue.WaitFor({0},
                        [&] {
                          const bool seen = token;
                          if (++looks == 2) waker.Let();  // queued by now, and about to give up
                          return seen;
                        },
                        {.exclusive = true});
  });
  waker.Spawn(machine.engine, [&] {
    token = true;
    CHECK(queue.WakeOne() == 1);
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(met);
}

TEST_CASE("WaitQueue: a killed waiter hands the wake it received to the next", "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2));
  WaitQueue queue(machine.engine, "tokens");
  std::atomic<bool> token{false};
  int looks = 0;
  Interloper waker;
  Task& victim = machine.engine.Spawn({.name = "victim", .allowed = Only(0)}, [&] {
    queue.Wait(
        [&] {
          const bool seen = token;
          if (++looks == 2) waker.Let();
          return seen;
        },
        {.exclusive = true, .interruptible = true});
    FAIL_CHECK("the victim survived");
  });
  machine.engine.Spawn({.name = "next", .allowed = Only(1)}, [&] {
    queue.Wait([&] { return token.exchange(false); }, {.exclusive = true});
  });
  waker.Spawn(machine.engine, [&] {
    while (queue.WaitersRacy() < 2) SleepFor({10'000});
    CurrentEngine().Kill(victim, false);
    token = true;
    queue.WakeOne();  // the victim is first in line
  });
  const RunResult result = machine.engine.Run();
  CAPTURE(result.stall_report);
  CHECK(result.end == RunEnd::kDone);
}

TEST_CASE("ThreadsEngine: the poll is called while the machine runs", "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(1));
  int polls = 0;
  machine.engine.set_poll([&] { ++polls; });
  machine.engine.Spawn({.name = "t"}, [] { SleepFor(350 * kMillisecond); });
  machine.engine.Run();
  CHECK(polls >= 1);
  CHECK(polls <= 4);
}

}  // namespace
}  // namespace pagestorm
