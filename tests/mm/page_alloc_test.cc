#include "mm/page_alloc.h"

#include <catch2/catch.hpp>
#include <vector>

#include "mm/oom.h"
#include "tests/support/alloc_machine.h"

namespace pagestorm::mm {
namespace {

using testing::AllocMachine;
using testing::AllocMachineOptions;

constexpr int kNormal = 2;  // zone index and class of x86-64

// An OOM killer that kills nobody: it gives back 512 pages a call, less than any watermark.
class FakeOom final : public OomKiller {
 public:
  FakeOom(AllocMachine& machine, AllocMachine::Blocks blocks)
      : machine_(machine), blocks_(std::move(blocks)) {}
  bool TryLockZones(std::span<Zone* const>) override {
    ++lock_tries;
    return !locked_elsewhere || --refusals < 0;
  }
  void UnlockZones(std::span<Zone* const>) override { ++unlocks; }
  void OutOfMemory(std::span<Zone* const>, Gfp, int) override {
    ++calls;
    const auto& [n, order] = blocks_[given_ / 2];  // the first ones are the largest
    PS_CHECK(order == kMaxOrder);
    machine_.PutBlock(n + (given_ % 2 == 0 ? 0 : 512), kMaxOrder - 1);
    machine_.Fold();
    ++given_;
  }
  [[nodiscard]] bool OutOfMemoryIn(MemCgroup&, Gfp) override { return false; }
  [[nodiscard]] std::int64_t kills() const override { return 0; }
  void AllocationFailure(Gfp, int) override { ++failures; }
  [[nodiscard]] std::string ShowMem() const override { return {}; }
  [[nodiscard]] bool panicked() const override { return false; }
  [[nodiscard]] MmStruct* TakeSpace(TaskMm&) override { return nullptr; }
  void AddTask(TaskMm&) override {}
  void RemoveTask(TaskMm&) override {}
  [[nodiscard]] std::vector<Snapshot> snapshots() const override { return {}; }

  int calls = 0, failures = 0, lock_tries = 0, unlocks = 0, refusals = 0;
  bool locked_elsewhere = false;

