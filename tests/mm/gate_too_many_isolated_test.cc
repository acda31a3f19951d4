#include "mm/gate_too_many_isolated.h"

#include <catch2/catch.hpp>

#include "mm/proc_files.h"
#include "mm/throttle.h"
#include "mm/writeback.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

ReclaimMachineOptions Gated(std::map<std::string, std::int64_t, std::less<>> knobs = {}) {
  ReclaimMachineOptions options;
  options.policy.throttle.gate = "too_many_isolated";
  options.policy.throttle.gate_knobs = std::move(knobs);
  return options;
}

// A machine whose reclaimers hold the 32 pages they have isolated for as long as the test wants.
class HoldingMachine : public ReclaimMachine {
 public:
  explicit HoldingMachine(const ReclaimMachineOptions& options) : ReclaimMachine(options) {
    owners->unmap = UnmapResult::kAgain;  // every page is kept
    owners->look = [this] {
      while (hold) SleepFor({1'000'000});
    };
  }
  // Starts one, and gives it time to isolate or to be stopped.
  struct Reclaimer {
    Task* task = nullptr;
    std::int64_t result = -1;  // -1: still in there
    std::int64_t took_ns = 0;
  };
  Reclaimer& Start(Gfp gfp = GFP_KERNEL, ReclaimCaller caller = ReclaimCaller::kDirect) {
    Reclaimer& one = reclaimers.emplace_back();
    one.task = &Spawn("reclaimer", [this, &one, gfp, caller] {
      ScanControl sc{.gfp = gfp, .caller = caller};
      const std::int64_t start = Now().n;
      one.result = mm->reclaimer->ShrinkInactive(32, zone(), LruList::kInactiveAnon, sc, 12);
      one.took_ns = Now().n - start;
    });
    SleepFor({100'000});
    return one;
  }
  [[nodiscard]] std::int64_t isolated() const { return Stat(ZoneStat::kNrIsolatedAnon); }

  bool hold = true;
  std::deque<Reclaimer> reclaimers;
};

// 128 inactive pages: 32 isolated beside 96, 64 beside 64 (no more, so the next passes), 96 beside
// 32: the fourth waits. Mutations tried, red: ">=" in the rule (the third waits); no rule (no
// wait); isolation not counted.
TEST_CASE("too_many_isolated: the first reclaimer that finds more isolated than inactive waits",
          "[mm][gate][spec:throttle-43]") {
  HoldingMachine machine(Gated());
  machine.Run([&] {
    machine.AddPages(128, Kind::kAnon);
    for (int i = 1; i <= 3; ++i) {
      machine.Start();
      CHECK(machine.isolated() == 32 * i);
    }
    HoldingMachine::Reclaimer& fourth = machine.Start();
    CHECK(machine.isolated() == 96);
    SleepFor(kSecond);
    CHECK(fourth.result == -1);  // naps again and again
    CHECK(machine.mm->writeback->naps().congestion >= 9);
    HoldingMachine::Reclaimer& kswapd = machine.Start(GFP_KERNEL, ReclaimCaller::kKswapd);
    CHECK(machine.isolated() == 128);  // kswapd never waits
    machine.hold = false;
    SleepFor(kSecond);
    CHECK(fourth.result == 0);
    CHECK(kswapd.result == 0);
    CHECK(machine.isolated() == 0);
  });
  CHECK(machine.mm->gate->numbers() ==
        Gate::Numbers{{"isolated_naps", machine.mm->writeback->naps().congestion}});
}

// Mutations tried, red: the signal not looked at (-1); 0 reported.
TEST_CASE("too_many_isolated: a killed waiter leaves and reports 32 pages",
          "[mm][gate][spec:throttle-43]") {
  HoldingMachine machine(Gated());
  machine.Run([&] {
    machine.AddPages(64, Kind::kAnon);
    machine.Start();
    machine.Start();
    HoldingMachine::Reclaimer& third = machine.Start();
    CHECK(machine.isolated() == 64);
    machine.engine->Kill(*third.task, /*memdie=*/true);
    SleepFor(kSecond / 5);  // a nap is not cut short
    CHECK(third.result == 32);
    CHECK(machine.isolated() == 64);
    machine.hold = false;
  });
}

// 96 pages: 32 isolated beside 64. 64 / 8 = 8. Mutations tried, red: the divisor for everyone; for
// nobody.
TEST_CASE("too_many_isolated: with a divisor only requests with IO and FS stop early",
          "[mm][gate]") {
  HoldingMachine machine(Gated({{"too_many_isolated.divisor", 8}}));
  machine.Run([&] {
    machine.AddPages(96, Kind::kAnon);
    machine.Start();
    HoldingMachine::Reclaimer& whole = machine.Start(GFP_KERNEL);
    CHECK(machine.isolated() == 32);
    machine.Start(GFP_NOFS);
    CHECK(machine.isolated() == 64);
    CHECK(whole.result == -1);
    machine.hold = false;
  });
}

// Mutation tried, red: `once` ignored.
TEST_CASE("too_many_isolated: with `once` a reclaimer naps once and reports nothing",
          "[mm][gate]") {
  HoldingMachine machine(Gated({{"too_many_isolated.once", 1}}));
  machine.Run([&] {
    machine.AddPages(64, Kind::kAnon);
    machine.Start();
    machine.Start();
    HoldingMachine::Reclaimer& third = machine.Start();
    SleepFor(kSecond / 5);
    CHECK(third.result == 0);
    CHECK(third.took_ns >= kSecond.n / 10);
    CHECK(third.took_ns < kSecond.n / 8);
    CHECK(machine.isolated() == 64);
    machine.hold = false;
  });
  CHECK(machine.mm->gate->numbers().back() ==
        std::pair<std::string, std::int64_t>{"isolated_given_up", 1});
}

// Two zones of one node. Mutation tried, red: `of_node` ignored.
TEST_CASE("too_many_isolated: counts a zone, or all zones of the node", "[mm][gate]") {
  ReclaimMachineOptions options;
  options.arch = numa::Arch::kX86_64;
  options.mib_per_node = 128;
  ReclaimMachine machine(options);
  REQUIRE(machine.mm->zones.size() == 2);
  machine.Run([&] {
    VmStat& stat = *machine.mm->vmstat;
    stat.AddGlobal(0, ZoneStat::kNrInactive, 100);
    stat.AddGlobal(1, ZoneStat::kNrIsolatedAnon, 60);
    stat.AddGlobal(1, ZoneStat::kNrInactive, 50);
    const auto too_many = [&](std::size_t zone, bool of_node) {
      return TooManyIsolated(*machine.mm, machine.zone(zone), LruList::kInactiveAnon, GFP_KERNEL,
                             {.of_node = of_node});
    };
    CHECK(too_many(1, false));
    CHECK_FALSE(too_many(0, false));
    CHECK_FALSE(too_many(1, true));  // 60 of 150
    stat.AddGlobal(0, ZoneStat::kNrIsolatedFile, 91);
    CHECK(too_many(0, true));  // without split LRU both kinds count: 151
    stat.AddGlobal(0, ZoneStat::kNrIsolatedFile, -91);
    stat.AddGlobal(0, ZoneStat::kNrInactive, -100);
    stat.AddGlobal(1, ZoneStat::kNrIsolatedAnon, -60);
    stat.AddGlobal(1, ZoneStat::kNrInactive, -50);
  });
}

// Mutation tried, red: a gate's counters shown everywhere.
TEST_CASE("Gate: /proc shows a counter where the gate is that it came with", "[mm][gate]") {
  const auto shown = [](const std::string& gate, const std::string& counter) {
    ReclaimMachineOptions options;
    options.policy.throttle.gate = gate;
    ReclaimMachine machine(options);
    std::string vmstat;
    std::string zoneinfo;
    machine.Run([&] {
      vmstat = ProcVmstat(*machine.mm);
      zoneinfo = ProcZoneinfo(*machine.mm);
    });
    if (counter.rfind("nr_", 0) == 0) {
      CHECK((vmstat.find(counter) == std::string::npos) ==
            (zoneinfo.find(counter) == std::string::npos));
    }
    return vmstat.find(counter + " ") != std::string::npos;
  };
  CHECK_FALSE(shown("none", "nr_isolated_anon"));
  CHECK_FALSE(shown("throttle", "pgscan_direct_throttle"));
  CHECK(shown("too_many_isolated", "nr_isolated_anon"));
  CHECK_FALSE(shown("too_many_isolated", "pgscan_direct_throttle"));
  CHECK(shown("pfmemalloc", "pgscan_direct_throttle"));
  CHECK(shown("pfmemalloc+too_many_isolated", "nr_isolated_file"));
  CHECK_FALSE(shown("too_many_isolated", "nr_throttled_written"));
  CHECK(shown("reclaim_throttle", "nr_throttled_written"));
}

}  // namespace
}  // namespace pagestorm::mm
