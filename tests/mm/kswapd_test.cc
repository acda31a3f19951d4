#include "mm/kswapd.h"

#include <catch2/catch.hpp>
#include <utility>

#include "mm/lru.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/slab.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

// Fills the zone with clean pages until so many are free, counters folded.
void FillUntilFree(ReclaimMachine& machine, std::int64_t free) {
  machine.Fold();
  const auto now = [&] { return machine.mm->vmstat->Read(0, ZoneStat::kNrFreePages); };
  while (now() > free) {
    const auto n = machine.mm->allocator->WalkFreeLists(GFP_HIGHUSER_MOVABLE, 0, 0, Mark::kMin,
                                                        kAllocNoWatermarks);
    REQUIRE(n);
    machine.mm->frames[*n].owner = 7;  // a clean file page of FakeOwners
    machine.mm->pagevecs->Add(*n);
    machine.Fold();
  }
  machine.mm->pagevecs->DrainAll();
  machine.mm->allocator->DrainAll();
  machine.Fold();
}

// Mutations tried: Wake at the high mark; DescendPriorities that stops at the low mark; a pass that
// shrinks whatever is free.
TEST_CASE("Kswapd: starts below the low mark and reclaims up to the high mark",
          "[mm][spec:throttle-21]") {
  ReclaimMachine machine({.mib_per_node = 256});
  Kswapd& kswapd = *machine.mm->nodes[0]->kswapd;
  kswapd.Start();
  machine.Run([&] {
    SleepFor({1'000'000});
    CHECK(kswapd.sleeping());
    Zone& zone = machine.zone();
    FillUntilFree(machine, zone.watermark.low + 5);
    kswapd.Wake(zone, 0);
    SleepFor({1'000'000});
    CHECK(kswapd.runs() == 0);
    FillUntilFree(machine, zone.watermark.low - 40);
    kswapd.Wake(zone, 0);
    SleepFor(kSecond);
    CHECK(kswapd.runs() == 1);
    CHECK(kswapd.sleeping());
    machine.mm->allocator->DrainAll();
    CHECK(machine.Stat(ZoneStat::kNrFreePages) > zone.watermark.high);
    // Not far beyond: one more batch of every CPU's list and of reclaim.
    CHECK(machine.Stat(ZoneStat::kNrFreePages) < 4 * zone.watermark.high);
    CHECK(machine.mm->vmstat->Event(VmEvent::kPageoutrun) >= 1);
    CHECK(machine.mm->vmstat->Event(VmEvent::kKswapdSteal) == machine.owners->removed.load());
  });
}

TEST_CASE("Kswapd: shrinks a zone only while it is below eight times the high mark",
          "[mm][spec:throttle-21]") {
  // Two zones: DMA32 with plenty, and DMA, whose shortage is what the pass is about.
  ReclaimMachineOptions options;
  options.arch = numa::Arch::kX86_64;
  options.mib_per_node = 128;
  ReclaimMachine machine(options);
  REQUIRE(machine.mm->zones.size() == 2);
  Zone& dma = machine.zone(0);
  Zone& dma32 = machine.zone(1);
  const bool plenty = GENERATE(true, false);
  machine.Spawn(
      "kswapd",
      [&] {
        machine.AddPages(1500, Kind::kCleanFile, false, false);
        machine.mm->allocator->DrainAll();
        machine.Fold();
        CHECK(machine.Stat(ZoneStat::kNrInactive, 1) == 1500);
        const std::int64_t free = machine.Stat(ZoneStat::kNrFreePages, 1);
        dma32.nr_scan_inactive.store(100);
        // DMA32 is the highest short zone or fine; its own mark is set beside what it has free.
        dma32.watermark.high = plenty ? free / 8 - 10 : free / 8 + 10;
        dma.watermark.high = machine.Stat(ZoneStat::kNrFreePages, 0) + 1'000'000;
        machine.Spawn("relief", [&] {
          SleepFor({300'000'000});
          dma.watermark.high = std::int64_t{1};
        });
        machine.mm->nodes[0]->kswapd->RunOnce(0);
        // DMA is below DMA32 in a pass that ends at the highest short zone: only zones up to it are
        // looked at.
        CHECK(machine.Stat(ZoneStat::kNrInactive, 1) == 1500);
        dma32.watermark.high = free + 1;  // now short itself
        machine.Spawn("relief", [&] {
          SleepFor({300'000'000});
          dma32.watermark.high = std::int64_t{1};
        });
        machine.mm->nodes[0]->kswapd->RunOnce(0);
        CHECK(machine.Stat(ZoneStat::kNrInactive, 1) < 1500);
      },
      PF_MEMALLOC | PF_SWAPWRITE | PF_KSWAPD);
  machine.Run([] {});
}

