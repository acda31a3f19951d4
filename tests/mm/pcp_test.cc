#include "mm/pcp.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/alloc_machine.h"

namespace pagestorm::mm {
namespace {

using testing::AllocMachine;

// 1 GiB of one node: DMA32 has batch 31 and high 186.
constexpr Gfp kKernel = GFP_KERNEL;

std::vector<FrameNo> Allocate(AllocMachine& machine, int count, Gfp gfp = kKernel) {
  std::vector<FrameNo> pages;
  for (int i = 0; i < count; ++i) {
    if (const auto n = machine.mm.allocator->Alloc(gfp)) pages.push_back(*n);
  }
  return pages;
}

TEST_CASE("Pcp: an empty list takes one batch from the buddy, in its order", "[mm][pcp]") {
  AllocMachine machine({.node_mib = {1024}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  const Pcp& pcp = *zone.pcp[0];
  machine.Run([&] {
    const std::int64_t before = machine.Free(zone);
    const std::vector<FrameNo> pages = Allocate(machine, 1);
    CHECK(pages.size() == 1);
    CHECK(pcp.count() == 30);
    CHECK(machine.Free(zone) == before - 31);
    const std::vector<FrameNo> more = Allocate(machine, 30);
    CHECK(pcp.count() == 0);
    CHECK(machine.Free(zone) == before - 31);
    // Neighbours, since they were split off one block.
    CHECK(more.front() == pages.front() + 1);
    CHECK(more.back() == pages.front() + 30);
    Allocate(machine, 1);
    CHECK(machine.Free(zone) == before - 62);
  });
  CHECK(machine.mm.CheckInvariants(true).empty());
}

// Mutations tried: spilling at > high, spilling `high - batch`, spilling from the head.
TEST_CASE("Pcp: the 186th page spills exactly 31 cold ones", "[mm][pcp][spec:throttle-9]") {
  AllocMachine machine({.node_mib = {1024}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  const Pcp& pcp = *zone.pcp[0];
  CHECK(pcp.batch() == 31);
  CHECK(pcp.high() == 186);
  machine.Run([&] {
    const std::vector<FrameNo> pages = Allocate(machine, 186);  // six whole batches
    CHECK(pcp.count() == 0);
    const std::int64_t before = machine.Free(zone);
    for (std::size_t i = 0; i < 185; ++i) {
      machine.mm.allocator->Free(pages[i], 0, false);
      if (machine.Free(zone) != before) FAIL_CHECK("page " << i << " changed nr_free_pages");
    }
    CHECK(pcp.count() == 185);
    machine.mm.allocator->Free(pages[185], 0, false);
    CHECK(pcp.count() == 186 - 31);
    CHECK(machine.Free(zone) == before + 31);
    // The coldest are those freed first; the hottest is still at hand.
    for (std::size_t i = 0; i < 186; ++i) {
      const FrameState state = machine.mm.frames[pages[i]].state();
      if (state != (i < 31 ? FrameState::kBuddy : FrameState::kPcp)) FAIL_CHECK("page " << i);
    }
    CHECK(machine.mm.allocator->Alloc(kKernel) == pages[185]);
  });
  CHECK(machine.mm.vmstat->Event(VmEvent::kPgfree) == 186);
}

TEST_CASE("Pcp: cold requests and cold frees use the other end", "[mm][pcp]") {
  AllocMachine machine({.node_mib = {1024}});
  machine.Run([&] {
    const std::vector<FrameNo> pages = Allocate(machine, 31);
    machine.mm.allocator->Free(pages[0], 0, false);
    machine.mm.allocator->Free(pages[1], 0, false);
    machine.mm.allocator->Free(pages[2], 0, true);
    // head: 1 0 2 :tail
    CHECK(machine.mm.allocator->Alloc(kKernel | __GFP_COLD) == pages[2]);
    CHECK(machine.mm.allocator->Alloc(kKernel | __GFP_COLD) == pages[0]);
    CHECK(machine.mm.allocator->Alloc(kKernel) == pages[1]);
  });
}

TEST_CASE("Pcp: a page of the wanted type is looked for; else a batch is fetched", "[mm][pcp]") {
  AllocMachine machine({.node_mib = {1024}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  machine.Run([&] {
    const auto unmovable = machine.mm.allocator->Alloc(kKernel);
    CHECK(zone.pcp[0]->count() == 30);
    const auto movable = machine.mm.allocator->Alloc(GFP_HIGHUSER_MOVABLE);
    CHECK(zone.pcp[0]->count() == 60);  // 30 unmovable, 30 movable
    CHECK(zone.BlockType(*unmovable) == MigrateType::kUnmovable);
    CHECK(zone.BlockType(*movable) == MigrateType::kMovable);
    for (int i = 0; i < 30; ++i) {
      const auto n = machine.mm.allocator->Alloc(kKernel);
      if (zone.BlockType(*n) != MigrateType::kUnmovable) FAIL_CHECK("type of page " << i);
    }
    CHECK(zone.pcp[0]->count() == 30);
  });
}

TEST_CASE("Pcp: a list of high 0 hands every page on", "[mm][pcp]") {
  AllocMachine machine({.node_mib = {1024}});
  Zone& dma = machine.ZoneAt(0, "DMA");
  CHECK(dma.pcp[0]->high() == 0);
  CHECK(dma.pcp[0]->batch() == 1);
  machine.Run([&] {
    const std::int64_t before = machine.Free(dma);
    const auto n = machine.mm.allocator->Alloc(GFP_KERNEL | __GFP_DMA);
    CHECK(machine.Free(dma) == before - 1);
    machine.mm.allocator->Free(*n, 0, false);
    CHECK(machine.Free(dma) == before);
  });
}

// Mutation tried: NoteBuddyFree() in PutToPcp() instead of the spill.
TEST_CASE("Pcp: only a free into the buddy makes a zone worth scanning again",
          "[mm][pcp][spec:throttle-10]") {
  AllocMachine machine({.node_mib = {1024}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  const auto hopeless = [&zone] {
    return zone.Has(kZoneAllUnreclaimable) && zone.pages_scanned.load() == 77;
  };
  machine.Run([&] {
    const std::vector<FrameNo> pages = Allocate(machine, 186);
    const auto block = machine.mm.allocator->Alloc(GFP_KERNEL, 1);
    zone.pages_scanned = 77;
    zone.flags = kZoneAllUnreclaimable | kZoneOomLocked;
    for (std::size_t i = 0; i < 185; ++i) machine.mm.allocator->Free(pages[i], 0, false);
    CHECK(hopeless());
    machine.mm.allocator->Free(pages[185], 0, false);  // spills
    CHECK_FALSE(zone.Has(kZoneAllUnreclaimable));
    CHECK(zone.pages_scanned.load() == 0);
    CHECK(zone.Has(kZoneOomLocked));
    zone.pages_scanned = 77;
    zone.flags = kZoneAllUnreclaimable;
    machine.mm.allocator->Free(*block, 1, false);
    CHECK_FALSE(zone.Has(kZoneAllUnreclaimable));
    CHECK(zone.pages_scanned.load() == 0);
  });
}

TEST_CASE("Pcp: draining returns every page, local and of all CPUs", "[mm][pcp]") {
  AllocMachine machine({.node_mib = {512, 512}, .cpus = 2});
  std::int64_t before = machine.mm.vmstat->Global(ZoneStat::kNrFreePages);
  int turn = 0;
  for (int cpu = 0; cpu < 2; ++cpu) {
    CpuMask only;
    only.set(static_cast<std::size_t>(cpu));
    machine.engine.Spawn({.name = "test", .allowed = only}, [&, cpu] {
      const auto n = machine.mm.allocator->Alloc(GFP_KERNEL);
      machine.mm.allocator->Free(*n, 0, false);
      ++turn;
      while (turn < 2) Charge({1000});
      if (cpu == 0) {
        SleepFor({1'000'000});
        machine.mm.allocator->DrainLocal();
        for (const auto& zone : machine.mm.zones) CHECK(zone->pcp[0]->count() == 0);
        std::int64_t others = 0;
        for (const auto& zone : machine.mm.zones) others += zone->pcp[1]->count();
        CHECK(others == 31);
        machine.mm.allocator->DrainAll();
      }
    });
  }
  machine.engine.Run();
  std::int64_t after = 0;
  for (const auto& zone : machine.mm.zones) after += machine.Free(*zone);
  CHECK(after == before);
  CHECK(machine.mm.CheckInvariants(true).empty());
}

TEST_CASE("Pcp: a remote list idle for three ticks is drained, the own node's stays", "[mm][pcp]") {
  AllocMachine machine({.node_mib = {512, 512}, .cpus = 2});
  Zone& own = machine.ZoneAt(0, "DMA32");
  Zone& remote = machine.ZoneAt(1, "DMA32");
  machine.Run([&] {
    PageAllocator& allocator = *machine.mm.allocator;
    for (const int node : {0, 1}) {
      const auto n = allocator.Alloc(GFP_KERNEL, 0, node);
      allocator.Free(*n, 0, false);
    }
    CHECK(own.pcp[0]->count() == 31);
    CHECK(remote.pcp[0]->count() == 31);
    allocator.TickCpu();  // folds: the zone was active
    allocator.TickCpu();
    CHECK(remote.pcp[0]->count() == 31);
    allocator.TickCpu();
    CHECK(remote.pcp[0]->count() == 0);
    CHECK(own.pcp[0]->count() == 31);
  });
}

TEST_CASE("Pcp: a service CPU goes to the buddy", "[mm][pcp]") {
  AllocMachine machine({.node_mib = {512}, .service_cpus = 1});
  CpuMask only;
  only.set(1);
  const std::int64_t before = machine.mm.vmstat->Global(ZoneStat::kNrFreePages);
  machine.engine.Spawn({.name = "device", .allowed = only}, [&] {
    const auto n = machine.mm.allocator->Alloc(GFP_ATOMIC);
    CHECK(machine.mm.vmstat->Global(ZoneStat::kNrFreePages) == before - 1);
    machine.mm.allocator->Free(*n, 0, true);
    CHECK(machine.mm.vmstat->Global(ZoneStat::kNrFreePages) == before);
  });
  machine.engine.Run();
  CHECK(machine.mm.CheckInvariants(true).empty());
}

}  // namespace
}  // namespace pagestorm::mm
