#include "core/virtual_engine.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "tests/support/machine.h"

namespace pagestorm {
namespace {

using testing::Cpus;

struct Machine : testing::Machine {
  explicit Machine(const EngineConfig& config) : testing::Machine(EngineKind::kVirtual, config) {}
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

}  // namespace
}  // namespace pagestorm