TEST_CASE("Kswapd: eight times the high mark is what a lower zone must have to be left alone",
          "[mm][spec:throttle-21]") {
  ReclaimMachineOptions options;
  options.arch = numa::Arch::kX86_64;
  options.mib_per_node = 128;
  const bool plenty = GENERATE(true, false);
  ReclaimMachine machine(options);
  Zone& dma = machine.zone(0);
  Zone& dma32 = machine.zone(1);
  machine.Spawn(
      "kswapd",
      [&] {
        // DMA has pages on its list; DMA32, above it, is short, so the pass visits both.
        std::vector<FrameNo> pages;
        for (int i = 0; i < 500; ++i) {
          const auto n = machine.mm->allocator->Alloc(GFP_KERNEL | __GFP_DMA);
          REQUIRE(n);
          machine.mm->frames[*n].owner = 7;
          machine.mm->pagevecs->Add(*n);
        }
        machine.mm->pagevecs->DrainAll();
        machine.mm->allocator->DrainAll();
        machine.Fold();
        const std::int64_t reserve = dma.lowmem_reserve[1];
        const std::int64_t free = machine.Stat(ZoneStat::kNrFreePages, 0) - reserve;
        REQUIRE(free > 80);
        dma.nr_scan_inactive.store(100);
        dma.watermark.high = plenty ? free / 8 - 2 : free / 8 + 2;
        dma32.watermark.high = std::int64_t{1'000'000};
        machine.Spawn("relief", [&] {
          SleepFor({10'000});
          dma32.watermark.high = std::int64_t{1};
        });
        machine.mm->nodes[0]->kswapd->RunOnce(0);
        CHECK((machine.Stat(ZoneStat::kNrInactive, 0) == 500) == plenty);
      },
      PF_MEMALLOC | PF_SWAPWRITE | PF_KSWAPD);
  machine.Run([] {});
}

// Mutations tried: a factor of -1 (slab alone decides); the slab test left out.
TEST_CASE("Kswapd: an empty zone is all-unreclaimable at once, unless slab gives something",
          "[mm]") {
  const bool slab_gives = GENERATE(false, true);
  ReclaimMachine machine({.mib_per_node = 64, .time_limit = {200'000'000}});
  // Gives ten objects whenever it is pressed, and never runs out.
  bool shrunk = false;
  machine.mm->slab->AddShrinker(
      "endless", 2,
      [&]() -> std::int64_t {
        if (!slab_gives) return 0;
        return std::exchange(shrunk, false) ? 90 : 100;
      },
      [&](std::int64_t, Gfp) {
        shrunk = true;
        return std::int64_t{0};
      });
  machine.mm->nodes[0]->kswapd->Start();
  machine.Run([&] {
    std::vector<FrameNo> pages;
    while (const auto n = machine.mm->allocator->Alloc(GFP_ATOMIC | __GFP_NOWARN)) {
      pages.push_back(*n);
    }
    machine.mm->allocator->DrainLocal();
    machine.Fold();
    SleepFor({1'000'000});
    const bool flagged = machine.zone().Has(kZoneAllUnreclaimable);
    CHECK(flagged == !slab_gives);
    machine.mm->allocator->Free(pages.back(), 0, true);
    CHECK(machine.zone().Has(kZoneAllUnreclaimable) == flagged);  // the per-CPU list has it
    machine.mm->allocator->DrainLocal();
    CHECK_FALSE(machine.zone().Has(kZoneAllUnreclaimable));
    CHECK(machine.zone().pages_scanned.load() == 0);
  });
}

// Mutations tried: the minimum not noted before the shrink; temp_priority not reset (6 is left).
TEST_CASE("Kswapd: prev_priority sinks while it searches and is 12 again once all is well",
          "[mm]") {
  ReclaimMachine machine({.mib_per_node = 64});
  int at_first_page = -1;
  machine.owners->look = [&] {
    if (at_first_page < 0) at_first_page = machine.zone().prev_priority.load();
  };
  machine.Spawn(
      "kswapd",
      [&] {
        machine.AddPages(2000, Kind::kCleanFile, false, false);
        machine.zone().watermark.high = machine.Stat(ZoneStat::kNrFreePages) + 20;
        CHECK(machine.mm->nodes[0]->kswapd->RunOnce(0) >= 32);
        CHECK(machine.zone().prev_priority.load() == kDefPriority);
      },
      PF_MEMALLOC | PF_SWAPWRITE | PF_KSWAPD);
  machine.Run([] {});
  // 2000 pages: 1 + 1 + 2 + 4 + 8 + 16 = 32 are gathered at the sixth priority.
  CHECK(at_first_page == 7);
}

// Split LRU as merged with the throttle's kswapd: after the first 32 pages it stays at priority 12,
// where lists this short have no quota. Mutations tried, red: SkipIdlePasses that skips ever more
// (it notices too late); skipped passes not counted; skipped passes that gather nothing. One that
// does nothing stays green, and takes half a minute.
TEST_CASE("Kswapd: passes that change nothing are charged and counted, not executed", "[mm]") {
  ReclaimMachineOptions options;
  options.policy.throttle.gate = "throttle";
  options.policy.reclaim.split_lru = true;
  options.policy.reclaim.split_quota_plus_one = GENERATE(false, true);
  ReclaimMachine machine(options);
  machine.Spawn(
      "kswapd",
      [&] {
        machine.AddPages(3000, Kind::kCleanFile, false, false);
        Zone& zone = machine.zone();
        zone.watermark.high = machine.Stat(ZoneStat::kNrFreePages) + 1000;
        machine.Spawn("relief", [&] {
          SleepFor(kSecond);
          machine.zone().watermark.high = std::int64_t{1};
        });
        const std::int64_t start = Now().n;
        const std::int64_t stolen = machine.mm->nodes[0]->kswapd->RunOnce(0);
        const std::int64_t took = Now().n - start;
        const std::int64_t passes = machine.mm->vmstat->Event(VmEvent::kPageoutrun);
        if (options.policy.reclaim.split_quota_plus_one) {
          CHECK(stolen >= 1000);  // a page a visit is enough to get there
          CHECK(took < kSecond.n / 2);
          CHECK(passes > 900);  // which gather one each, executed or not
          CHECK(passes < 1100);
          return;
        }
        CHECK(stolen < 200);
        CHECK(took >= kSecond.n - 100'000);
        CHECK(took < kSecond.n + 200'000);  // it notices soon that all is well
        CHECK(passes > 500'000);            // as many as it would have made
      },
      PF_MEMALLOC | PF_SWAPWRITE | PF_KSWAPD);
  const RunResult result = machine.Run([] {});
  CHECK(result.events < 100'000);
}

}  // namespace
}  // namespace pagestorm::mm
