// What do faults and swap slots cost the host?
//
// BM_Fault_FirstTouch: an anonymous fault without reclaim in a node of 64 MiB: allocation, charge,
// map, LRU pagevec, counters, stamp. BM_Fault_CopyOnWrite: a write to a page shared with one forked
// child: the same, a release, and a walk of nothing. BM_Fault_Present: a write to a page that is
// mapped: the floor, one table look-up under a host lock. BM_SwapSlot_Pair: take and free a slot of
// a device half full. One emulated CPU, virtual engine, release build; the benchmark runs inside a
// task. Debian's benchmark library is a debug build: some ns of every figure are its own.
#include <benchmark/benchmark.h>

#include <array>
#include <functional>
#include <memory>

#include "core/check.h"
#include "core/fifo_scheduler.h"
#include "core/virtual_engine.h"
#include "mm/address_space.h"
#include "mm/memory_manager.h"
#include "mm/swap_slots.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {
namespace {

constexpr std::int64_t kPages = 8'192;  // touched before they are given back outside the timing

struct Bench {
  explicit Bench(std::int64_t mib = 512)
      : scheduler(EngineKind::kVirtual, kMillisecond), engine(Config(), scheduler) {
    numa::MemoryMapOptions map;
    map.nodes.push_back({.id = {0}, .bytes = mib << 20});
    MmConfig config;
    config.map = numa::BuildMemoryMap(map).value();
    config.device_cpus.set(1);
    mm = MemoryManager::Boot(engine, config).value();
  }
  static EngineConfig Config() {
    EngineConfig config;
    config.cpus = {{.node = {0}}, {.node = {0}, .kind = CpuKind::kService}};
    return config;
  }
  void Run(std::function<void()> body) {
    engine.Spawn({.name = "bench"}, std::move(body));
    PS_CHECK(engine.Run().end == RunEnd::kDone);
  }

  FifoScheduler scheduler;
  VirtualEngine engine;
  std::unique_ptr<MemoryManager> mm;
};

void Touch(AddressSpaces& spaces, MmStruct& space, std::uint32_t page) {
  PS_CHECK(spaces.Write(space, page, page) == AccessResult::kOk);
}

void BM_Fault_FirstTouch(benchmark::State& state) {
  Bench bench(64);
  bench.Run([&] {
    AddressSpaces& spaces = *bench.mm->spaces;
    MmStruct& space = *spaces.Create({});
    std::uint32_t first = spaces.MapAnon(space, kPages);
    std::uint32_t next = 0;
    for (auto _ : state) {
      if (next == kPages) {
        state.PauseTiming();
        spaces.Unmap(space, first, kPages);
        first = spaces.MapAnon(space, kPages);
        next = 0;
        state.ResumeTiming();
      }
      Touch(spaces, space, first + next++);
    }
    spaces.Destroy(&space);
  });
}
BENCHMARK(BM_Fault_FirstTouch);

void BM_Fault_CopyOnWrite(benchmark::State& state) {
  Bench bench;
  bench.Run([&] {
    AddressSpaces& spaces = *bench.mm->spaces;
    MmStruct& parent = *spaces.Create({});
    const std::uint32_t first = spaces.MapAnon(parent, kPages);
    for (std::uint32_t i = 0; i < kPages; ++i) Touch(spaces, parent, first + i);
    MmStruct* child = spaces.Fork(parent, {});
    std::uint32_t next = 0;
    for (auto _ : state) {
      if (next == kPages) {
        state.PauseTiming();
        spaces.Destroy(child);
        child = spaces.Fork(parent, {});
        next = 0;
        state.ResumeTiming();
      }
      Touch(spaces, *child, first + next++);
    }
    spaces.Destroy(child);
    spaces.Destroy(&parent);
  });
}
BENCHMARK(BM_Fault_CopyOnWrite);

void BM_Fault_Present(benchmark::State& state) {
  Bench bench;
  bench.Run([&] {
    AddressSpaces& spaces = *bench.mm->spaces;
    MmStruct& space = *spaces.Create({});
    const std::uint32_t first = spaces.MapAnon(space, 64);
    for (std::uint32_t i = 0; i < 64; ++i) Touch(spaces, space, first + i);
    std::uint32_t next = 0;
    for (auto _ : state) Touch(spaces, space, first + (next++ & 63));
    spaces.Destroy(&space);
  });
}
BENCHMARK(BM_Fault_Present);

void BM_SwapSlot_Pair(benchmark::State& state) {
  Bench bench;
  SwapSlots slots(bench.engine, std::array{SwapSlots::Device{.slots = 65'536}}, {200});
  bench.Run([&] {
    for (int i = 0; i < 32'768; ++i) PS_CHECK(slots.Alloc().has_value());
    for (auto _ : state) slots.Free(slots.Alloc().value());
  });
  PS_CHECK(slots.CheckInvariants().empty());
}
BENCHMARK(BM_SwapSlot_Pair);

}  // namespace
}  // namespace pagestorm::mm
