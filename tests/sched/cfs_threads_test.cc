// The fair scheduler under the threads engine: what must hold whatever the host does.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "core/make_engine.h"
#include "core/wait_queue.h"
#include "tests/sched/sched_machine.h"

namespace pagestorm::sched {
namespace {

struct Outcome {
  RunEnd end = RunEnd::kStalled;
  bool left_mask = false;
  std::vector<int> rounds;
};

// Pairs that pass tokens, nap and compute, a third of them pinned to a few CPUs.
Outcome Storm(EngineKind kind, const SchedPolicy& policy, std::uint64_t seed) {
  constexpr int kTasks = 120;
  const CpuTopology topology = CpuTopology::From(
      numa::Topology::Synthetic({.nodes = 2, .cores_per_node = 2, .threads_per_core = 2}));
  EngineConfig config = ConfigOf(topology, seed);
  config.cpus.push_back({.node = NodeId{1}, .kind = CpuKind::kService});
  CfsScheduler scheduler(kind, policy, topology);
  const auto engine = MakeEngine(kind, config, scheduler);
  Outcome out;
  out.rounds.resize(kTasks, 0);
  std::vector<std::atomic<int>> tokens(kTasks);
  std::vector<std::unique_ptr<WaitQueue>> queues;
  std::atomic<bool> left_mask{false};
  for (int i = 0; i < kTasks; ++i) {
    queues.push_back(std::make_unique<WaitQueue>(*engine, "tokens", i));
  }
  Rng masks = engine->seeds().Stream("masks");
  for (int i = 0; i < kTasks; ++i) {
    SpawnOptions options{.name = "storm"};
    if (i % 3 == 0) {
      for (int k = 0; k < 3; ++k) options.allowed.set(masks.Below(8));
    } else if (i % 40 == 1) {
      options.allowed.set(8);  // the service CPU
    }
    engine->Spawn(std::move(options), [&, i] {
      Rng rng = CurrentEngine().seeds().Stream("storm", i);
      const auto me = static_cast<std::size_t>(i);
      const auto other = static_cast<std::size_t>((i + 1) % kTasks);
      for (int round = 0; round < 30; ++round) {
        ChargeUser({rng.Between(1000, 60'000)});
        if (!Current().allowed.test(static_cast<std::size_t>(CurrentCpu().id.n))) left_mask = true;
        ++tokens[other];
        queues[other]->WakeOne();
        if (rng.Chance(100'000)) SleepFor({rng.Between(1000, 300'000)});
        queues[me]->Wait([&] { return tokens[me] > 0; });
        --tokens[me];
        if (rng.Chance(50'000)) Yield();
        ++out.rounds[me];
      }
    });
  }
  out.end = engine->Run().end;
  out.left_mask = left_mask;
  scheduler.CheckInvariants();
  const RunQueueStats stats = scheduler.Stats();
  CHECK(stats.pulled == stats.pulled_away);
  CHECK(stats.forks == kTasks);
  CHECK(stats.wakeups > 0);
  return out;
}

TEST_CASE("CfsScheduler: keeps masks and starves nobody under either engine",
          "[sched][threads][stress]") {
  const EngineKind kind = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  SchedPolicy policy = GENERATE(SchedPolicy::Linux39(), SchedPolicy::Linux2626());
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    if (seed == 4) policy.order = QueueOrder::kFifo;
    const Outcome out = Storm(kind, policy, seed);
    CHECK(out.end == RunEnd::kDone);
    CHECK_FALSE(out.left_mask);
    for (const int rounds : out.rounds) CHECK(rounds == 30);
  }
}

}  // namespace
}  // namespace pagestorm::sched
