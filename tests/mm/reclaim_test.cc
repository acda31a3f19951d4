#include "mm/reclaim.h"

#include <catch2/catch.hpp>

#include "mm/lru.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/slab.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

std::span<Zone* const> Zonelist(ReclaimMachine& machine) {
  return machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
}

// Mutations tried: without the + 1; quota not reset when taken; ">" instead of ">=" 32.
TEST_CASE("Reclaimer: a zone of 1000 inactive pages is first scanned at priority 6",
          "[mm][spec:throttle-12]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto pages = machine.AddPages(1000, Kind::kAnon);
    for (const FrameNo n : pages) machine.owners->always_referenced.insert(n);
    Zone& zone = machine.zone();
    const std::int64_t gathered[] = {1, 2, 3, 5, 9, 17};
    ScanControl sc;
    for (int priority = 12; priority > 6; --priority) {
      machine.mm->reclaimer->ShrinkZone(priority, zone, sc);
      CHECK(zone.nr_scan_inactive.load() == gathered[12 - priority]);
      CHECK(zone.pages_scanned.load() == 0);
    }
    machine.mm->reclaimer->ShrinkZone(6, zone, sc);  // 33: one batch of 32 and one for the last
    CHECK(zone.nr_scan_inactive.load() == 0);
    CHECK(zone.pages_scanned.load() == 64);
    CHECK(sc.nr_scanned == 128);  // mapped pages count twice
  });
}

// Mutation tried: an accumulator that does not grow on empty lists.
TEST_CASE("Reclaimer: an empty zone is first scanned in the third failed call",
          "[mm][spec:throttle-13]") {
  ReclaimMachine machine;
  machine.Run([&] {
    Zone& zone = machine.zone();
    const std::int64_t expected[] = {13, 26, 7};
    for (const std::int64_t gathered : expected) {
      CHECK(machine.mm->reclaimer->TryToFreePages(Zonelist(machine), 0, GFP_KERNEL) == 0);
      CHECK(zone.nr_scan_inactive.load() == gathered);
      CHECK(zone.nr_scan_active.load() == gathered);
    }
    CHECK(machine.mm->reclaimer->PeaksNow().failed_calls == 3);
  });
}

// Mutation tried: the nap without the nr_scanned test.
TEST_CASE("Reclaimer: direct reclaim of empty lists fails without sleeping",
          "[mm][spec:throttle-14]") {
  ReclaimMachineOptions options;
  SECTION("as posted") {
    ReclaimMachine machine(options);
    machine.Run([&] {
      const std::int64_t start = Now().n;
      for (int i = 0; i < 5; ++i) {
        CHECK(machine.mm->reclaimer->TryToFreePages(Zonelist(machine), 0, GFP_KERNEL) == 0);
      }
      CHECK(Now().n - start < 1'000'000);
    });
    CHECK(machine.mm->writeback->naps().congestion == 0);
  }
  SECTION("with the ablation it naps at priorities 9 to 0") {
    options.policy.reclaim.nap_when_nothing_scanned = true;
    ReclaimMachine machine(options);
    machine.Run([&] {
      CHECK(machine.mm->reclaimer->TryToFreePages(Zonelist(machine), 0, GFP_KERNEL) == 0);
    });
    CHECK(machine.mm->writeback->naps().congestion == 10);
  }
}

// Mutations tried: naps from priority 10 on; no nap at priority 0.
TEST_CASE("Reclaimer: direct reclaim that scans in vain naps ten times", "[mm][spec:throttle-14]") {
  ReclaimMachine machine({.mib_per_node = 256});
  machine.owners->unmap = UnmapResult::kAgain;
  machine.Run([&] {
    machine.AddPages(40'000, Kind::kAnon);
    const std::int64_t start = Now().n;
    CHECK(machine.mm->reclaimer->TryToFreePages(Zonelist(machine), 0, GFP_KERNEL) == 0);
    CHECK(Now().n - start >= kSecond.n);
  });
  CHECK(machine.mm->writeback->naps().congestion == 10);
  CHECK(machine.zone().prev_priority.load() == 0);
}

// Mutation tried: pageout that frees what it has written (freed on the first visit).
TEST_CASE("Reclaimer: an anonymous page is written on its first visit and freed on its second",
          "[mm][spec:throttle-18]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto pages = machine.AddPages(32, Kind::kAnon);
    ScanControl sc;
    Reclaimer& reclaimer = *machine.mm->reclaimer;
    CHECK(reclaimer.ShrinkInactive(32, machine.zone(), LruList::kInactiveAnon, sc, 12) == 0);
    CHECK(machine.owners->writes.load() == 32);
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgfree) == 0);
    SleepFor({100'000'000});
    machine.mm->pagevecs->DrainAll();
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgrotated) == 32);
    CHECK(reclaimer.ShrinkInactive(32, machine.zone(), LruList::kInactiveAnon, sc, 12) == 32);
    CHECK(machine.owners->writes.load() == 32);
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgfree) == 32);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

