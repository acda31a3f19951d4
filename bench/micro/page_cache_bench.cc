// What do hits in the page cache cost the host?
//
// BM_PageCache_ReadHit: ReadFilePage of a cached page in order (`pages` of them, round and round),
// with the mark for the LRU; expected: one spin lock and a few atomics, flat until the index leaves
// the cache.
//
// BM_PageCache_WriteHit: WriteFilePage of a cached page. redirty = 1: the page is dirty already;
// 0: it is clean, so that it is counted and tagged as well.
//
// One emulated CPU, virtual engine, release build; the benchmark runs inside a task.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>

#include "core/check.h"
#include "core/fifo_scheduler.h"
#include "core/virtual_engine.h"
#include "mm/file_io.h"
#include "mm/page_cache.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {
namespace {

// A machine of one CPU and 512 MiB, of which a task is timed.
struct Bench {
  Bench() : scheduler(EngineKind::kVirtual, kMillisecond), engine(Config(), scheduler) {
    numa::MemoryMapOptions map;
    map.nodes.push_back({.id = {0}, .bytes = std::int64_t{512} << 20});
    MmConfig config;
    config.map = numa::BuildMemoryMap(map).value();
    // The time that pages take on the disk is not what is measured; nor may 30 s of emulated time
    // pass.
    config.disk = {.positioning_ns = 0, .bytes_per_second = std::int64_t{1} << 40};
    config.policy.dirty = {.dirty_background_ratio = 90, .dirty_ratio = 95};
    config.device_cpus.set(1);
    mm = MemoryManager::Boot(engine, config).value();
  }
  static EngineConfig Config() {
    EngineConfig config;
    config.cpus = {{.node = {0}}, {.node = {0}, .kind = CpuKind::kService}};
    return config;
  }
  void Run(std::function<void(File&)> body, std::int64_t pages) {
    File& file = mm->page_cache->CreateFile({pages});
    mm->StartDaemons();
    engine.Spawn({.name = "bench"}, [&file, body = std::move(body)] { body(file); });
    engine.Run();
  }

  FifoScheduler scheduler;
  VirtualEngine engine;
  std::unique_ptr<MemoryManager> mm;
};

void BM_PageCache_ReadHit(benchmark::State& state) {
  Bench bench;
  const auto pages = static_cast<std::uint32_t>(state.range(0));
  std::int64_t wrong = 0;
  bench.Run(
      [&](File& file) {
        OpenFile open(file);
        for (std::uint32_t page = 0; page < pages; ++page) {
          static_cast<void>(WriteFilePage(*bench.mm, open, page, page + 1));
        }
        std::uint32_t page = 0;
        for (auto _ : state) {
          std::uint64_t stamp = 0;
          static_cast<void>(ReadFilePage(*bench.mm, open, page, &stamp));
          wrong += stamp != page + 1 ? 1 : 0;
          page = page + 1 == pages ? 0 : page + 1;
        }
      },
      pages);
  PS_CHECK(wrong == 0);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_PageCache_ReadHit)->ArgName("pages")->Arg(1 << 10)->Arg(1 << 15);

void BM_PageCache_WriteHit(benchmark::State& state) {
  Bench bench;
  constexpr std::uint32_t kPages = 1 << 13;
  const bool redirty = state.range(0) != 0;
  bench.Run(
      [&](File& file) {
        OpenFile open(file);
        PageCache& cache = *bench.mm->page_cache;
        const auto fill = [&] {
          for (std::uint32_t page = 0; page < kPages; ++page) {
            std::uint64_t stamp = 0;
            static_cast<void>(redirty ? WriteFilePage(*bench.mm, open, page, 1)
                                      : ReadFilePage(*bench.mm, open, page, &stamp));
          }
        };
        fill();
        std::uint32_t page = 0;
        for (auto _ : state) {
          static_cast<void>(WriteFilePage(*bench.mm, open, page, 2));
          if (++page < kPages) continue;
          page = 0;
          if (redirty) continue;
          state.PauseTiming();
          cache.Truncate(file);
          fill();
          state.ResumeTiming();
        }
        PS_CHECK(cache.dirty_pages() > 0);
      },
      kPages);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_PageCache_WriteHit)->ArgName("redirty")->Arg(1)->Arg(0);

}  // namespace
}  // namespace pagestorm::mm
