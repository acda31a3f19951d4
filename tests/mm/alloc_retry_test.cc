#include "mm/alloc_retry.h"

#include <catch2/catch.hpp>

#include "mm/lru.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/zone.h"
#include "mm/zone_reclaimable.h"
#include "tests/mm/reclaim_machine.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;
using Next = RetryRule::Next;
using Kill = RetryRule::Kill;

ReclaimMachineOptions SixteenRounds() {
  ReclaimMachineOptions options;
  options.policy.alloc.retry = AllocRetry::kSixteenRounds;
  return options;
}

TEST_CASE("RetryRule: each fruitless round takes off a sixteenth of what could be reclaimed",
          "[mm][retry][spec:throttle-45]") {
  for (int loops = 0; loops <= 16; ++loops) CHECK(RetryDiscount(loops, 1600) == 100 * loops);
  CHECK(RetryDiscount(1, 1) == 1);  // rounded up
  CHECK(RetryDiscount(16, 1601) == 1601);
}

// 1600 pages on the lists and more than enough free: only the number of rounds counts, and the 17th
// is one too many. With a min mark of free + 600 a round is worth it while 1600 - 100 n > 600, so
// for n up to 9; with one page more, too, since the discount is rounded up. Mutations tried, red:
// 15 and 17 rounds; the discount rounded down, which makes it 11 rounds, and left out; progress
// that does not count; progress of a costly request that counts; isolated pages counted as
// reclaimable.
TEST_CASE("RetryRule: 4.7 gives up after sixteen fruitless rounds, or when the rest is too little",
          "[mm][retry][spec:throttle-45]") {
  const std::int64_t pages = GENERATE(1600, 1601);
  ReclaimMachine machine(SixteenRounds());
  machine.Run([&] {
    MemoryManager& mm = *machine.mm;
    machine.AddPages(pages, Kind::kAnon);
    machine.Fold();
    REQUIRE(ReclaimablePages(mm, machine.zone()) == pages);
    const auto rule = MakeRetryRule(mm);
    RetryRule::Request request{.gfp = GFP_KERNEL,
                               .zonelist = mm.allocator->ZonelistFor(GFP_KERNEL, 0)};
    const auto rounds = [&] {
      RetryRule::State state;
      int count = 1;
      while (rule->AfterReclaim(request, 0, state) == Next::kWalk) ++count;
      return count;
    };
    CHECK(rounds() == 17);
    const std::int64_t min = machine.zone().watermark.min;
    machine.zone().watermark.min = machine.Stat(ZoneStat::kNrFreePages) + 600;
    CHECK(rounds() == 10);
    {
      // 800 of them are isolated: 800 - 50 n > 600 for n up to 3.
      IsolatedBatch batch(mm, machine.zone());
      machine.zone().lru->Isolate(800, LruList::kInactiveAnon, 0, IsolateMode::kInactive,
                                  batch.entries);
      CHECK(rounds() == 4);
    }
    machine.zone().watermark.min = min;
    RetryRule::State state;
    for (int i = 0; i < 100; ++i) {
      CHECK(rule->AfterReclaim(request, i % 10 == 9 ? 1 : 0, state) == Next::kWalk);
    }
    state.no_progress_loops = 16;
    CHECK(rule->AfterReclaim(request, 0, state) == Next::kOom);
    CHECK_FALSE(rule->AfterOom(state));
    CHECK(state.no_progress_loops == 0);  // a kill is a new beginning
    request.order = 4;
    request.gfp |= __GFP_REPEAT;
    state.no_progress_loops = 15;
    CHECK(rule->AfterReclaim(request, 32, state) == Next::kWalk);  // progress does not count
    CHECK(state.no_progress_loops == 16);
  });
}

// Mutations tried, red: the nap without regard to what is being written; after progress, too.
TEST_CASE("RetryRule: 4.7 naps before a retry if the disk has most of what could be reclaimed",
          "[mm][retry]") {
  ReclaimMachine machine(SixteenRounds());
  machine.Run([&] {
    MemoryManager& mm = *machine.mm;
    machine.AddPages(500, Kind::kAnon);
    const auto rule = MakeRetryRule(mm);
    const RetryRule::Request request{.gfp = GFP_KERNEL,
                                     .zonelist = mm.allocator->ZonelistFor(GFP_KERNEL, 0)};
    const auto took = [&](std::int64_t progress) {
      RetryRule::State state;
      const std::int64_t start = Now().n;
      CHECK(rule->AfterReclaim(request, progress, state) == Next::kWalk);
      return Now().n - start;
    };
    mm.vmstat->AddGlobal(0, ZoneStat::kNrWriteback, 250);
    CHECK(took(0) < 1'000'000);
    mm.vmstat->AddGlobal(0, ZoneStat::kNrDirty, 1);
    CHECK(took(0) >= kSecond.n / 10);
    CHECK(took(1) < 1'000'000);
    mm.vmstat->AddGlobal(0, ZoneStat::kNrWriteback, -250);
    mm.vmstat->AddGlobal(0, ZoneStat::kNrDirty, -1);
  });
}

