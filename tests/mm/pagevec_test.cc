#include "mm/pagevec.h"

#include <catch2/catch.hpp>

#include "mm/lru.h"
#include "mm/page_alloc.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

// Mutations tried: a batch of 13; the state left at kInUse (CheckInvariants); no reference taken.
TEST_CASE("Pagevecs: the fourteenth page flushes all of them onto the list", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto before = machine.zone().lru_lock.stats().acquisitions;
    std::vector<FrameNo> pages;
    for (int i = 0; i < 13; ++i) pages.push_back(machine.AddPage(Kind::kAnon, /*active=*/true));
    CHECK(machine.mm->frames[pages[0]].state() == FrameState::kPagevec);
    CHECK(machine.mm->frames[pages[0]].refcount.load() == 2);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 0);
    CHECK(machine.mm->pagevecs->WaitingRacy() == 13);
    pages.push_back(machine.AddPage(Kind::kAnon, /*active=*/true));
    CHECK(machine.Stat(ZoneStat::kNrActive) == 14);
    CHECK(machine.mm->pagevecs->WaitingRacy() == 0);
    CHECK(machine.mm->frames[pages[0]].refcount.load() == 1);
    CHECK(machine.zone().lru_lock.stats().acquisitions - before == 1);
  });
}

TEST_CASE("Pagevecs: active and inactive pages wait apart, and a drain empties both", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    for (int i = 0; i < 5; ++i) machine.AddPage(Kind::kAnon, /*active=*/true);
    for (int i = 0; i < 7; ++i) machine.AddPage(Kind::kAnon, /*active=*/false);
    CHECK(machine.mm->pagevecs->WaitingRacy() == 12);
    machine.mm->pagevecs->DrainLocal();
    CHECK(machine.Stat(ZoneStat::kNrActive) == 5);
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 7);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutation tried: Flush that does not release (the page is never freed).
TEST_CASE("Pagevecs: a page whose owner exits while it waits is freed after the flush", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const FrameNo n = machine.AddPage(Kind::kAnon);
    machine.DropPage(n);
    CHECK(machine.mm->frames[n].state() == FrameState::kPagevec);
    machine.mm->pagevecs->DrainLocal();
    CHECK(machine.mm->frames[n].state() == FrameState::kPcp);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutation tried: ReleaseSome that frees without Lru::Del.
TEST_CASE("Pagevecs: the last reference takes a page off its list", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto pages = machine.AddPages(20, Kind::kAnon);
    for (const FrameNo n : pages) machine.DropPage(n);
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 0);
  });
  CHECK(machine.zone().lru->CheckInvariants() == "");
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutation tried: rotation of active pages, and of locked ones.
TEST_CASE("Pagevecs: a written page moves to the inactive tail unless it is in use again", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto pages = machine.AddPages(30, Kind::kAnon);
    const auto oldest = [&] {
      IsolatedBatch batch(*machine.mm, machine.zone());
      machine.zone().lru->Isolate(1, LruList::kInactiveAnon, 0, IsolateMode::kInactive,
                                  batch.entries);
      return batch.entries[0].frame;  // and back to the head with it
    };
    machine.mm->pagevecs->RotateReclaimable(pages[20]);
    machine.mm->pagevecs->DrainLocal();
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgrotated) == 1);
    CHECK(oldest() == pages[20]);
    for (const std::uint32_t flag : {kPageLocked, kPageDirty, kPageActive}) {
      machine.mm->frames[pages[25]].Set(flag);
      machine.mm->pagevecs->RotateReclaimable(pages[25]);
      CHECK(machine.mm->pagevecs->WaitingRacy() == 0);
      machine.mm->frames[pages[25]].Clear(flag);
    }
    IsolatedBatch batch(*machine.mm, machine.zone());
    machine.zone().lru->Isolate(1, LruList::kInactiveAnon, 0, IsolateMode::kInactive,
                                batch.entries);
    machine.mm->pagevecs->RotateReclaimable(batch.entries[0].frame);  // on no list: misses its turn
    CHECK(machine.mm->pagevecs->WaitingRacy() == 0);
  });
}

TEST_CASE("Pagevecs: the second access activates an inactive page on a list", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto pages = machine.AddPages(2, Kind::kCleanFile);
    machine.mm->pagevecs->MarkAccessed(pages[0]);
    CHECK(machine.mm->frames[pages[0]].Test(kPageReferenced));
    CHECK(machine.Stat(ZoneStat::kNrActive) == 0);
    machine.mm->pagevecs->MarkAccessed(pages[0]);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 1);
    CHECK_FALSE(machine.mm->frames[pages[0]].Test(kPageReferenced));
    CHECK(machine.mm->vmstat->Event(VmEvent::kPgactivate) == 1);
  });
}

}  // namespace
}  // namespace pagestorm::mm
