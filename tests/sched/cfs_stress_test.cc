#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "tests/sched/sched_machine.h"

namespace pagestorm::sched {
namespace {

CpuTopology FourNodes() {
  return CpuTopology::From(
      numa::Topology::Synthetic({.nodes = 4, .cores_per_node = 2, .threads_per_core = 2}));
}

// Pairs that send tokens, hogs, sleepers, all with random masks. What a run left behind.
struct Outcome {
  std::uint64_t hash = 0;
  std::int64_t ended = 0;
  bool left_mask = false;
  std::vector<int> rounds;
  RunQueueStats stats;
};

Outcome Storm(const SchedPolicy& policy, std::uint64_t seed, int tasks) {
  Machine m(FourNodes(), policy, seed);
  Outcome out;
  out.rounds.resize(static_cast<std::size_t>(tasks), 0);
  Rng masks = m.engine.seeds().Stream("masks");
  std::vector<int> tokens(static_cast<std::size_t>(tasks), 0);
  std::vector<std::unique_ptr<WaitQueue>> queues;
  for (int i = 0; i < tasks; ++i) {
    queues.push_back(std::make_unique<WaitQueue>(m.engine, "tokens", i));
  }
  for (int i = 0; i < tasks; ++i) {
    SpawnOptions options{.name = "storm"};
    if (masks.Chance(700'000)) {
      const std::int64_t members = masks.Between(1, 6);
      for (std::int64_t k = 0; k < members; ++k) options.allowed.set(masks.Below(16));
    }
    options.nice = static_cast<int>(masks.Between(-3, 3));
    m.engine.Spawn(std::move(options), [&, i] {
      Rng rng = m.engine.seeds().Stream("storm", i);
      const auto me = static_cast<std::size_t>(i);
      const auto other = static_cast<std::size_t>((i + 1) % tasks);
      for (int round = 0; round < 40; ++round) {
        const std::int64_t longest = rng.Chance(100'000) ? 60'000'000 : 2'000'000;
        ChargeUser({rng.Between(1000, longest)});
        if (!Current().allowed.test(static_cast<std::size_t>(CurrentCpu().id.n))) {
          out.left_mask = true;
        }
        ++tokens[other];
        queues[other]->WakeOne();
        if (rng.Chance(200'000)) SleepFor({rng.Between(1000, 30'000'000)});
        queues[me]->Wait([&] { return tokens[me] > 0; });
        --tokens[me];
        out.rounds[me] = round + 1;
      }
    });
  }
  const RunResult result = m.engine.Run();
  CHECK(result.end == RunEnd::kDone);
  m.scheduler.CheckInvariants();
  out.hash = result.trace_hash;
  out.ended = result.emulated.n;
  out.stats = m.scheduler.Stats();
  return out;
}

TEST_CASE("CfsScheduler: random masks are kept and everybody finishes", "[sched][stress]") {
  const auto seed = GENERATE(take(4, random(0U, 0xffff'ffffU)));
  CAPTURE(seed);
  const Outcome out = Storm(SchedPolicy::Linux39(), seed, 96);
  CHECK_FALSE(out.left_mask);
  for (const int rounds : out.rounds) CHECK(rounds == 40);
  CHECK(out.stats.pulled > 0);
  CHECK(out.stats.pulled == out.stats.pulled_away);
  CHECK(out.stats.wakeup_preemptions > 0);
  CHECK(out.stats.tick_preemptions > 0);
}

TEST_CASE("CfsScheduler: the same seed gives the same run, another one does not",
          "[sched][stress]") {
  for (SchedPolicy policy : {SchedPolicy::Linux39(), SchedPolicy::Linux2626()}) {
    const Outcome first = Storm(policy, 11, 60);
    const Outcome again = Storm(policy, 11, 60);
    CHECK(first.hash == again.hash);
    CHECK(first.ended == again.ended);
    CHECK(Storm(policy, 12, 60).hash != first.hash);
    policy.order = QueueOrder::kFifo;
    CHECK(Storm(policy, 11, 60).hash != first.hash);
  }
}

// Every hog of an overcommitted machine gets its share: nobody starves, whatever the others' masks.
TEST_CASE("CfsScheduler: equal tasks on equal CPUs run equally long", "[sched][stress]") {
  Machine m(CpuTopology::Flat(4));
  std::vector<std::int64_t> used(32, 0);
  for (int i = 0; i < 32; ++i) {
    m.engine.Spawn({.name = "hog"}, [&, i] {
      while (Now().n < 4000 * kMs) {
        ChargeUser({100'000});
        used[static_cast<std::size_t>(i)] += 100'000;
      }
    });
  }
  m.engine.Run();
  for (const std::int64_t ns : used) {  // 4 CPUs * 4 s / 32 tasks, within a few slices
    CHECK(ns > 485 * kMs);
    CHECK(ns < 515 * kMs);
  }
}

// Work of 20 ms for each of 128 tasks that start on two CPUs and nap now and then; how long it
// took, in multiples of what 16 CPUs need at least.
double NappersTake(const SchedPolicy& policy) {
  Machine m(FourNodes(), policy);
  constexpr int kTasks = 128;
  constexpr std::int64_t kWork = 20 * kMs;
  for (int i = 0; i < kTasks; ++i) {
    m.engine.Spawn({.name = "worker", .cpu_hint = CpuId{i % 2}}, [&, i] {
      Rng rng = m.engine.seeds().Stream("worker", i);
      std::int64_t left = kWork;
      while (left > 0) {
        const std::int64_t step = rng.Between(100'000, 400'000);
        ChargeUser({step});
        left -= step;
        SleepFor({rng.Between(10'000, 50'000)});
      }
    });
  }
  const RunResult result = m.engine.Run();
  return static_cast<double>(result.emulated.n) / (kTasks * kWork / 16);
}

TEST_CASE("CfsScheduler: nappers keep every CPU busy by stealing and by waking on idle CPUs",
          "[sched][stress]") {
  SchedPolicy policy = SchedPolicy::Linux39();
  CHECK(NappersTake(policy) < 1.1);
  policy.wake_any_idle = false;
  policy.idle_stealing = false;
  CHECK(NappersTake(policy) > 3);  // one node of the four works
}

}  // namespace
}  // namespace pagestorm::sched