TEST_CASE("Reclaimer: pages reclaimed are no progress if every zone was given up in the end",
          "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    // Few enough for the per-CPU list: a spill to the buddy would clear the flag.
    machine.AddPages(10, Kind::kCleanFile, /*active=*/false, /*mapped=*/false);
    machine.zone().nr_scan_inactive.store(31);  // priority 12 scans, and finds fewer than 32
    machine.zone().flags.fetch_or(kZoneAllUnreclaimable);
    CHECK(machine.mm->reclaimer->TryToFreePages(Zonelist(machine), 0, GFP_KERNEL) == 0);
    CHECK(machine.owners->removed.load() == 10);
  });
}

TEST_CASE("Reclaimer: thirty-two pages end a direct reclaim and set prev_priority back", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    machine.AddPages(4096, Kind::kCleanFile, false, false);
    machine.zone().nr_scan_inactive.store(31);
    machine.zone().prev_priority.store(3);
    CHECK(machine.mm->reclaimer->TryToFreePages(Zonelist(machine), 0, GFP_KERNEL) >= 32);
    CHECK(machine.zone().prev_priority.load() == 12);
  });
}

// The quota of a priority is finished however many pages were found, unless the kernel bails out.
TEST_CASE("Reclaimer: no bail-out in the middle of a zone but where the kernel has one", "[mm]") {
  const std::int64_t enough = GENERATE(0, 32);
  ReclaimMachineOptions options;
  options.policy.reclaim.bail_out_pages = enough;
  ReclaimMachine machine(options);
  machine.Run([&] {
    machine.AddPages(1024, Kind::kCleanFile, false, false);
    ScanControl sc;
    machine.mm->reclaimer->ShrinkZone(1, machine.zone(), sc);
    CHECK(sc.nr_reclaimed == (enough == 0 ? 544 : 32));
  });
}

// Mutations tried: unmapped pages tested for references; reclaim_mapped ignored.
TEST_CASE("Reclaimer: which active pages are deactivated", "[mm]") {
  ReclaimMachine machine({.mib_per_node = 256});
  Reclaimer& reclaimer = *machine.mm->reclaimer;
  machine.Run([&] {
    const auto file = machine.AddPages(10, Kind::kCleanFile, true, false);
    const auto anon = machine.AddPages(20, Kind::kAnon, true);
    machine.AddPages(200, Kind::kAnon);  // so that the lists are no near-OOM case
    for (const FrameNo n : file) machine.mm->frames[n].Set(kPageReferenced);
    for (std::size_t i = 0; i < 5; ++i) machine.owners->always_referenced.insert(anon[i]);
    ScanControl sc;
    // Tendency 60: unmapped pages only, whatever their reference bit says.
    CHECK(reclaimer.ShrinkActive(30, machine.zone(), LruList::kActiveAnon, sc, 12) == 10);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 20);
    // Distress 100: mapped ones, too, but not those in use.
    CHECK(reclaimer.ShrinkActive(30, machine.zone(), LruList::kActiveAnon, sc, 0) == 15);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 5);
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgdeactivate) == 25);
  });
}

TEST_CASE("Reclaimer: a large request makes a second, waiting pass over the same batch", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    machine.AddPages(32, Kind::kDirtyFile, false, false);
    ScanControl sc{.order = 4};
    CHECK(machine.mm->reclaimer->ShrinkInactive(32, machine.zone(), LruList::kInactiveAnon, sc,
                                                12) == 32);
    CHECK(machine.mm->writeback->naps().congestion == 1);
  });
}

// A caller without __GFP_FS never kills: it tries again every HZ/50.
// Mutation tried: the FS test in front of the OOM path removed (kills are counted).
TEST_CASE("Reclaimer: GFP_NOFS without progress naps and retries and never kills",
          "[mm][spec:throttle-24]") {
  ReclaimMachine machine({.mib_per_node = 16, .time_limit = {2'000'000'000}});
  bool returned = false;
  const RunResult result = machine.Run([&] {
    while (machine.mm->allocator->Alloc(GFP_ATOMIC | __GFP_NOWARN)) {
    }
    static_cast<void>(machine.mm->allocator->Alloc(GFP_NOFS));
    returned = true;
  });
  CHECK(result.end == RunEnd::kTimeLimit);
  CHECK_FALSE(returned);
  CHECK(machine.mm->oom->kills() == 0);
  const std::int64_t naps = machine.mm->writeback->naps().congestion;
  CHECK(naps >= 90);
  CHECK(naps <= 101);
}

}  // namespace
}  // namespace pagestorm::mm
