#include "mm/swap.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/spin_lock.h"
#include "mm/lru.h"
#include "mm/mm_struct.h"
#include "mm/page_lock.h"
#include "mm/reclaim.h"
#include "mm/rmap.h"
#include "mm/zone.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

FrameNo FrameWithStamp(MemoryManager& mm, std::uint64_t stamp) {
  for (const auto& zone : mm.zones) {
    for (FrameNo n = zone->first; n < zone->end; ++n) {
      if (mm.frames[n].Test(kPageAnon) && mm.frames.Stamp(n) == stamp) return n;
    }
  }
  return kNoFrame;
}

// Writes a mapped page out as reclaim does, and waits until its slot has it and the frame is free.
SwapSlot SwapOut(MemoryManager& mm, FrameNo n) {
  mm.pagevecs->DrainAll();
  PageFrame& frame = mm.frames[n];
  frame.refcount.fetch_add(1);  // the isolator's
  mm.page_locks->Lock(n);
  CHECK(mm.swap->AddToSwap(n));
  const SwapSlot slot = frame.priv - 1;
  static_cast<void>(mm.rmap->Referenced(n, true));
  CHECK(mm.rmap->TryToUnmap(n) == UnmapResult::kSuccess);
  frame.Clear(kPageDirty);
  CHECK(mm.swap->WritePage(n));
  mm.page_locks->WaitOnWriteback(n);
  mm.page_locks->Lock(n);
  CHECK(mm.swap->RemoveForReclaim(n));
  mm.page_locks->Unlock(n);
  ReleasePage(mm, n);
  return slot;
}

