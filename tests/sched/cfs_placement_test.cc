#include <catch2/catch.hpp>

#include "tests/sched/sched_machine.h"

namespace pagestorm::sched {
namespace {

// Nodes of 4 CPUs without SMT, one cache a node.
CpuTopology Nodes(int nodes, int distance = 20) {
  return CpuTopology::From(numa::Topology::Synthetic(
      {.nodes = nodes, .cores_per_node = 4, .remote_distance = distance}));
}
// One node, two cores of two threads each: CPUs 0 2 and 1 3.
CpuTopology Smt() {
  return CpuTopology::From(
      numa::Topology::Synthetic({.nodes = 1, .cores_per_node = 2, .threads_per_core = 2}));
}

TEST_CASE("Place: a waking task goes to its previous CPU if that is idle", "[sched][place]") {
  Puppet p(Nodes(2));
  Task& task = p.Asleep(2);
  p.Busy(0);
  p.Busy(5);
  CHECK(p.WakeFrom(task, 0) == 2);
  CHECK(p.WakeFrom(task, 5) == 2);  // also from the other node
  CHECK(p.WakeFrom(task, -1) == 2);
}

TEST_CASE("Place: else to an idle CPU that shares its cache", "[sched][place]") {
  Puppet p(Nodes(2));
  Task& task = p.Asleep(2);
  for (const int cpu : {0, 2, 3}) p.Busy(cpu);
  CHECK(p.WakeFrom(task, 0) == 1);
  CHECK(p.WakeFrom(task, -1) == 1);
}

TEST_CASE("Place: else to the nearest idle CPU, or it waits, as the policy says",
          "[sched][place]") {
  SchedPolicy policy = SchedPolicy::Linux39();
  policy.wake_any_idle = GENERATE(true, false);
  Puppet p(Nodes(3), policy);
  Task& task = p.Asleep(6);
  for (int cpu = 0; cpu < 12; ++cpu) {
    if (cpu != 3 && cpu != 10) p.Busy(cpu);
  }
  CHECK(p.WakeFrom(task, -1) == (policy.wake_any_idle ? 3 : 6));
}

// Mutation tried: the comparison in WakeAffine turned round (it moves at the first wake-up).
TEST_CASE("Place: a waker takes the task over if its CPU is the less loaded one",
          "[sched][place]") {
  Puppet p(Nodes(2));
  Task& task = p.Asleep(2);
  for (int cpu = 0; cpu < 8; ++cpu) p.Busy(cpu);
  CHECK(p.WakeFrom(task, 5) == 2);  // 2 tasks there against 1 here: 200 > 112
  p.Waiting(2);
  CHECK(p.WakeFrom(task, 5) == 5);  // 2 against 2: 200 <= 224
  SECTION("but not into a node that is too far away") {
    Puppet far(Nodes(2, 31));
    Task& other = far.Asleep(2);
    for (int cpu = 0; cpu < 8; ++cpu) far.Busy(cpu);
    far.Waiting(2);
    CHECK(far.WakeFrom(other, 5) == 2);
  }
  SECTION("and not where it may not run") {
    task.allowed = On({2, 3});
    CHECK(p.WakeFrom(task, 5) == 2);
  }
}

TEST_CASE("Place: an idle core comes before an idle thread of a busy core", "[sched][place]") {
  Puppet p(Smt());
  Task& task = p.Asleep(0);
  p.Busy(0);
  CHECK(p.WakeFrom(task, 0) == 1);  // core 1 is idle as a whole
  p.Busy(3);
  CHECK(p.WakeFrom(task, 0) == 2);  // no core is: the sibling
  p.Busy(2);
  CHECK(p.WakeFrom(task, 0) == 1);  // the only idle one
}

TEST_CASE("Place: a CPU stops being idle when a task is put on its queue", "[sched][place]") {
  Puppet p(Nodes(1));
  Task& a = p.Asleep(1);
  Task& b = p.Asleep(1);
  CHECK(p.WakeFrom(a, -1) == 1);
  p.sched().Enqueue(p.cpu(1), a, EnqueueReason::kWake);
  CHECK(p.WakeFrom(b, -1) == 0);
}

TEST_CASE("Place: a forked task goes to the idlest CPU, near its parent on a tie",
          "[sched][place]") {
  Puppet p(Nodes(2));
  Task& child = p.NewTask();
  CHECK(p.ForkFrom(child, 5) == 4);  // all idle: the parent's node, the lowest number
  p.Busy(4);
  CHECK(p.ForkFrom(child, 4) == 0);  // one task on node 1, none on node 0
  p.Busy(0);
  CHECK(p.ForkFrom(child, 4) == 5);
  for (const int cpu : {1, 2, 3, 5, 6}) p.Busy(cpu);
  CHECK(p.ForkFrom(child, 1) == 7);
  CHECK(p.ForkFrom(child, -1) == 7);
  p.Busy(7);
  p.Waiting(6);
  // 5 tasks on node 1 against 4: 125 % of the load, more than the bias of 112 % allows.
  CHECK(p.ForkFrom(child, 6) == 0);
  // A bias towards home: 9 against 8 is 112.5 %, 10 against 9 is 111 %.
  for (const int cpu : {0, 1, 2, 3, 4, 5, 7, 0}) p.Waiting(cpu);
  CHECK(p.ForkFrom(child, 6) == 4);
}

TEST_CASE("Place: forks spread over cores before threads", "[sched][place]") {
  Puppet p(Smt());
  Task& child = p.NewTask();
  p.Busy(2);
  CHECK(p.ForkFrom(child, 2) == 1);  // not 0, whose sibling is busy
  p.Busy(1);
  CHECK(p.ForkFrom(child, 2) == 0);
  p.Busy(3);
  p.Waiting(2);
  p.Waiting(2);
  CHECK(p.ForkFrom(child, 2) == 1);  // three tasks on core 0, though CPU 0 is idle; two on core 1
}

TEST_CASE("Place: never outside the mask, whatever is idle", "[sched][place]") {
  const auto seed = GENERATE(take(8, random(0U, 0xffff'ffffU)));
  CAPTURE(seed);
  Rng rng = Seeds(seed).Stream("masks");
  Puppet p(Nodes(4));
  for (int cpu = 0; cpu < 16; ++cpu) {
    if (rng.Chance(600'000)) p.Busy(cpu);
  }
  Task& task = p.NewTask();
  SchedEntity& entity = EntityOf(task);
  for (int round = 0; round < 2000; ++round) {
    task.allowed.reset();
    const std::int64_t members = rng.Between(1, 4);
    for (std::int64_t i = 0; i < members; ++i) task.allowed.set(rng.Below(16));
    entity.cpu = {static_cast<std::int32_t>(rng.Below(16))};
    const int waker = static_cast<int>(rng.Below(17)) - 1;
    const int woken = p.WakeFrom(task, waker);
    REQUIRE(task.allowed.test(static_cast<std::size_t>(woken)));
    const int forked = p.ForkFrom(task, waker);
    REQUIRE(task.allowed.test(static_cast<std::size_t>(forked)));
  }
}

TEST_CASE("PickNext: an idle CPU pulls from its cache, then its node's, then far away",
          "[sched][steal]") {
  // Two nodes of two caches with two CPUs each.
  Puppet p(CpuTopology::From(
      numa::Topology::Synthetic({.nodes = 2, .cores_per_node = 4, .cores_per_llc = 2})));
  for (const int cpu : {1, 2, 4}) p.Busy(cpu);
  Task& far = p.Waiting(4);
  Task& node = p.Waiting(2);
  Task& cache = p.Waiting(1);
  for (Task* expected : {&cache, &node, &far}) {
    CHECK(p.PickOn(0) == expected);
    CHECK((EntityOf(*expected).cpu == CpuId{0}));
    p.sched().Stopped(p.cpu(0), *expected);
  }
  CHECK(p.PickOn(0) == nullptr);
  CHECK(p.sched().Stats().pulled == 3);
}

TEST_CASE("PickNext: the busiest is asked first, and one whose tasks are pinned is passed over",
          "[sched][steal]") {
  Puppet p(Nodes(1));
  for (const int cpu : {1, 2, 3}) p.Busy(cpu);
  p.Waiting(1).allowed = On({1});
  p.Waiting(2).allowed = On({2});
  p.Waiting(2).allowed = On({2});
  Task& movable = p.Waiting(3);
  CHECK(p.PickOn(0) == &movable);
}

TEST_CASE("PickNext: of two queues the longer one is shortened", "[sched][steal]") {
  Puppet p(Nodes(1));
  for (const int cpu : {1, 2, 3}) p.Busy(cpu);
  p.Waiting(1);
  Task& longer = p.Waiting(2);
  p.Waiting(2);
  p.Waiting(3);
  p.PickOn(0);
  CHECK((p.sched().queue(CpuId{2}).nr_running() == 2));
  CHECK((EntityOf(longer).queued() != (p.sched().queue(CpuId{0}).curr() == &EntityOf(longer))));
}

TEST_CASE("PickNext: a service CPU pulls nothing, not even what may run there", "[sched][steal]") {
  Puppet p(Nodes(1), SchedPolicy::Linux39(), 1);
  p.Busy(1);
  Task& task = p.Waiting(1);
  task.allowed.set(4);
  REQUIRE(p.cpu(4).kind == CpuKind::kService);
  CHECK(p.PickOn(4) == nullptr);
  CHECK(p.PickOn(0) == &task);
}

TEST_CASE("TaskCreated: a child starts no earlier than its parent, wherever it starts",
          "[sched][cfs]") {
  Puppet p(Nodes(1));
  Task& parent = p.Busy(0);
  p.Waiting(0);  // holds the minimum of the queue down
  p.Busy(1);
  EntityOf(parent).vruntime += 500 * kMs;
  const std::int64_t lead = EntityOf(parent).vruntime - p.sched().queue(CpuId{0}).min_vruntime();
  REQUIRE(lead > 400 * kMs);
  Task& child = p.tasks.emplace_back();
  child.id = {100};
  child.allowed = On({0, 1, 2, 3});
  p.sched().TaskCreated(child, &parent);
  const int where = GENERATE(0, 1);
  const std::int64_t least = p.sched().queue(CpuId{where}).min_vruntime();
  p.sched().Enqueue(p.cpu(where), child, EnqueueReason::kFork);
  CHECK(EntityOf(child).vruntime == least + lead);
}

TEST_CASE("PickNext: nothing is pulled where the policy says so, nor a lone waiting task",
          "[sched][steal]") {
  SchedPolicy policy = SchedPolicy::Linux39();
  policy.idle_stealing = GENERATE(true, false);
  Puppet p(Nodes(1), policy);
  p.Waiting(1);  // CPU 1 is about to start it
  CHECK(p.PickOn(0) == nullptr);
  p.Waiting(1);
  CHECK((p.PickOn(0) != nullptr) == policy.idle_stealing);
}

}  // namespace
}  // namespace pagestorm::sched
