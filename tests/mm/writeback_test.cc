#include "mm/writeback.h"

#include <catch2/catch.hpp>

#include "mm/lru.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

// Mutations tried: no floor of 5; background not halved.
TEST_CASE("DirtyLimitsFor: ratios of dirtyable memory", "[mm]") {
  CHECK(DirtyLimitsFor(10'000, {}).background == 500);
  CHECK(DirtyLimitsFor(10'000, {}).dirty == 1000);
  CHECK(DirtyLimitsFor(10'000, {.dirty_background_ratio = 1, .dirty_ratio = 2}).dirty == 500);
  CHECK(DirtyLimitsFor(10'000, {.dirty_background_ratio = 20, .dirty_ratio = 20}).background ==
        1000);
  CHECK(DirtyLimitsFor(1, {}).dirty == 0);
}

TEST_CASE("Writeback: isolated pages are missing from dirtyable memory", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const std::int64_t before = machine.mm->writeback->Limits().dirty;
    machine.AddPages(2000, Kind::kAnon);
    machine.Fold();
    // Pages moved from free to the LRU count as before, but for what waits on per-CPU lists.
    CHECK(std::abs(machine.mm->writeback->Limits().dirty - before) <= 5);
    IsolatedBatch batch(*machine.mm, machine.zone());
    machine.zone().lru->Isolate(2000, LruList::kInactiveAnon, 0, IsolateMode::kInactive,
                                batch.entries);
    CHECK(before - machine.mm->writeback->Limits().dirty >= 195);
  });
}

// Mutations tried: NoteReleased that wakes the other direction; WakeOne with exclusive sleepers.
TEST_CASE("Writeback: a nap ends with the next release of its direction, or after its time",
          "[mm]") {
  ReclaimMachine machine;
  std::vector<std::int64_t> woke(3, 0);
  machine.Run([&] {
    for (std::size_t i = 0; i < 3; ++i) {
      machine.Spawn("napper", [&, i] {
        const auto direction = i == 2 ? IoDirection::kRead : IoDirection::kWrite;
        machine.mm->writeback->CongestionWait(direction, {100'000'000});
        woke[i] = Now().n;
      });
    }
    SleepFor({30'000'000});
    machine.mm->writeback->NoteReleased(IoDirection::kWrite);
  });
  CHECK(woke[0] < 40'000'000);
  CHECK(woke[1] < 40'000'000);
  CHECK(woke[2] >= 100'000'000);
  CHECK(machine.mm->writeback->naps().congestion == 3);
}

// Mutations tried: dirty without the tenth; the loop left after one nap with IO and FS.
TEST_CASE("Writeback: reclaimers nap while more than 110 % of the dirty limit is written", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    VmStat& stat = *machine.mm->vmstat;
    Writeback& writeback = *machine.mm->writeback;
    const std::int64_t dirty = writeback.Limits().dirty;
    const std::int64_t enough = dirty + dirty / 10;
    stat.Add(0, ZoneStat::kNrWriteback, enough);
    machine.Fold();
    writeback.ThrottleVmWriteout(GFP_KERNEL);
    CHECK(writeback.naps().writeout == 0);
    stat.Add(0, ZoneStat::kNrUnstable, 1);
    machine.Fold();
    writeback.ThrottleVmWriteout(GFP_NOFS);
    CHECK(writeback.naps().writeout == 1);
    writeback.ThrottleVmWriteout(GFP_NOIO);
    CHECK(writeback.naps().writeout == 2);
    machine.Spawn("io", [&] {
      SleepFor({450'000'000});
      stat.Add(0, ZoneStat::kNrWriteback, -enough);
      machine.Fold();
    });
    const std::int64_t start = Now().n;
    writeback.ThrottleVmWriteout(GFP_KERNEL);
    CHECK(writeback.naps().writeout == 7);
    CHECK(Now().n - start >= 500'000'000);
  });
}

}  // namespace
}  // namespace pagestorm::mm