// Mutations tried, both red: PSWPOUT counted at completion too; a written page that never leaves
// the cache. (Row 3 of the page-list pass without its test for writeback stays green: the cache
// refuses to give up a page under writeback as well.)
TEST_CASE("Swap: an anonymous page is freed on its second visit, never on the first",
          "[mm][spec:throttle-18]") {
  SwapMachine machine({.cpus = 1});
  machine.Spawn("task", [&](TaskMm& self) {
    MemoryManager& mm = machine.mm;
    const std::uint32_t page = mm.spaces->MapAnon(*self.space, 1);
    CHECK(mm.spaces->Write(*self.space, page, 11) == AccessResult::kOk);
    mm.pagevecs->DrainAll();
    const FrameNo n = FrameWithStamp(mm, 11);
    Zone& zone = mm.ZoneOf(n);
    static_cast<void>(mm.rmap->Referenced(n, false));
    ScanControl sc;
    CHECK(mm.reclaimer->ShrinkActive(1, zone, LruList::kActiveAnon, sc, 0) == 1);
    const auto visit = [&] {
      ScanControl visit_sc;
      return mm.reclaimer->ShrinkInactive(1, zone, LruList::kInactiveAnon, visit_sc, 0);
    };
    CHECK(visit() == 0);
    CHECK(machine.Event(VmEvent::kPswpout) == 1);
    CHECK(mm.frames[n].Test(kPageSwapCache));
    CHECK(mm.spaces->UsageOf(*self.space).rss == 0);
    CHECK(mm.spaces->UsageOf(*self.space).swap == 1);
    mm.page_locks->WaitOnWriteback(n);
    mm.pagevecs->DrainAll();
    CHECK(visit() == 1);
    CHECK(machine.Event(VmEvent::kPswpout) == 1);
    CHECK(mm.swap->cache_stats().pages == 0);
    std::uint64_t stamp = 0;
    CHECK(mm.spaces->Read(*self.space, page, &stamp) == AccessResult::kOk);
    CHECK(stamp == 11);
    CHECK(machine.Event(VmEvent::kPgmajfault) == 1);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("Swap: a fault reads the used slots around its own ahead, and they cost no second read",
          "[mm]") {
  SwapMachine machine({.cpus = 1});
  machine.Spawn("task", [&](TaskMm& self) {
    MemoryManager& mm = machine.mm;
    const std::uint32_t first = mm.spaces->MapAnon(*self.space, 20);
    for (std::uint32_t i = 0; i < 20; ++i) {
      CHECK(mm.spaces->Write(*self.space, first + i, 100 + i) == AccessResult::kOk);
    }
    std::vector<SwapSlot> slots;
    for (std::uint32_t i = 0; i < 20; ++i) {
      slots.push_back(SwapOut(mm, FrameWithStamp(mm, 100 + i)));
    }
    CHECK(slots.front() == 1);
    CHECK(slots.back() == 20);
    std::uint64_t stamp = 0;
    // Page 10 lies in slot 11: slots 8..15 come in, pages 7..14.
    CHECK(mm.spaces->Read(*self.space, first + 10, &stamp) == AccessResult::kOk);
    CHECK(stamp == 110);
    CHECK(machine.Event(VmEvent::kPswpin) == 8);
    CHECK(machine.Event(VmEvent::kPgmajfault) == 1);
    CHECK(mm.spaces->FaultsOf(*self.space).major == 1);
    for (std::uint32_t i = 7; i < 15; ++i) {
      CHECK(mm.spaces->Read(*self.space, first + i, &stamp) == AccessResult::kOk);
      CHECK(stamp == 100 + i);
    }
    CHECK(machine.Event(VmEvent::kPswpin) == 8);
    CHECK(machine.Event(VmEvent::kPgmajfault) == 1);
    CHECK(mm.swap->cache_stats().find_success == 7);
    CHECK(mm.swap->cache_stats().find_total == 8);
    CHECK(mm.spaces->Read(*self.space, first + 15, &stamp) == AccessResult::kOk);
    CHECK(machine.Event(VmEvent::kPgmajfault) == 2);
    CHECK(machine.Event(VmEvent::kPswpin) == 13);  // slots 16..20
    CHECK(mm.disk->counts().seeks <= 4);
    SleepFor(kSecond);  // exit leaves pages alone that are locked for a read
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.swap->free_slots() == machine.mm.swap->total_slots());
  CHECK(machine.Wrong() == "");
}

TEST_CASE("Swap: pages read ahead for a task that is gone fall to reclaim, unwritten", "[mm]") {
  SwapMachine machine({.cpus = 1});
  machine.Spawn("task", [&](TaskMm&) {
    MemoryManager& mm = machine.mm;
    MmStruct* space = mm.spaces->Create({});
    const std::uint32_t first = mm.spaces->MapAnon(*space, 7);
    for (std::uint32_t i = 0; i < 7; ++i) {
      CHECK(mm.spaces->Write(*space, first + i, 30 + i) == AccessResult::kOk);
    }
    for (std::uint32_t i = 0; i < 7; ++i) SwapOut(mm, FrameWithStamp(mm, 30 + i));
    std::uint64_t stamp = 0;
    CHECK(mm.spaces->Read(*space, first, &stamp) == AccessResult::kOk);
    mm.spaces->Destroy(space);  // the other six are still being read, and locked
    const std::int64_t orphans = mm.swap->cache_stats().pages;
    CHECK(orphans > 0);
    CHECK(mm.swap->total_slots() - mm.swap->free_slots() == orphans);
    SleepFor(kSecond);
    mm.pagevecs->DrainAll();
    Zone& zone = *mm.zones.front();
    ScanControl sc;
    static_cast<void>(mm.reclaimer->ShrinkActive(20, zone, LruList::kActiveAnon, sc, 0));
    static_cast<void>(mm.reclaimer->ShrinkInactive(20, zone, LruList::kInactiveAnon, sc, 0));
    static_cast<void>(mm.reclaimer->ShrinkInactive(20, zone, LruList::kInactiveAnon, sc, 0));
    CHECK(mm.swap->free_slots() == mm.swap->total_slots());
    CHECK(machine.Stat(ZoneStat::kNrActive) + machine.Stat(ZoneStat::kNrInactive) == 0);
    CHECK(machine.Event(VmEvent::kPswpout) == 7);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("Swap: a slot shared since a fork lives until its last pte is gone", "[mm]") {
  SwapMachine machine({.cpus = 1});
  machine.Spawn("task", [&](TaskMm& self) {
    MemoryManager& mm = machine.mm;
    const std::uint32_t page = mm.spaces->MapAnon(*self.space, 1);
    CHECK(mm.spaces->Write(*self.space, page, 5) == AccessResult::kOk);
    MmStruct* one = mm.spaces->Fork(*self.space, {});
    const SwapSlot slot = SwapOut(mm, FrameWithStamp(mm, 5));
    MmStruct* two = mm.spaces->Fork(*self.space, {});  // copies a swap pte
    CHECK(mm.swap->slots().Count(slot) == 3);
    CHECK(mm.spaces->Write(*one, page, 6) == AccessResult::kOk);
    CHECK(mm.spaces->PeekStamp(*one, page) == 6);
    CHECK(mm.spaces->PeekStamp(*two, page) == 5);
    CHECK(mm.spaces->PeekStamp(*self.space, page) == 5);
    mm.spaces->Destroy(one);
    std::uint64_t stamp = 0;
    CHECK(mm.spaces->Read(*two, page, &stamp) == AccessResult::kOk);
    CHECK(stamp == 5);
    mm.spaces->Destroy(two);
    CHECK(mm.spaces->Read(*self.space, page, &stamp) == AccessResult::kOk);
    CHECK(stamp == 5);
    mm.spaces->Unmap(*self.space, page, 1);
    mm.pagevecs->DrainAll();
    CHECK(mm.swap->slots().Count(slot) == 0);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("Swap: a full device makes AddToSwap fail, and swap-in then gives slots back", "[mm]") {
  SwapMachine machine({.cpus = 1, .swap = 3});
  machine.Spawn("task", [&](TaskMm& self) {
    MemoryManager& mm = machine.mm;
    const std::uint32_t first = mm.spaces->MapAnon(*self.space, 4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      CHECK(mm.spaces->Write(*self.space, first + i, 50 + i) == AccessResult::kOk);
    }
    for (std::uint32_t i = 0; i < 3; ++i) SwapOut(mm, FrameWithStamp(mm, 50 + i));
    CHECK(mm.swap->free_slots() == 0);
    CHECK(mm.swap->Full());
    const FrameNo last = FrameWithStamp(mm, 53);
    mm.page_locks->Lock(last);
    CHECK_FALSE(mm.swap->AddToSwap(last));
    mm.page_locks->Unlock(last);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.swap->free_slots() == 3);
  CHECK(machine.Wrong() == "");
}

// Mutation tried, red: MemoryManager::CheckInvariants without the swap's.
TEST_CASE("Swap: a frame that does not know its slot breaks the machine's invariants", "[mm]") {
  SwapMachine machine({.cpus = 1});
  machine.Spawn("task", [&](TaskMm& self) {
    MemoryManager& mm = machine.mm;
    const std::uint32_t first = mm.spaces->MapAnon(*self.space, 1);
    CHECK(mm.spaces->Write(*self.space, first, 50) == AccessResult::kOk);
    const FrameNo n = FrameWithStamp(mm, 50);
    mm.page_locks->Lock(n);
    CHECK(mm.swap->AddToSwap(n));
    CHECK(mm.CheckInvariants(/*expect_idle=*/false) == "");
    ++mm.frames[n].priv;
    CHECK(mm.CheckInvariants(/*expect_idle=*/false).find("swap cache") == 0);
    --mm.frames[n].priv;
    mm.page_locks->Unlock(n);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("SwapToken: goes to the first, then to who misses at growing pace", "[mm]") {
  SwapMachine machine({.cpus = 1});
  machine.Spawn("task", [&](TaskMm&) {
    MmStruct* a = machine.mm.spaces->Create({});
    MmStruct* b = machine.mm.spaces->Create({});
    SwapToken& token = machine.mm.swap->token();
    token.Grab(*a);  // miss 1: free, a takes it with priority 2
    CHECK(token.Has(*a));
    CHECK(a->token_priority == 2);
    token.Grab(*b);  // miss 2: interval 2 of a previous 0: not shorter
    CHECK(b->token_priority == 0);
    token.Grab(*b);  // 3: interval 1 < 2
    CHECK(b->token_priority == 1);
    token.Grab(*b);  // 4: interval 1, not shorter
    CHECK(b->token_priority == 0);
    token.Grab(*a);  // 5: the holder gets 2 more
    CHECK(a->token_priority == 4);
    a->token_priority = 0;
    token.Grab(*b);  // 6: interval 2, no
    token.Grab(*b);  // 7: interval 1 < 2: priority 1 > 0, takes it with 2 on top
    CHECK(token.Has(*b));
    CHECK(b->token_priority == 3);
    token.Drop();
    CHECK_FALSE(token.Has(*b));
    token.Grab(*a);
    machine.mm.spaces->Destroy(a);  // exit gives it back
    token.Grab(*b);
    CHECK(token.Has(*b));
    machine.mm.spaces->Destroy(b);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
}

}  // namespace
}  // namespace pagestorm::mm
