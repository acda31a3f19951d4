#include "mm/slab.h"

#include <catch2/catch.hpp>

#include "mm/page_alloc.h"
#include "mm/reclaim.h"
#include "mm/vmstat.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

// Mutation tried: without the + 1 (division by zero on an empty LRU).
TEST_CASE("SlabScanDelta: pressure in proportion, enormous when the LRU is isolated away", "[mm]") {
  CHECK(SlabScanDelta(32, 2, 10'000, 63'999) == 10);
  CHECK(SlabScanDelta(32, 2, 10'000, 0) == 640'000);
  CHECK(SlabScanDelta(32, 4, 10'000, 319) == 1000);
}

TEST_CASE("SlabCache: objects fill pages in order and the oldest page goes first", "[mm]") {
  ReclaimMachine machine;
  SlabCache& cache = machine.mm->slab->AddCache("dentry", 400);  // ten a page
  machine.Run([&] {
    CHECK(cache.Grow(35) == 35);
    CHECK(cache.pages() == 4);
    CHECK(machine.Stat(ZoneStat::kNrSlabReclaimable) == 4);
    CHECK(cache.Shrink(9) == 0);
    CHECK(cache.Shrink(1) == 1);
    CHECK(cache.Shrink(15) == 1);
    CHECK(cache.objects() == 10);
    CHECK(cache.Grow(5) == 5);  // into what is left of the last page
    CHECK(cache.pages() == 2);
    CHECK(cache.Shrink(1000) == 2);
    CHECK(machine.Stat(ZoneStat::kNrSlabReclaimable) == 0);
    CHECK(cache.Grow(1) == 1);
    CHECK(cache.Shrink(1) == 1);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutations tried: batches of 64; the remainder dropped; no cap.
TEST_CASE("SlabCaches: shrinkers are pressed in batches of 128, the rest is kept for the next time",
          "[mm]") {
  ReclaimMachine machine;
  std::vector<std::int64_t> asked;
  std::int64_t objects = 1000;
  Shrinker& shrinker = machine.mm->slab->AddShrinker(
      "test", 2, [&] { return objects; },
      [&](std::int64_t n, Gfp) {
        asked.push_back(n);
        objects -= 10;
        return std::int64_t{1};
      });
  machine.Run([&] {
    // 2 * 100 * 1000 / 1000 = 200: one batch, 72 stay owed.
    SlabProgress progress = machine.mm->slab->Shrink(100, GFP_KERNEL, 999);
    CHECK(asked == std::vector<std::int64_t>{128});
    CHECK(progress.objects == 10);
    CHECK(progress.pages == 1);
    CHECK(shrinker.pending.load() == 72);
    // scanned 0 counts as 32: 64 * 990 / 990 = 64; 72 + 64 = 136.
    progress = machine.mm->slab->Shrink(0, GFP_KERNEL, 989);
    CHECK(asked.size() == 2);
    CHECK(shrinker.pending.load() == 8);
    // On an empty LRU everything twice over and no more: 2 * 980 = 1960 = 15 * 128 + 40.
    asked.clear();
    progress = machine.mm->slab->Shrink(32, GFP_KERNEL, 0);
    CHECK(asked.size() == 15);
    CHECK(shrinker.pending.load() == 40);
    CHECK(machine.mm->vmstat->Event(VmEvent::kSlabsScanned) == 17 * 128);
  });
}

// Mutation tried: __GFP_FS not asked for.
TEST_CASE("SlabCaches: dentries are given back to callers with FS only", "[mm]") {
  ReclaimMachine machine;
  SlabCache& cache = machine.mm->slab->AddCache("dentry", 200);
  machine.Run([&] {
    CHECK(cache.Grow(1000) == 1000);
    CHECK(machine.mm->slab->Shrink(32, GFP_NOFS, 0).objects == 0);
    CHECK(cache.objects() == 1000);
    CHECK(machine.mm->slab->Shrink(32, GFP_KERNEL, 0).objects > 0);
  });
}

// Mutation tried: slab_counts_as_progress ignored.
TEST_CASE("SlabCaches: pages freed are progress with SLAB, and not with SLUB", "[mm]") {
  const bool slab = GENERATE(true, false);
  ReclaimMachineOptions options;
  options.policy.reclaim.slab_counts_as_progress = slab;
  ReclaimMachine machine(options);
  SlabCache& cache = machine.mm->slab->AddCache("dentry", 200);
  machine.Run([&] {
    CHECK(cache.Grow(4000) == 4000);
    const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
    // The lists are empty: all there is comes from slab, one call after the other until it is gone.
    const std::int64_t progress = machine.mm->reclaimer->TryToFreePages(zones, 0, GFP_KERNEL);
    CHECK((progress > 0) == slab);
    CHECK(cache.objects() < 4000);
  });
}

// Mutations tried, red: slab_counts_as_progress ignored; FillAtBoot on the first node alone.
TEST_CASE("SlabCaches: what a machine has from boot is progress on an empty LRU, with SLAB",
          "[mm]") {
  const bool slab = GENERATE(true, false);
  ReclaimMachineOptions options;
  options.nodes = 2;
  options.slab_reclaimable_pages = 297;
  options.policy.reclaim.slab_counts_as_progress = slab;
  ReclaimMachine machine(options);
  machine.Run([&] {
    machine.mm->slab->FillAtBoot();
    CHECK(machine.Stat(ZoneStat::kNrSlabReclaimable, 0) == 150);
    CHECK(machine.Stat(ZoneStat::kNrSlabReclaimable, 1) == 147);
    const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
    const std::int64_t progress = machine.mm->reclaimer->TryToFreePages(zones, 0, GFP_KERNEL);
    CHECK((progress > 0) == slab);
    CHECK(machine.Stat(ZoneStat::kNrSlabReclaimable, 0) < 150);
    CHECK(machine.mm->vmstat->Event(VmEvent::kSlabsScanned) > 0);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutation tried, red: AddCache without shrinker_rwsem.
TEST_CASE("SlabCaches: a task that registers a cache waits for the pass under way", "[mm]") {
  ReclaimMachine machine;
  std::vector<std::string> order;
  std::int64_t objects = 1000;
  machine.mm->slab->AddShrinker(
      "slow", 2, [&] { return objects; },
      [&](std::int64_t, Gfp) {
        order.emplace_back("begin");
        SleepFor(kMillisecond);
        order.emplace_back("end");
        objects = 0;
        return std::int64_t{1};
      });
  machine.Run([&] {
    machine.Spawn("registers", [&] {
      SleepFor(kMillisecond / 2);
      machine.mm->slab->AddCache("late", 200);
      order.emplace_back("registered");
    });
    machine.Spawn("presses too", [&] {
      SleepFor(kMillisecond * 3 / 4);
      // Somebody is changing the list, or waits to: taken for progress, and nobody is pressed.
      const SlabProgress some = machine.mm->slab->Shrink(100, GFP_KERNEL, 999);
      CHECK(some.objects == 1);
      CHECK(some.pages == 0);
    });
    machine.mm->slab->Shrink(100, GFP_KERNEL, 999);
    SleepFor(kMillisecond);
  });
  CHECK(order == std::vector<std::string>{"begin", "end", "registered"});
}

}  // namespace
}  // namespace pagestorm::mm
