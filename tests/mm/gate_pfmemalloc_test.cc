// The gate "pfmemalloc". Source: spec throttle-2.6.26 5.3.
#include <catch2/catch.hpp>

#include "mm/kswapd.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/throttle.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

// Worked example (b): two nodes of 8 GiB. Free pages are what the test says: only the counters are
// changed, nothing is allocated.
class TwoBigNodes : public ReclaimMachine {
 public:
  TwoBigNodes() : ReclaimMachine(Options()) {}

  // So many free pages on node 0, of one zone after the other.
  void SetFree(std::int64_t pages) {
    std::int64_t left = pages;
    for (Zone* zone : mm->nodes[0]->zones) {
      const std::int64_t here = std::min<std::int64_t>(left, 900);
      left -= here;
      mm->vmstat->AddGlobal(zone->ordinal, ZoneStat::kNrFreePages,
                            here - Stat(ZoneStat::kNrFreePages, zone->ordinal));
    }
    REQUIRE(left == 0);
  }
  // A direct reclaim as far as the gate. Of a user's task unless `part` is null.
  struct Caller {
    Task* task = nullptr;
    bool passed = false;
    ShrinkResult result = ShrinkResult::kOk;
    std::int64_t took_ns = 0;
  };
  Caller& Start(Gfp gfp, bool user) {
    Caller& one = callers.emplace_back();
    TaskMm* part = user ? &parts.emplace_back() : nullptr;
    one.task = &engine->Spawn({.name = "reclaimer", .mm = part}, [this, &one, gfp] {
      const auto zones = mm->allocator->ZonelistFor(gfp, 0);
      ScanControl sc{.gfp = gfp};
      Gate::Ticket ticket;
      const std::int64_t start = Now().n;
      one.result = mm->gate->EnterDirect(zones, sc, ticket);
      one.took_ns = Now().n - start;
      one.passed = true;
      mm->gate->LeaveDirect(sc, ticket);
    });
    SleepFor({100'000});
    return one;
  }

  std::deque<Caller> callers;
  std::deque<TaskMm> parts;

 private:
  static ReclaimMachineOptions Options() {
    ReclaimMachineOptions options;
    options.arch = numa::Arch::kX86_64;
    options.nodes = 2;
    options.mib_per_node = 8192;
    options.policy.throttle.gate = "pfmemalloc";
    options.policy.throttle.gate_knobs = {{"pfmemalloc.skip_unreclaimable", 0}};
    return options;
  }
};

// W = 3 + 1012 + 1016 = 2031 on node 0, and W / 2 = 1015. Mutations tried, red: ">=" in the rule
// (1015 passes); W instead of W / 2; the reserves of all nodes summed; kernel threads stopped;
// AfterKswapdPass does nothing.
TEST_CASE("pfmemalloc: direct reclaimers wait while a node's reserves are half used up",
          "[mm][gate][spec:throttle-44]") {
  TwoBigNodes machine;
  machine.Run([&] {
    std::int64_t wanted = 0;
    for (const Zone* zone : machine.mm->nodes[0]->zones) wanted += zone->watermark.min;
    REQUIRE(wanted == 2031);
    PgData& node = *machine.mm->nodes[0];
    machine.SetFree(1016);
    CHECK(machine.Start(GFP_KERNEL, true).passed);
    machine.SetFree(1015);
    TwoBigNodes::Caller& waiting = machine.Start(GFP_KERNEL, true);
    CHECK_FALSE(waiting.passed);
    CHECK(machine.Start(GFP_KERNEL, false).passed);  // a kernel thread
    machine.SetFree(0);
    CHECK(machine.Start(GFP_KERNEL, false).passed);
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgscanDirectThrottle) == 1);
    CHECK(machine.mm->gate->Describe() ==
          "pfmemalloc 0: 1 tasks wait for kswapd; 0 pages free, more than 1015 wanted\n");
    SleepFor(kSecond * 3);
    machine.mm->gate->AfterKswapdPass(node);  // not enough yet
    SleepFor({100'000});
    CHECK_FALSE(waiting.passed);
    machine.SetFree(1016);
    SleepFor({100'000});
    CHECK_FALSE(waiting.passed);  // nobody has said so
    machine.mm->gate->AfterKswapdPass(node);
    SleepFor({100'000});
    CHECK(waiting.passed);
    CHECK(waiting.result == ShrinkResult::kOk);
  });
}

// Mutations tried, red: no bound without FS; the bound for everyone; BeforeKswapdSleeps does
// nothing.
TEST_CASE("pfmemalloc: without FS a reclaimer waits a second at most", "[mm][gate]") {
  TwoBigNodes machine;
  machine.Run([&] {
    machine.SetFree(10);
    TwoBigNodes::Caller& nofs = machine.Start(GFP_NOFS, true);
    TwoBigNodes::Caller& whole = machine.Start(GFP_KERNEL, true);
    // A kswapd that goes to sleep wakes them, and they look and wait on.
    SleepFor(kSecond / 2);
    machine.mm->gate->BeforeKswapdSleeps(*machine.mm->nodes[0]);
    SleepFor(kSecond / 4);
    CHECK_FALSE(nofs.passed);
    SleepFor(kSecond);
    CHECK(nofs.passed);
    CHECK(nofs.took_ns >= kSecond.n);
    CHECK(nofs.took_ns < kSecond.n + kSecond.n / 100);
    CHECK_FALSE(whole.passed);
    machine.SetFree(2000);
    machine.mm->gate->BeforeKswapdSleeps(*machine.mm->nodes[0]);
    SleepFor({100'000});
    CHECK(whole.passed);  // no pass of kswapd has told it
  });
}

// Mutations tried, red: the wait not killable (the waiter stays); kOk for the killed.
TEST_CASE("pfmemalloc: a fatal signal ends the wait, and its reclaim reports one page",
          "[mm][gate]") {
  TwoBigNodes machine;
  machine.Run([&] {
    machine.SetFree(10);
    TwoBigNodes::Caller& waiting = machine.Start(GFP_KERNEL, true);
    machine.engine->Kill(*waiting.task, /*memdie=*/true);
    SleepFor({100'000});
    CHECK(waiting.passed);
    CHECK(waiting.result == ShrinkResult::kAgain);
    TaskMm part;
    TwoBigNodes::Caller after;  // killed before it comes: reclaims at once
    after.task = &machine.engine->Spawn({.name = "dying", .mm = &part}, [&] {
      machine.engine->Kill(Current(), /*memdie=*/false);
      const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
      ScanControl sc;
      Gate::Ticket ticket;
      after.result = machine.mm->gate->EnterDirect(zones, sc, ticket);
      after.passed = true;
    });
    SleepFor({100'000});
    CHECK(after.passed);
    CHECK(after.result == ShrinkResult::kOk);
  });
}

// Mutations tried, red: the look that fails does not wake kswapd; neither AfterKswapdPass nor
// BeforeKswapdSleeps wakes anybody (one of them is enough here).
TEST_CASE("pfmemalloc: whoever waits keeps kswapd awake until the reserves are in order",
          "[mm][gate]") {
  ReclaimMachineOptions options;
  options.mib_per_node = 64;
  options.policy.throttle.gate = "pfmemalloc";
  ReclaimMachine machine(options);
  machine.mm->nodes[0]->kswapd->Start();
  bool passed = false;
  TaskMm part;
  machine.Run([&] {
    machine.AddPages(8000, ReclaimMachine::Kind::kCleanFile, false, false);
    // The rest is taken, past all marks.
    std::vector<FrameNo> pages;
    while (machine.Stat(ZoneStat::kNrFreePages) > machine.zone().watermark.min / 4) {
      const auto n =
          machine.mm->allocator->WalkFreeLists(GFP_KERNEL, 0, 0, Mark::kMin, kAllocNoWatermarks);
      REQUIRE(n);
      pages.push_back(*n);
      machine.Fold();
    }
    CHECK(machine.mm->nodes[0]->kswapd->sleeping());  // nobody has called it so far
    machine.engine->Spawn({.name = "reclaimer", .mm = &part}, [&] {
      const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
      CHECK(machine.mm->reclaimer->TryToFreePages(zones, 0, GFP_KERNEL) > 0);
      passed = true;
    });
    SleepFor(kSecond);
    CHECK(passed);
    CHECK(machine.mm->vmstat->Event(VmEvent::kKswapdSteal) > 0);
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgscanDirectThrottle) == 1);
    for (const FrameNo n : pages) machine.mm->allocator->Free(n, 0, true);
  });
}

}  // namespace
}  // namespace pagestorm::mm
