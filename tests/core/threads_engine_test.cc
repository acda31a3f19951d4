#include "core/threads_engine.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "core/host_binding.h"
#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "tests/support/machine.h"

namespace pagestorm {
namespace {

using testing::Cpus;
using testing::Machine;

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
    const HostNs start = HostNow();
    while (HostNow() - start < HostNs{3'000'000}) {
    }
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
    const HostNs start = HostNow();  // 10 ms of host time in which nothing is charged
    while (HostNow() - start < HostNs{10'000'000}) {
    }
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
  CHECK(lock.stats().wait_ns >= 1'000'000);
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

TEST_CASE("ThreadsEngine: an idle CPU pulls queued tasks from a busy one", "[core][threads]") {
  Machine machine(EngineKind::kThreads, Cpus(2), 100 * kMillisecond);
  std::array<std::atomic<int>, 2> ran{};
  for (int i = 0; i < 10; ++i) {
    machine.engine.Spawn({.name = "t", .cpu_hint = CpuId{0}}, [&] {
      ChargeUser({3'000'000});
      ++ran[static_cast<std::size_t>(CurrentCpu().id.n)];
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(ran[0] + ran[1] == 10);
  CHECK(ran[1] > 0);
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
