#include "sched/cfs.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "core/wait_queue.h"
#include "tests/sched/sched_machine.h"

namespace pagestorm::sched {
namespace {

// CPU-bound tasks pinned to CPU 0 of a 48-CPU machine: the lengths of their stints on it.
std::vector<std::int64_t> Stints(int tasks, const SchedPolicy& policy, std::int64_t run_ns) {
  Machine m(CpuTopology::Flat(48), policy);
  std::vector<std::int64_t> stints;
  int owner = -1;
  std::int64_t since = 0;
  for (int i = 0; i < tasks; ++i) {
    m.engine.Spawn({.name = "hog", .allowed = On({0})}, [&, i] {
      while (Now().n < run_ns) {
        if (owner != i) {
          if (owner >= 0) stints.push_back(Now().n - since);
          owner = i;
          since = Now().n;
        }
        ChargeUser({10'000});
      }
    });
  }
  CHECK(m.engine.Run().end == RunEnd::kDone);
  stints.erase(stints.begin(), stints.begin() + tasks);  // all have started
  return stints;
}

// Mutation tried: period(n) = latency for any n (9 tasks get 2.7 ms).
TEST_CASE("CfsScheduler: two equal tasks alternate every 12 ms, nine every 3 ms",
          "[sched][cfs][spec:numa-2]") {
  SchedPolicy exact = SchedPolicy::Linux39();
  exact.hrtick = true;
  exact.tick_fairness = false;
  for (const auto& [tasks, slice] : std::map<int, std::int64_t>{{2, 12 * kMs}, {9, 3 * kMs}}) {
    const auto stints = Stints(tasks, exact, 1000 * kMs);
    REQUIRE(static_cast<std::int64_t>(stints.size()) > 900 * kMs / slice);
    for (const std::int64_t stint : stints) CHECK(std::abs(stint - slice) <= 20'000);
    const auto ticked = Stints(tasks, SchedPolicy::Linux39(), 1000 * kMs);
    REQUIRE_FALSE(ticked.empty());
    for (const std::int64_t stint : ticked) {
      CHECK(stint >= slice - 20'000 - 4 * kMs * (tasks == 9));
      CHECK(stint <= slice + 4 * kMs + 20'000);
    }
  }
}

// The share of CPU 0 that the first of two tasks gets.
double Share(int nice_a, int nice_b, const SchedPolicy& policy) {
  Machine m(CpuTopology::Flat(1), policy);
  std::vector<std::int64_t> used(2, 0);
  for (int i = 0; i < 2; ++i) {
    m.engine.Spawn({.name = "hog", .nice = i == 0 ? nice_a : nice_b}, [&, i] {
      while (Now().n < 20'000 * kMs) {
        ChargeUser({50'000});
        used[static_cast<std::size_t>(i)] += 50'000;
      }
    });
  }
  m.engine.Run();
  return static_cast<double>(used[0]) / static_cast<double>(used[0] + used[1]);
}

// Mutation tried: UpdateCurr without the weight (50 : 50 within a slice's rounding).
TEST_CASE("CfsScheduler: nice 0 and nice 5 share one CPU 75.3 to 24.7",
          "[sched][cfs][spec:numa-3]") {
  CHECK(Share(0, 5, SchedPolicy::Linux39()) == Approx(1024.0 / (1024 + 335)).margin(0.003));
  CHECK(Share(5, 0, SchedPolicy::Linux2626()) == Approx(335.0 / (1024 + 335)).margin(0.003));
  CHECK(Share(-10, -10, SchedPolicy::Linux39()) == Approx(0.5).margin(0.003));
  CHECK(Share(0, 19, SchedPolicy::Linux39()) == Approx(1024.0 / 1039).margin(0.003));
}

// How long a task that sleeps 50 ms at a time waits for the CPU that a hog holds, worst case.
std::int64_t WorstWakeup(const SchedPolicy& policy) {
  Machine m(CpuTopology::Flat(1), policy);
  std::int64_t worst = 0;
  m.engine.Spawn({.name = "hog"}, [&] {
    while (Now().n < 3000 * kMs) ChargeUser({20'000});
  });
  m.engine.Spawn({.name = "sleeper", .daemon = true}, [&] {
    for (;;) {
      const std::int64_t until = Now().n + 50 * kMs;
      SleepFor(50 * kMillisecond);
      if (Now().n > 500 * kMs) worst = std::max(worst, Now().n - until);
      ChargeUser({100'000});
    }
  });
  m.engine.Run();
  return worst;
}

TEST_CASE("CfsScheduler: a sleeper preempts a hog at once, and waits for a slice without that",
          "[sched][cfs]") {
  SchedPolicy policy = SchedPolicy::Linux39();
  CHECK(WorstWakeup(policy) < 100'000);
  policy.wakeup_preemption = false;
  const std::int64_t waits = WorstWakeup(policy);
  CHECK(waits > kMs);
  CHECK(waits < 12 * kMs);
}

TEST_CASE("CfsScheduler: tasks started on one CPU spread over all", "[sched][cfs]") {
  Machine m(CpuTopology::From(numa::Topology::Synthetic({.nodes = 2, .cores_per_node = 4})));
  for (int i = 0; i < 8; ++i) {
    m.engine.Spawn({.name = "hog", .cpu_hint = CpuId{0}}, [] {
      for (int k = 0; k < 1000; ++k) ChargeUser({100'000});
    });
  }
  for (int cpu = 0; cpu < 8; ++cpu) {  // somebody goes idle there
    m.engine.Spawn({.name = "short", .cpu_hint = CpuId{cpu}}, [] { ChargeUser({1000}); });
  }
  const RunResult result = m.engine.Run();
  CHECK(result.emulated.n < 101 * kMs);  // 100 ms of work each
  CHECK(m.scheduler.Stats().pulled >= 7);
}

TEST_CASE("CfsScheduler: yielding lets the others run, without time passing", "[sched][cfs]") {
  Machine m(CpuTopology::Flat(1));
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    m.engine.Spawn({.name = "polite"}, [&, i] {
      ChargeUser({(i + 1) * 100'000});
      Yield();
      for (int k = 0; k < 50; ++k) {
        order.push_back(i);
        Yield();
      }
    });
  }
  CHECK(m.engine.Run().end == RunEnd::kDone);
  for (std::size_t k = 1; k < 90; ++k) CHECK(order[k] != order[k - 1]);
}

TEST_CASE("CfsScheduler: a service CPU runs what names it, and nothing else", "[sched][cfs]") {
  Machine m(CpuTopology::Flat(2), SchedPolicy::Linux39(), 1, 1);
  WaitQueue requests(m.engine, "requests");
  int pending = 0;
  bool wrong = false;
  m.engine.Spawn({.name = "disk", .allowed = On({2}), .daemon = true}, [&] {
    for (;;) {
      requests.Wait([&] { return pending > 0; });
      --pending;
      wrong = wrong || CurrentCpu().id != CpuId{2};
      Charge({50'000});
    }
  });
  for (int i = 0; i < 20; ++i) {
    m.engine.Spawn({.name = "worker"}, [&] {
      for (int k = 0; k < 50; ++k) {
        ChargeUser({200'000});
        ++pending;
        requests.WakeOne();
        SleepFor({100'000});
        wrong = wrong || CurrentCpu().kind == CpuKind::kService;
      }
    });
  }
  CHECK(m.engine.Run().end == RunEnd::kDone);
  CHECK_FALSE(wrong);
  m.scheduler.CheckInvariants();
}

TEST_CASE("CfsScheduler: a child starts where its parent's virtual time stands", "[sched][cfs]") {
  Machine m(CpuTopology::Flat(1));
  bool child_ran_first = false;
  bool child_ran = false;
  m.engine.Spawn({.name = "parent"}, [&] {
    ChargeUser({30 * kMs});
    Task& child = CurrentEngine().Spawn({.name = "child"}, [&] {
      child_ran = true;
      ChargeUser({1000});
    });
    // Two tasks on one CPU: 6 ms latency, 3 ms each, so the child starts 3 ms behind.
    CHECK(EntityOf(child).vruntime - EntityOf(Current()).vruntime == 3 * kMs);
    ChargeUser({2 * kMs});
    child_ran_first = child_ran;
  });
  m.engine.Run();
  CHECK_FALSE(child_ran_first);
  CHECK(child_ran);
}

}  // namespace
}  // namespace pagestorm::sched