// Mutation tried, red: GFP_NOFS kills.
TEST_CASE("RetryRule: who fails, who may kill, who only tries again", "[mm][retry]") {
  ReclaimMachineOptions options = SixteenRounds();
  options.arch = numa::Arch::kX86_64;
  ReclaimMachine machine(options);
  machine.Run([&] {
    MemoryManager& mm = *machine.mm;
    const auto zones = mm.allocator->ZonelistFor(GFP_KERNEL, 0);
    const auto rule = MakeRetryRule(mm);
    const auto next = [&](Gfp gfp, int order) {
      RetryRule::State state;
      return rule->AfterReclaim({.gfp = gfp, .order = order, .zonelist = zones}, 32, state);
    };
    CHECK(next(GFP_KERNEL | __GFP_NORETRY, 0) == Next::kFail);
    CHECK(next(GFP_KERNEL, 4) == Next::kFail);
    CHECK(next(GFP_KERNEL | __GFP_REPEAT, 4) == Next::kWalk);
    CHECK(next(GFP_KERNEL | __GFP_NOFAIL, 4) == Next::kWalk);
    const auto kill = [&](Gfp gfp, int order) {
      return rule->MayKill({.gfp = gfp, .order = order, .zonelist = zones});
    };
    CHECK(kill(GFP_KERNEL, 3) == Kill::kYes);
    CHECK(kill(GFP_HIGHUSER_MOVABLE, 0) == Kill::kYes);
    CHECK(kill(GFP_KERNEL, 4) == Kill::kFail);
    CHECK(kill(GFP_KERNEL | __GFP_DMA, 0) == Kill::kFail);
    CHECK(kill(GFP_KERNEL | __GFP_THISNODE, 0) == Kill::kFail);
    CHECK(kill(GFP_KERNEL | __GFP_THISNODE | __GFP_NOFAIL, 0) == Kill::kSpare);
    CHECK(kill(GFP_NOFS, 0) == Kill::kSpare);
  });
}

TEST_CASE("ReclaimablePages: anonymous pages count while swap has room", "[mm][retry]") {
  const std::int64_t slots = GENERATE(0, 1000);
  testing::SwapMachine machine({.swap = slots});
  machine.Spawn("task", [&](TaskMm& self) {
    const std::uint32_t first = machine.mm.spaces->MapAnon(*self.space, 500);
    for (std::uint32_t i = 0; i < 500; ++i) {
      CHECK(machine.mm.spaces->Write(*self.space, first + i, i) == AccessResult::kOk);
    }
    machine.mm.pagevecs->DrainAll();
    SleepFor(kSecond * 2);  // the counters are folded
    std::int64_t pages = 0;
    for (const auto& zone : machine.mm.zones) pages += ReclaimablePages(machine.mm, *zone);
    CHECK(pages == (slots > 0 ? 500 : 0));
  });
  CHECK(machine.Run().end == RunEnd::kDone);
}

// The whole slow path with 4.7's rule. Mutation tried, red: SelectBadTask that waits for no victim
// and for nobody who exits (more than one kill). Without the lock in TryOom it stays green.
TEST_CASE("PageAllocator: with 4.7's rules and no swap one task dies and the other finishes",
          "[mm][retry]") {
  testing::SwapMachineOptions options{.cpus = 2, .kib_per_node = 16 * 1024, .swap = 0};
  options.policy.alloc.retry = AllocRetry::kSixteenRounds;
  options.policy.oom.lock = OomLock::kMachine;
  options.policy.oom.reaper = GENERATE(false, true);
  testing::SwapMachine machine(options);
  std::atomic<int> finished{0};
  for (const std::int64_t pages : {2400, 2300}) {
    machine.Spawn("eater", [&, pages](TaskMm& self) {
      const std::uint32_t first = machine.mm.spaces->MapAnon(*self.space, pages);
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(pages); ++i) {
        if (machine.mm.spaces->Write(*self.space, first + i, i) != AccessResult::kOk) return;
      }
      ++finished;
    });
  }
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.oom->kills() == 1);
  CHECK(finished == 1);
  CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
  CHECK(machine.Wrong() == "");
}

}  // namespace
}  // namespace pagestorm::mm
