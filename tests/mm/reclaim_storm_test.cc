// Many tasks reclaim, allocate, touch and exit at once: nothing may be lost, on either engine.
#include <catch2/catch.hpp>

#include "core/rng.h"
#include "mm/kswapd.h"
#include "mm/lru.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/reclaim.h"
#include "mm/slab.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

struct Storm {
  int tasks = 12;
  int steps = 400;
  std::int64_t pages_each = 600;  // of 4,000 or so
};

void StormTask(ReclaimMachine& machine, const Storm& storm, int number) {
  Rng rng = machine.engine->seeds().Stream("storm", number);
  std::vector<FrameNo> mine;
  const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
  for (int step = 0; step < storm.steps; ++step) {
    switch (rng.Below(10)) {
      case 0:
        if (!mine.empty()) machine.mm->pagevecs->MarkAccessed(mine[rng.Below(mine.size())]);
        break;
      case 1: {
        ScanControl sc{.order = static_cast<int>(rng.Below(3))};
        const auto priority = static_cast<int>(rng.Between(2, 8));
        machine.mm->reclaimer->ShrinkZone(priority, machine.zone(), sc);
        break;
      }
      case 2:
        while (mine.size() > static_cast<std::size_t>(storm.pages_each) / 2) {
          machine.DropPage(mine.back());
          mine.pop_back();
        }
        break;
      case 3:
        static_cast<void>(machine.mm->reclaimer->TryToFreePages(zones, 0, GFP_KERNEL));
        break;
      default:
        for (int i = 0; i < 10; ++i) {
          if (static_cast<std::int64_t>(mine.size()) >= storm.pages_each) break;
          const FrameNo n = machine.AddPage(Kind::kAnon, rng.Below(2) == 0);
          if (n != kNoFrame) mine.push_back(n);
        }
        ChargeUser({rng.Between(500, 20'000)});
    }
  }
  for (const FrameNo n : mine) machine.DropPage(n);
}

// Runs the storm; every page is one of: free, on the LRU because the fake swap cache still has it.
std::uint64_t RunStorm(const ReclaimMachineOptions& options, const Storm& storm) {
  ReclaimMachine machine(options);
  machine.owners->max_writes = 32;
  machine.owners->io_time = {20'000};
  machine.mm->slab->AddCache("dentry", 200);
  for (const auto& node : machine.mm->nodes) node->kswapd->Start();
  const RunResult result = machine.Run([&] {
    std::atomic<int> running{storm.tasks};
    for (int i = 0; i < storm.tasks; ++i) {
      machine.Spawn("storm", [&, i] {
        StormTask(machine, storm, i);
        running.fetch_sub(1);
      });
    }
    while (running.load() > 0 || machine.owners->under_way() > 0) SleepFor({1'000'000});
    machine.mm->pagevecs->DrainAll();
  });
  CHECK(result.end == RunEnd::kDone);
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
  for (const auto& zone : machine.mm->zones) {
    CHECK(zone->lru->CheckInvariants() == "");
    CHECK(zone->lru->isolated() == 0);
    CHECK(machine.mm->vmstat->Exact(zone->ordinal, ZoneStat::kNrIsolatedAnon) == 0);
  }
  const auto peaks = machine.mm->reclaimer->PeaksNow();
  CHECK(peaks.reclaimers == 0);
  CHECK(peaks.isolated == 0);
  CHECK(peaks.reclaimers_max > 1);
  CHECK(machine.owners->writes.load() > 100);
  return result.trace_hash;
}

ReclaimMachineOptions StormOptions(std::uint64_t seed) {
  ReclaimMachineOptions options;
  options.seed = seed;
  options.cpus_per_node = 4;
  options.mib_per_node = 16;
  return options;
}

// Mutations tried: Putback without the reference drop; NoteFreed without the counters; a freed
// entry left in the batch; FreeingBatch without its destructor. Each leaves frames behind or
// aborts.
TEST_CASE("Reclaim: frames are conserved through a random storm on the virtual engine",
          "[mm][spec:throttle-22]") {
  const std::uint64_t seed = GENERATE(1U, 2U, 3U);
  const std::uint64_t hash = RunStorm(StormOptions(seed), {});
  if (seed == 1) CHECK(RunStorm(StormOptions(seed), {}) == hash);
}

TEST_CASE("Reclaim: and with other CPUs running inside its critical sections", "[mm]") {
  const std::uint64_t seed = GENERATE(11U, 12U, 13U);
  ReclaimMachineOptions options = StormOptions(seed);
  options.sync_in_cs = true;
  RunStorm(options, {});
}

TEST_CASE("Reclaim: and with the throttle, with isolated pages visible, with split LRU", "[mm]") {
  ReclaimMachineOptions options = StormOptions(21);
  SECTION("throttle") { options.policy.throttle.gate = "throttle"; }
  SECTION("visible") { options.policy.reclaim.isolated_visible = true; }
  SECTION("split LRU") { options.policy.reclaim.split_lru = true; }
  SECTION("visible, other CPUs inside") {
    options.policy.reclaim.isolated_visible = true;
    options.sync_in_cs = true;
  }
  RunStorm(options, {});
}

TEST_CASE("Reclaim: frames are conserved through a random storm on the threads engine",
          "[mm][threads][stress][spec:throttle-22]") {
  ReclaimMachineOptions options = StormOptions(31);
  options.engine = EngineKind::kThreads;
  SECTION("plain") {}
  SECTION("throttle") { options.policy.throttle.gate = "throttle"; }
  RunStorm(options, {.steps = 120});
}

TEST_CASE("Reclaim: a machine stopped in the middle of a storm has nothing isolated", "[mm]") {
  const std::int64_t stop = GENERATE(2'000'000, 7'000'000, 20'000'000);
  const EngineKind engine = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  ReclaimMachineOptions options = StormOptions(41);
  options.engine = engine;
  options.time_limit = {stop};
  ReclaimMachine machine(options);
  machine.owners->max_writes = 8;
  machine.owners->io_time = {500'000};
  for (const auto& node : machine.mm->nodes) node->kswapd->Start();
  const RunResult result = machine.Run([&] {
    for (int i = 0; i < 12; ++i) {
      machine.Spawn("storm", [&, i] { StormTask(machine, {.steps = 100'000}, i); });
    }
    SleepFor(1000 * kSecond);
  });
  CHECK(result.end == RunEnd::kTimeLimit);
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/false) == "");
  for (const auto& zone : machine.mm->zones) CHECK(zone->lru->isolated() == 0);
  CHECK(machine.mm->reclaimer->PeaksNow().isolated == 0);
}

}  // namespace
}  // namespace pagestorm::mm
