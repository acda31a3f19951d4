#include "sched/run_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "core/rng.h"

namespace pagestorm::sched {
namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Queue {
  explicit Queue(const SchedPolicy& p = SchedPolicy::Linux39().Scaled(48), int cpu = 0)
      : policy(p), rq(EngineKind::kVirtual, CpuId{cpu}, policy) {}

  SchedEntity& Make(int nice = 0) {
    Task& task = tasks.emplace_back();
    task.id = {static_cast<std::int32_t>(tasks.size())};
    task.nice = nice;
    task.allowed.set();
    return pool.Take(task);
  }
  // A new task that waits, without start debit.
  SchedEntity& Waiting(std::int64_t vruntime, int nice = 0) {
    SchedEntity& entity = Make(nice);
    entity.cpu = CpuId{0};
    entity.vruntime = vruntime;
    rq.Admit(entity, Arrival::kMove, 0);
    return entity;
  }
  SchedEntity* Run(std::int64_t now) {
    SchedEntity* next = rq.Pick(now);
    rq.Begin(now);
    return next;
  }

  SchedPolicy policy;
  std::deque<Task> tasks;
  EntityPool pool{EngineKind::kVirtual};
  RunQueue rq;
};

TEST_CASE("RunQueue: slices of 1, 2 and 9 equal tasks on a big machine are 24, 12 and 3 ms",
          "[sched][run_queue]") {
  Queue q;
  q.Waiting(0);
  CHECK(q.rq.SliceNs(kNice0Weight) == 24 * kMs);
  q.Waiting(0);
  CHECK(q.rq.SliceNs(kNice0Weight) == 12 * kMs);
  for (int i = 3; i <= 9; ++i) q.Waiting(0);
  CHECK(q.rq.SliceNs(kNice0Weight) == 3 * kMs);
}

// Mutation tried: the credit a whole latency (reads -24 ms); max() dropped (the short sleeper
// gains).
TEST_CASE("RunQueue: a long sleeper wakes half a latency before the others",
          "[sched][run_queue][spec:numa-4]") {
  Queue q;
  q.Waiting(500 * kMs);
  REQUIRE(q.Run(0) != nullptr);
  REQUIRE(q.rq.min_vruntime() == 500 * kMs);
  SchedEntity& sleeper = q.Make();
  sleeper.cpu = CpuId{0};
  sleeper.vruntime = 3 * kMs;
  q.rq.Admit(sleeper, Arrival::kWake, 0);
  CHECK(sleeper.vruntime == (500 - 12) * kMs);
  SchedEntity& napper = q.Make();
  napper.cpu = CpuId{0};
  napper.vruntime = 499 * kMs;  // slept so shortly that it is not behind
  q.rq.Admit(napper, Arrival::kWake, 0);
  CHECK(napper.vruntime == 499 * kMs);
}

TEST_CASE("RunQueue: 2.6.26 gives sleepers a whole latency", "[sched][run_queue]") {
  Queue q(SchedPolicy::Linux2626().Scaled(8));
  q.Waiting(500 * kMs);
  q.Run(0);
  SchedEntity& sleeper = q.Make();
  sleeper.cpu = CpuId{0};
  q.rq.Admit(sleeper, Arrival::kWake, 0);
  CHECK(sleeper.vruntime == (500 - 80) * kMs);
}

TEST_CASE("RunQueue: a new task starts its slice behind, but not before its parent",
          "[sched][run_queue]") {
  Queue q;
  SchedEntity& parent = q.Waiting(100 * kMs);
  q.Run(0);
  SchedEntity& child = q.Make();
  child.cpu = parent.cpu;
  child.vruntime = parent.vruntime;
  q.rq.Admit(child, Arrival::kFork, 0);
  CHECK(child.vruntime == 112 * kMs);  // two tasks: 12 ms each
  SchedEntity& light = q.Make(5);
  q.rq.Admit(light, Arrival::kFork, 0);
  // Slice 24 ms * 335 / 2383 = 3,373,898 ns; as virtual time * 1024 / 335.
  CHECK(light.vruntime == 100 * kMs + 3'373'898LL * 1024 / 335);
  SchedEntity& late = q.Make();
  late.cpu = parent.cpu;
  late.vruntime = 300 * kMs;  // its parent is far ahead
  q.rq.Admit(late, Arrival::kFork, 0);
  CHECK(late.vruntime == 300 * kMs);
}

TEST_CASE("RunQueue: running costs virtual time by weight and moves the minimum",
          "[sched][run_queue]") {
  Queue q;
  SchedEntity& a = q.Waiting(10 * kMs, 5);
  q.Waiting(20 * kMs);
  REQUIRE(q.Run(0) == &a);
  q.rq.UpdateCurr(335'000);
  CHECK(a.vruntime == 10 * kMs + 1'024'000);
  CHECK(a.sum_exec == 335'000);
  CHECK(q.rq.min_vruntime() == 10 * kMs + 1'024'000);
  q.rq.UpdateCurr(33'500'000);
  CHECK(q.rq.min_vruntime() == 20 * kMs);  // the waiting one holds it
  q.rq.UpdateCurr(1'000);                  // an older time changes nothing
  CHECK(a.sum_exec == 33'500'000);
}

// Mutation tried: '>' -> '>=' (exactly one granularity preempts).
TEST_CASE("RunQueue: a wakee preempts when it is more than a granularity behind",
          "[sched][run_queue]") {
  Queue q;  // 4 ms
  SchedEntity& running = q.Waiting(100 * kMs);
  q.Run(0);
  SECTION("by one granularity and a bit") {
    CHECK_FALSE(q.rq.ShouldPreempt(q.Waiting(96 * kMs)));
    SchedEntity& wakee = q.Waiting(96 * kMs - 1);
    CHECK(q.rq.ShouldPreempt(wakee));
    CHECK(q.Run(1) == &wakee);
    q.rq.PutBack(running);
  }
  SECTION("a heavy task needs less, a light one more") {
    // nice -5: 4 ms * 1024 / 3121 = 1,312,399; nice 5: 4 ms * 1024 / 335 = 12,226,865.
    CHECK_FALSE(q.rq.ShouldPreempt(q.Waiting(100 * kMs - 1'312'399, -5)));
    CHECK(q.rq.ShouldPreempt(q.Waiting(100 * kMs - 1'312'400, -5)));
    CHECK_FALSE(q.rq.ShouldPreempt(q.Waiting(100 * kMs - 12'226'865, 5)));
    CHECK(q.rq.ShouldPreempt(q.Waiting(100 * kMs - 12'226'866, 5)));
  }
  q.rq.CheckInvariants();
}

TEST_CASE("RunQueue: without wakeup preemption nobody preempts by waking", "[sched][run_queue]") {
  SchedPolicy policy = SchedPolicy::Linux39().Scaled(48);
  policy.wakeup_preemption = false;
  Queue q(policy);
  q.Waiting(100 * kMs);
  q.Run(0);
  CHECK_FALSE(q.rq.ShouldPreempt(q.Waiting(0)));
}

TEST_CASE("RunQueue: the wakee that preempts runs although another is slightly more behind",
          "[sched][run_queue]") {
  Queue q;
  q.Waiting(100 * kMs);
  q.Run(0);
  q.Waiting(90 * kMs);
  SchedEntity& wakee = q.Waiting(93 * kMs);
  REQUIRE(q.rq.ShouldPreempt(wakee));
  CHECK(q.Run(1) == &wakee);  // 3 ms ahead of the leftmost: within the granularity of 4
}

TEST_CASE("RunQueue: a preempted task comes back first while that is fair", "[sched][run_queue]") {
  Queue q;
  SchedEntity& first = q.Waiting(100 * kMs);
  q.Run(0);
  for (int i = 0; i < 8; ++i) q.Waiting(102 * kMs);
  SchedEntity& wakee = q.Waiting(90 * kMs);
  REQUIRE(q.rq.ShouldPreempt(wakee));
  REQUIRE(q.Run(1000) == &wakee);
  q.rq.PutBack(first);
  SchedEntity& leftmost = q.Waiting(98 * kMs);
  q.rq.Leave();
  SECTION("two ms ahead of the leftmost") { CHECK(q.Run(2000) == &first); }
  SECTION("more than a granularity ahead of the leftmost") {
    q.Waiting(95 * kMs);
    CHECK(q.Run(2000) != &first);
  }
  CHECK(leftmost.vruntime == 98 * kMs);
}

TEST_CASE("RunQueue: the tick preempts after the slice, or when the task is far ahead",
          "[sched][run_queue]") {
  Queue q;
  SchedEntity& a = q.Waiting(0);
  SECTION("alone: never") {
    q.Run(0);
    q.rq.UpdateCurr(500 * kMs);
    CHECK_FALSE(q.rq.TickPreempts());
  }
  SECTION("after more than 12 ms of two equal tasks") {
    q.Waiting(1);
    REQUIRE(q.Run(0) == &a);
    q.rq.UpdateCurr(12 * kMs);
    CHECK_FALSE(q.rq.TickPreempts());
    q.rq.UpdateCurr(12 * kMs + 1);
    CHECK(q.rq.TickPreempts());
  }
  SECTION("after min granularity if it is a slice ahead of the leftmost") {
    q.Waiting(1);
    REQUIRE(q.Run(0) == &a);
    a.vruntime = 11 * kMs;
    q.rq.UpdateCurr(3 * kMs - 1);  // 14 ms ahead, but not yet min granularity
    CHECK_FALSE(q.rq.TickPreempts());
    q.rq.UpdateCurr(3 * kMs);
    CHECK(q.rq.TickPreempts());
  }
}

TEST_CASE("RunQueue: a sleeper with credit keeps the CPU over its slice, a yielding one does not",
          "[sched][run_queue]") {
  Queue q;
  SchedEntity& behind = q.Waiting(10 * kMs);
  SchedEntity& other = q.Waiting(100 * kMs);
  REQUIRE(q.Run(0) == &behind);
  q.rq.UpdateCurr(13 * kMs);
  REQUIRE(q.rq.TickPreempts());
  CHECK(q.Run(13 * kMs) == &behind);  // still far behind
  CHECK(q.Run(13 * kMs) == &other);   // nobody asked: it yields
  q.rq.PutBack(behind);
  CHECK(q.Run(13 * kMs) == &behind);
  q.rq.PutBack(other);
  q.rq.CheckInvariants();
}

// Mutation tried: TakeMovable without subtracting the minimum (the task is 500 ms ahead there).
TEST_CASE("RunQueue: a task that moves keeps its distance to the others", "[sched][run_queue]") {
  Queue from;
  Queue to(from.policy, 1);
  from.Waiting(500 * kMs);
  from.Run(0);
  SchedEntity& moved = from.Waiting(507 * kMs);
  SchedEntity& there = to.Make();
  there.cpu = CpuId{1};
  there.vruntime = 100 * kMs;
  to.rq.Admit(there, Arrival::kMove, 0);
  to.Run(0);
  REQUIRE(from.rq.TakeMovable(CpuId{1}, kMs) == &moved);
  to.rq.Admit(moved, Arrival::kMove, 0);
  CHECK(moved.vruntime == 107 * kMs);
  CHECK(moved.migrations == 1);
  SECTION("and a sleeper that wakes elsewhere too") {
    SchedEntity& sleeper = from.Make();
    sleeper.cpu = CpuId{0};
    sleeper.vruntime = 503 * kMs;
    to.rq.Admit(sleeper, Arrival::kWake, from.rq.min_vruntime());
    CHECK(sleeper.vruntime == 103 * kMs);
  }
  from.rq.CheckInvariants();
  to.rq.CheckInvariants();
}

TEST_CASE("RunQueue: what is pulled may run there, and is cache-cold if there is a choice",
          "[sched][run_queue]") {
  Queue q;
  q.Waiting(0);
  q.Run(0);
  SchedEntity& pinned = q.Waiting(1);
  pinned.task->allowed.reset(1);
  SchedEntity& hot = q.Waiting(2);
  hot.exec_start = 10 * kMs - 499'999;
  SchedEntity& cold = q.Waiting(3);
  cold.exec_start = 10 * kMs - 500'000;
  CHECK(q.rq.TakeMovable(CpuId{1}, 10 * kMs) == &cold);
  CHECK(q.rq.TakeMovable(CpuId{1}, 10 * kMs) == &hot);
  CHECK(q.rq.TakeMovable(CpuId{1}, 10 * kMs) == nullptr);
  CHECK(q.rq.nr_running() == 2);
  CHECK(q.rq.load() == 2048);
}

TEST_CASE("RunQueue: fifo order is the order of arrival", "[sched][run_queue]") {
  SchedPolicy policy = SchedPolicy::Linux2626().Scaled(8);
  policy.order = QueueOrder::kFifo;
  Queue q(policy);
  SchedEntity& a = q.Waiting(30);
  SchedEntity& b = q.Waiting(20);
  CHECK(q.Run(0) == &a);
  CHECK_FALSE(q.rq.ShouldPreempt(q.Waiting(-400 * kMs)));
  CHECK(q.Run(1) == &b);
  q.rq.PutBack(a);
  q.rq.CheckInvariants();
}

TEST_CASE("RunQueue: exact slices end between ticks, others at one", "[sched][run_queue]") {
  SchedPolicy policy = SchedPolicy::Linux39().Scaled(48);
  Queue ticks(policy);
  ticks.Waiting(0);
  ticks.Waiting(0);
  ticks.Run(kMs);
  CHECK(ticks.rq.NextLook(kMs) == 4 * kMs);
  CHECK(ticks.rq.NextLook(4 * kMs) == 8 * kMs);
  policy.hrtick = true;
  Queue exact(policy);
  exact.Waiting(0);
  exact.Waiting(0);
  exact.Run(kMs);
  exact.rq.UpdateCurr(12 * kMs);
  CHECK(exact.rq.NextLook(12 * kMs) == 13 * kMs);
}

TEST_CASE("RunQueue: an idle CPU's load averages decay for the ticks it did not take",
          "[sched][run_queue]") {
  Queue q;
  q.Waiting(0);
  q.Run(0);
  for (int i = 1; i <= 100; ++i) q.rq.AccountTicks(i * 4 * kMs);
  REQUIRE(q.rq.cpu_load().average(4) == 1024);
  q.rq.Leave();
  REQUIRE(q.rq.Pick(400 * kMs) == nullptr);
  q.Waiting(0);
  q.Run(400 * kMs + 8 * kMs);  // two ticks later
  CHECK(q.rq.cpu_load().average(0) == 0);
  CHECK(q.rq.cpu_load().average(1) == 256);
}

// --- model ---

// A run queue as dumb as possible: a set of (vruntime, id), linear sums.
struct Model {
  std::set<std::pair<std::int64_t, int>> waiting;
  int running = 0;  // id; 0: nobody
  std::int64_t min_vruntime = 0;

  void MoveMin(const std::vector<SchedEntity*>& of) {
    std::int64_t least = INT64_MAX;
    if (running != 0) least = of[static_cast<std::size_t>(running)]->vruntime;
    if (!waiting.empty()) least = std::min(least, waiting.begin()->first);
    if (least != INT64_MAX) min_vruntime = std::max(min_vruntime, least);
  }
};

TEST_CASE("RunQueue: agrees with a set under random operations", "[sched][run_queue][model]") {
  const auto seed = GENERATE(take(8, random(0U, 0xffff'ffffU)));
  CAPTURE(seed);
  Rng rng = Seeds(seed).Stream("run queue model");
  SchedPolicy policy = SchedPolicy::Linux39().Scaled(4);
  policy.wakeup_preemption = false;  // no buddies: the model has none
  policy.last_buddy = false;
  Queue q(policy);
  Model model;
  std::vector<SchedEntity*> of(41, nullptr);
  std::vector<int> asleep;
  for (int id = 1; id <= 40; ++id) {
    of[static_cast<std::size_t>(id)] = &q.Make(static_cast<int>(rng.Between(-5, 5)));
    of[static_cast<std::size_t>(id)]->cpu = CpuId{0};
    asleep.push_back(id);
  }
  std::int64_t now = 0;
  for (int step = 0; step < 4000; ++step) {
    now += rng.Between(1, 900'000);
    q.rq.UpdateCurr(now);
    model.MoveMin(of);
    switch (rng.Below(3)) {
      case 0: {  // wake one
        if (asleep.empty()) break;
        const std::size_t at = rng.Below(asleep.size());
        const int id = asleep[at];
        asleep.erase(asleep.begin() + static_cast<std::ptrdiff_t>(at));
        SchedEntity& entity = *of[static_cast<std::size_t>(id)];
        const std::int64_t expected =
            std::max(entity.vruntime, model.min_vruntime - policy.latency_ns / 2);
        q.rq.Admit(entity, Arrival::kWake, 0);
        REQUIRE(entity.vruntime == expected);
        model.waiting.insert({entity.vruntime, id});
        break;
      }
      case 1: {  // the running one sleeps
        if (model.running == 0) break;
        q.rq.Leave();
        asleep.push_back(model.running);
        model.running = 0;
        break;
      }
      default: {  // pick, with the running one taking part after a tick
        SchedEntity* prev = q.rq.curr();
        const bool asked = prev != nullptr && q.rq.TickPreempts();
        if (prev != nullptr && asked) {
          model.waiting.insert({prev->vruntime, prev->task->id.n});
        }
        SchedEntity* next = q.Run(now);
        if (prev != nullptr && !asked) {  // yields: the others first
          if (model.waiting.empty()) {
            REQUIRE(next == prev);
            break;
          }
        }
        if (model.waiting.empty()) {
          REQUIRE(next == nullptr);
          break;
        }
        const auto first = *model.waiting.begin();
        model.waiting.erase(model.waiting.begin());
        if (prev != nullptr && !asked) model.waiting.insert({prev->vruntime, prev->task->id.n});
        model.running = first.second;
        REQUIRE(next != nullptr);
        REQUIRE(next->task->id.n == first.second);
        if (prev != nullptr && prev != next) q.rq.PutBack(*prev);
        break;
      }
    }
    model.MoveMin(of);
    q.rq.UpdateCurr(now);
    q.rq.CheckInvariants();
    REQUIRE(q.rq.nr_running() ==
            static_cast<std::int64_t>(model.waiting.size()) + (model.running != 0 ? 1 : 0));
    REQUIRE(q.rq.min_vruntime() == model.min_vruntime);
  }
}

}  // namespace
}  // namespace pagestorm::sched