 private:
  AllocMachine& machine_;
  AllocMachine::Blocks blocks_;
  std::size_t given_ = 0;
};

AllocMachineOptions Uma() { return {.node_mib = {1024}, .cpus = 2}; }

bool Served(AllocMachine& machine, Gfp gfp, Mark mark, std::uint32_t flags, Zone& zone) {
  const auto n = machine.mm.allocator->WalkFreeLists(gfp, 0, 0, mark, flags);
  return n.has_value() && &machine.mm.ZoneOf(*n) == &zone;
}

// Mutations tried: >= instead of > in the check; free without the plus one.
TEST_CASE("PageAllocator: a walk at LOW takes DMA32 with 1251 free pages and not with 1250",
          "[mm][page_alloc][spec:throttle-3]") {
  const std::int64_t free = GENERATE(1250, 1251);
  AllocMachine machine(Uma());
  machine.Run([&] {
    Zone& dma32 = machine.ZoneAt(0, "DMA32");
    machine.LeaveFree(dma32, free);
    CHECK(Served(machine, GFP_KERNEL, Mark::kLow, 0, dma32) == (free == 1251));
  });
}

TEST_CASE("PageAllocator: at MIN the DMA zone needs 1010 free pages for a kernel request",
          "[mm][page_alloc][spec:throttle-3]") {
  const std::int64_t free = GENERATE(1009, 1010);
  AllocMachine machine(Uma());
  machine.Run([&] {
    machine.LeaveFree(machine.ZoneAt(0, "DMA32"), 0);
    Zone& dma = machine.ZoneAt(0, "DMA");
    machine.LeaveFree(dma, free);
    CHECK(Served(machine, GFP_KERNEL, Mark::kMin, 0, dma) == (free == 1010));
  });
}

// Mutation tried: HARDER applied to the original mark instead of what HIGH left.
TEST_CASE("PageAllocator: HIGH and HARDER lower the mark to a half and three quarters",
          "[mm][page_alloc][spec:throttle-4]") {
  struct Row {
    std::uint32_t flags;
    std::int64_t accepted;
  };
  const auto row = GENERATE(Row{kAllocHigh | kAllocHarder, 376}, Row{kAllocHigh, 501},
                            Row{kAllocHarder, 751}, Row{0, 1001});
  const std::int64_t short_by = GENERATE(0, 1);
  AllocMachine machine(Uma());
  machine.Run([&] {
    Zone& dma32 = machine.ZoneAt(0, "DMA32");
    machine.LeaveFree(dma32, row.accepted - short_by);
    CHECK(machine.mm.allocator->WatermarkOk(dma32, 0, dma32.watermark.min, 1, row.flags) ==
          (short_by == 0));
    CHECK(Served(machine, GFP_KERNEL, Mark::kMin, row.flags, dma32) == (short_by == 0));
  });
}

TEST_CASE(
    "PageAllocator: in (b) a class-2 request cannot use N0 DMA, and N0 DMA32 only from 5053 on",
    "[mm][page_alloc][spec:throttle-5]") {
  AllocMachine machine({.node_mib = {8192, 8192}, .cpus = 8});
  const PageAllocator& allocator = *machine.mm.allocator;
  Zone& dma = machine.ZoneAt(0, "DMA");
  CHECK_FALSE(allocator.WatermarkOk(dma, 0, dma.watermark.min, kNormal, 0));
  CHECK_FALSE(allocator.WatermarkOk(dma, 0, 0, kNormal, kAllocHigh | kAllocHarder));
  CHECK(allocator.WatermarkOk(dma, 0, dma.watermark.min, 0, 0));  // though every page is free
  machine.Run([&] {
    Zone& dma32 = machine.ZoneAt(0, "DMA32");
    machine.LeaveFree(dma32, 5053);
    CHECK(allocator.WatermarkOk(dma32, 0, dma32.watermark.min, kNormal, 0));
    machine.LeaveFree(dma32, 5052);
    CHECK_FALSE(allocator.WatermarkOk(dma32, 0, dma32.watermark.min, kNormal, 0));
  });
}

// Mutation tried: the class of the request's zone index instead.
TEST_CASE("PageAllocator: the class of a request is its first zone, wherever the walk gets to",
          "[mm][page_alloc]") {
  const int from = GENERATE(0, 1);
  AllocMachineOptions options{.node_mib = {2048, 6144}, .cpus = 2};
  options.policy.alloc.numa_zonelist_order = "node";
  AllocMachine machine(options);
  machine.Run([&] {
    Zone& dma32 = machine.ZoneAt(1, "DMA32");
    for (const auto& zone : machine.mm.zones) {
      machine.LeaveFree(*zone, zone.get() == &dma32 ? dma32.watermark.min + 1 : 0);
    }
    // Node 0 has no Normal memory, so its requests are DMA32's own and owe it no reserve.
    CHECK(dma32.lowmem_reserve[1] == 0);
    CHECK(dma32.lowmem_reserve[kNormal] > 0);
    CHECK(machine.mm.allocator->WalkFreeLists(GFP_KERNEL, 0, from, Mark::kMin, 0).has_value() ==
          (from == 0));
  });
}

// Mutations tried: min not halved per order; small blocks counted.
TEST_CASE("PageAllocator: order 3 needs blocks of order 3, not just as many pages",
          "[mm][page_alloc][spec:throttle-6]") {
  struct Row {
    std::int64_t single,
        blocks;  // free pages of order 0, free blocks of order 3: always 2104 pages
    bool accepted;
  };
  // 2097 > 2033 in any case; then 2097 - single must exceed 1016, half of min.
  const auto row =
      GENERATE(Row{2104, 0, false}, Row{0, 263, true}, Row{1080, 128, true}, Row{1088, 127, false});
  AllocMachine machine({.node_mib = {8192, 8192}, .cpus = 8});
  machine.Run([&] {
    Zone& normal = machine.ZoneAt(1, "Normal");
    const AllocMachine::Blocks taken = machine.LeaveFree(normal, 0);
    std::size_t next = 0;
    // Every other block of an order, so that none of them merge.
    const auto give = [&](int order, std::int64_t count) {
      for (; count > 0; ++next) {
        if (taken[next].second != kMaxOrder) continue;
        for (FrameNo at = 0; at < 1024 && count > 0; at += FrameNo{2} << order, --count) {
          machine.PutBlock(taken[next].first + at, order);
        }
      }
    };
    give(0, row.single);
    give(3, row.blocks);
    machine.Fold();
    CHECK(machine.Free(normal) == 2104);
    CHECK(normal.free_area[0].nr_free == row.single);
    CHECK(normal.free_area[3].nr_free == row.blocks);
    CHECK(machine.mm.allocator->WatermarkOk(normal, 3, normal.watermark.min, kNormal, 0) ==
          row.accepted);
  });
}

TEST_CASE("PageAllocator: zone index and migrate type follow the flags", "[mm][page_alloc]") {
  const AllocMachine x86({.node_mib = {64}});
  const PageAllocator& allocator = *x86.mm.allocator;
  CHECK(allocator.GfpZone(GFP_KERNEL) == 2);
  CHECK(allocator.GfpZone(GFP_KERNEL | __GFP_DMA) == 0);
  CHECK(allocator.GfpZone(GFP_KERNEL | __GFP_DMA32) == 1);
  CHECK(allocator.GfpZone(GFP_KERNEL | __GFP_MOVABLE) == 2);
  CHECK(allocator.GfpZone(GFP_HIGHUSER) == 2);
  CHECK(allocator.GfpZone(GFP_HIGHUSER_MOVABLE) == 3);
  const AllocMachine ia64({.node_mib = {64}, .arch = numa::Arch::kIa64});
  CHECK(ia64.mm.allocator->GfpZone(GFP_KERNEL) == 1);
  CHECK(ia64.mm.allocator->GfpZone(GFP_HIGHUSER_MOVABLE) == 2);
  CHECK(PageAllocator::MigrateTypeOf(GFP_KERNEL) == MigrateType::kUnmovable);
  CHECK(PageAllocator::MigrateTypeOf(GFP_KERNEL | __GFP_RECLAIMABLE) == MigrateType::kReclaimable);
  CHECK(PageAllocator::MigrateTypeOf(GFP_HIGHUSER_MOVABLE) == MigrateType::kMovable);
}

TEST_CASE("PageAllocator: events and NUMA counters say where pages came from", "[mm][page_alloc]") {
  AllocMachine machine({.node_mib = {2048, 2048}, .cpus = 2});
  const VmStat& stat = *machine.mm.vmstat;
  machine.Run([&] {
    PageAllocator& allocator = *machine.mm.allocator;
    Zone& n0 = machine.ZoneAt(0, "DMA32");
    Zone& n1 = machine.ZoneAt(1, "DMA32");
    static_cast<void>(allocator.Alloc(GFP_KERNEL, 0));     // local
    static_cast<void>(allocator.Alloc(GFP_KERNEL, 2, 1));  // asked for node 1
    machine.LeaveFree(n1, 0);
    static_cast<void>(allocator.Alloc(GFP_KERNEL, 3, 1));  // wanted node 1, got node 0
    CHECK(stat.Exact(n0.ordinal, ZoneStat::kNumaHit) == 1);
    CHECK(stat.Exact(n0.ordinal, ZoneStat::kNumaMiss) == 1);
    CHECK(stat.Exact(n0.ordinal, ZoneStat::kNumaLocal) == 2);
    CHECK(stat.Exact(n1.ordinal, ZoneStat::kNumaHit) == 1);
    CHECK(stat.Exact(n1.ordinal, ZoneStat::kNumaForeign) == 1);
    CHECK(stat.Exact(n1.ordinal, ZoneStat::kNumaOther) == 1);
  });
  CHECK(stat.Event(VmEvent::kPgallocDma32) == 1 + 4 + 8);
  CHECK(stat.Event(VmEvent::kPgallocNormal) == 0);
}

TEST_CASE("PageAllocator: a zone found full is passed over for a second", "[mm][page_alloc]") {
  AllocMachine machine({.node_mib = {2048, 2048}, .cpus = 2});
  machine.Run([&] {
    PageAllocator& allocator = *machine.mm.allocator;
    Zone& n0 = machine.ZoneAt(0, "DMA32");
    Zone& dma = machine.ZoneAt(0, "DMA");
    Zone& n1 = machine.ZoneAt(1, "DMA32");
    SleepFor({2 * kSecond.n});
    const AllocMachine::Blocks blocks = machine.LeaveFree(n0, 0);
    const AllocMachine::Blocks low = machine.LeaveFree(dma, 0);
    // From node 0: DMA32 and DMA have nothing and are noted, node 1 serves.
    CHECK(&machine.mm.ZoneOf(*allocator.WalkFreeLists(GFP_KERNEL, 1, 0, Mark::kLow, 0)) == &n1);
    for (const auto& [n, order] : low) machine.PutBlock(n, order);
    machine.Fold();
    // DMA has pages again, but is not looked at.
    CHECK(&machine.mm.ZoneOf(*allocator.WalkFreeLists(GFP_KERNEL, 1, 0, Mark::kLow, 0)) == &n1);
    // Nor is the first zone skipped because it was full.
    machine.PutBlock(blocks.front().first, blocks.front().second);
    machine.Fold();
    CHECK(&machine.mm.ZoneOf(
              *allocator.WalkFreeLists(GFP_KERNEL, 1, 0, Mark::kMin, kAllocNoWatermarks)) == &n0);
    machine.LeaveFree(n0, 0);
    SleepFor({kSecond.n + 1});
    CHECK(&machine.mm.ZoneOf(*allocator.WalkFreeLists(GFP_KERNEL, 1, 0, Mark::kLow, 0)) == &dma);
    // And when all else fails, what was skipped is tried after all.
    machine.LeaveFree(n1, 0);
    const AllocMachine::Blocks again = machine.LeaveFree(dma, 0);
    CHECK_FALSE(allocator.WalkFreeLists(GFP_KERNEL, 1, 0, Mark::kLow, 0));
    for (const auto& [n, order] : again) machine.PutBlock(n, order);
    machine.Fold();
    CHECK(&machine.mm.ZoneOf(*allocator.WalkFreeLists(GFP_KERNEL, 1, 0, Mark::kLow, 0)) == &dma);
  });
}

TEST_CASE("PageAllocator: zeroing costs time and clears the stamp", "[mm][page_alloc]") {
  AllocMachineOptions options{.node_mib = {64}, .stamps = true};
  AllocMachine machine(options);
  machine.Run([&] {
    PageAllocator& allocator = *machine.mm.allocator;
    const FrameNo n = *allocator.Alloc(GFP_KERNEL);
    machine.mm.frames.SetStamp(n, 77);
    allocator.Free(n, 0, false);
    const Ns before = Now();
    const FrameNo same = *allocator.Alloc(GFP_KERNEL | __GFP_ZERO);
    CHECK(same == n);
    CHECK(machine.mm.frames.Stamp(n) == 0);
    CHECK((Now() - before).n ==
          options.costs.watermark_ns + options.costs.pcp_op_ns + options.costs.page_zero_ns);
  });
}

TEST_CASE("PageAllocator: the last reference frees, an earlier one does not", "[mm][page_alloc]") {
  AllocMachine machine({.node_mib = {64}});
  machine.Run([&] {
    PageAllocator& allocator = *machine.mm.allocator;
    const FrameNo n = *allocator.Alloc(GFP_KERNEL);
    machine.mm.frames[n].refcount.fetch_add(1);
    allocator.PutPage(n);
    CHECK(machine.mm.frames[n].state() == FrameState::kInUse);
    allocator.PutPage(n);
    CHECK(machine.mm.frames[n].state() == FrameState::kPcp);
  });
  CHECK(machine.mm.vmstat->Event(VmEvent::kPgfree) == 1);
}

// --- the slow path ---

// Takes order-0 pages until there are none to be had. Returns how many.
std::int64_t Exhaust(AllocMachine& machine, Gfp gfp) {
  std::int64_t count = 0;
  while (machine.mm.allocator->Alloc(gfp | __GFP_NOWARN)) ++count;
  machine.Fold();
  return count;
}

// Mutations tried: step 5 without PF_MEMALLOC; without memdie; NO_WATERMARKS for everybody.
TEST_CASE("PageAllocator: the last pages are for dying and reclaiming tasks alone",
          "[mm][page_alloc][spec:throttle-28]") {
  AllocMachine machine({.node_mib = {1024}});
  machine.Run([&] {
    Zone& dma32 = machine.ZoneAt(0, "DMA32");
    const std::int64_t min = dma32.watermark.min;
    // Free counts move in batches of 31, and what the check reads lags by less than the threshold.
    const std::int64_t slack = 31 + machine.mm.vmstat->threshold(dma32.ordinal);
    machine.LeaveFree(machine.ZoneAt(0, "DMA"), 0);
    machine.LeaveFree(dma32, 3000);
    Exhaust(machine, GFP_KERNEL | __GFP_NORETRY);
    CHECK(machine.Free(dma32) <= min);
    CHECK(machine.Free(dma32) > min - slack);
    Exhaust(machine, GFP_ATOMIC);  // min/2, then three quarters of that
    CHECK(machine.Free(dma32) <= min * 3 / 8);
    CHECK(machine.Free(dma32) > min * 3 / 8 - slack);
    const std::int64_t before = machine.Free(dma32);
    Current().flags |= PF_MEMALLOC;
    CHECK_FALSE(machine.mm.allocator->Alloc(GFP_KERNEL | __GFP_NOMEMALLOC | __GFP_NOWARN));
    CHECK(machine.Free(dma32) == before);
    for (int i = 0; i < 50; ++i) CHECK(machine.mm.allocator->Alloc(GFP_KERNEL));
    Current().flags &= ~PF_MEMALLOC;
    CHECK_FALSE(machine.mm.allocator->Alloc(GFP_ATOMIC));
    Current().memdie = true;
    Exhaust(machine, GFP_KERNEL);
    CHECK(machine.Free(dma32) == 0);
    CHECK(dma32.pcp[0]->count() == 0);
    Current().memdie = false;
  });
}

// The reclaimer is absent, so every reclaim makes no progress.
struct StarvedMachine : AllocMachine {
  StarvedMachine() : AllocMachine({.node_mib = {1024}}) {}
  void Starve() {
    LeaveFree(ZoneAt(0, "DMA"), 0);
    Blocks blocks = LeaveFree(ZoneAt(0, "DMA32"), 0);
    auto fake = std::make_unique<FakeOom>(*this, std::move(blocks));
    oom = fake.get();
    mm.oom = std::move(fake);
  }
  FakeOom* oom = nullptr;
};

// Mutations tried: failing after the first OOM call; retrying order 4; the last chance at LOW.
TEST_CASE("PageAllocator: orders 0 to 3 go on until memory comes back, order 4 gives up",
          "[mm][page_alloc][spec:throttle-23]") {
  const int order = GENERATE(0, 3, 4);
  StarvedMachine machine;
  machine.Run([&] {
    machine.Starve();
    const auto n = machine.mm.allocator->Alloc(GFP_KERNEL, order);
    if (order <= 3) {
      CHECK(n.has_value());
      CHECK(machine.oom->calls == 2);  // DMA32 keeps 1000 pages for others
      CHECK(machine.oom->failures == 0);
    } else {
      CHECK_FALSE(n.has_value());
      CHECK(machine.oom->calls == 0);
      CHECK(machine.oom->failures == 1);
    }
    CHECK(machine.oom->unlocks == machine.oom->lock_tries);
  });
}

TEST_CASE("PageAllocator: NORETRY and requests that cannot wait fail without the OOM killer",
          "[mm][page_alloc]") {
  StarvedMachine machine;
  machine.Run([&] {
    machine.Starve();
    const Ns before = Now();
    CHECK_FALSE(machine.mm.allocator->Alloc(GFP_KERNEL | __GFP_NORETRY));
    CHECK_FALSE(machine.mm.allocator->Alloc(GFP_ATOMIC));
    CHECK(machine.oom->failures == 2);
    CHECK_FALSE(machine.mm.allocator->Alloc(GFP_ATOMIC | __GFP_NOWARN));
    CHECK(machine.oom->failures == 2);
    CHECK(machine.oom->calls == 0);
    CHECK(Now() - before < kMillisecond);
  });
}

// Mutation tried: the OOM path for every mask.
TEST_CASE("PageAllocator: GFP_NOFS without progress naps and never reaches the OOM killer",
          "[mm][page_alloc][spec:throttle-24]") {
  StarvedMachine machine;
  machine.Run([&] {
    machine.Starve();
    const Ns start = Now();
    // Without progress it does not even look at the free lists again, so pages freed by others do
    // not end it; being chosen to die does, after five naps of 20 ms.
    Task& waiting = Current();
    machine.engine.Spawn({.name = "giver"}, [&] {
      machine.oom->OutOfMemory({}, 0, 0);
      machine.oom->OutOfMemory({}, 0, 0);
      machine.oom->OutOfMemory({}, 0, 0);
      SleepFor({90 * kMillisecond.n});
      waiting.memdie = true;
    });
    CHECK(machine.mm.allocator->Alloc(GFP_NOFS));
    CHECK(Now() - start >= Ns{100 * kMillisecond.n});
    CHECK(Now() - start < Ns{101 * kMillisecond.n});
    CHECK(machine.oom->lock_tries == 0);
  });
}

TEST_CASE("PageAllocator: while another task looks for a victim one sleeps a jiffy and starts over",
          "[mm][page_alloc]") {
  StarvedMachine machine;
  machine.Run([&] {
    machine.Starve();
    machine.oom->locked_elsewhere = true;
    machine.oom->refusals = 3;
    const Ns start = Now();
    CHECK(machine.mm.allocator->Alloc(GFP_KERNEL));
    CHECK(Now() - start >= machine.mm.policy.Jiffy() * 3);
    CHECK(Now() - start < machine.mm.policy.Jiffy() * 3 + kMillisecond);
    CHECK(machine.oom->unlocks == machine.oom->lock_tries - 3);
  });
}

// --- both engines, several CPUs ---

// Allocates and frees blocks of random orders, on every CPU; a frame handed out twice shows in its
// owner.
void Storm(AllocMachine& machine, int cpu, int rounds) {
  Rng rng = machine.engine.seeds().Stream("storm", cpu);
  const auto me = static_cast<std::uint32_t>(cpu) + 1;
  std::vector<std::pair<FrameNo, int>> held;
  for (int i = 0; i < rounds; ++i) {
    const int order = rng.Chance(800'000) ? 0 : static_cast<int>(rng.Between(1, 4));
    if (held.size() < 1500 && rng.Chance(600'000)) {
      const Gfp gfp = (rng.Chance(500'000) ? GFP_HIGHUSER_MOVABLE : GFP_KERNEL) | __GFP_NORETRY;
      const auto node = static_cast<int>(rng.Below(machine.mm.nodes.size()));
      if (const auto n = machine.mm.allocator->Alloc(gfp | __GFP_NOWARN, order, node)) {
        for (FrameNo f = *n; f < *n + (FrameNo{1} << order); ++f) {
          PS_CHECK(machine.mm.frames[f].state() == FrameState::kInUse);
          machine.mm.frames[f].mapper = me;
        }
        held.emplace_back(*n, order);
      }
    } else if (!held.empty()) {
      std::swap(held[rng.Below(held.size())], held.back());
      const auto [n, o] = held.back();
      held.pop_back();
      for (FrameNo f = n; f < n + (FrameNo{1} << o); ++f) {
        PS_CHECK(machine.mm.frames[f].mapper == me);
      }
      machine.mm.allocator->Free(n, o, rng.Chance(300'000));
    }
    if (i % 512 == 0) machine.mm.allocator->DrainAll();
    if (i % 256 == 0) machine.mm.allocator->TickCpu();
    if (i % 16 == 0) CondResched();
  }
  for (const auto& [n, order] : held) machine.mm.allocator->Free(n, order, false);
}

// Mutations tried: a drain that loses its pages; nr_free_pages not following a block's order.
void RunStorm(AllocMachineOptions options, int rounds) {
  // Zones this small would have no per-CPU lists to speak of.
  options.policy.alloc.percpu_pagelist_fraction = 100;
  AllocMachine machine(options);
  std::int64_t present = 0;
  for (const auto& zone : machine.mm.zones) present += zone->present.n;
  for (int cpu = 0; cpu < options.cpus; ++cpu) {
    CpuMask only;
    only.set(static_cast<std::size_t>(cpu));
    machine.engine.Spawn({.name = "storm", .allowed = only},
                         [&, cpu] { Storm(machine, cpu, rounds); });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.CheckInvariants(true) == "");
  CHECK(machine.mm.vmstat->Event(VmEvent::kPgfree) > 4 * rounds / 3);
  // All that is left out of the buddy waits on per-CPU lists.
  std::int64_t free = 0;
  for (const auto& zone : machine.mm.zones) {
    free += machine.Free(*zone);
    for (const auto& pcp : zone->pcp) free += pcp->count();
  }
  CHECK(free == present);
}

TEST_CASE("PageAllocator: frames are conserved under the virtual engine",
          "[mm][page_alloc][spec:throttle-22]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(take(3, random(0, 0x7fff'ffff))));
  const bool sync_in_cs = GENERATE(false, true);
  CAPTURE(seed, sync_in_cs);
  RunStorm({.node_mib = {24, 24}, .cpus = 4, .sync_in_cs = sync_in_cs, .seed = seed}, 6000);
}

TEST_CASE("PageAllocator: frames are conserved under real threads", "[mm][page_alloc][stress]") {
  AllocMachineOptions options{.kind = EngineKind::kThreads, .node_mib = {24, 24}, .cpus = 4};
  options.costs.watermark_ns = options.costs.pcp_op_ns = options.costs.buddy_op_ns = 0;
  RunStorm(options, 12'000);
}

}  // namespace
}  // namespace pagestorm::mm
