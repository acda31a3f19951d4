// What do reclaim's hot paths cost the host?
//
// BM_Lru_IsolatePutback/frames: 32 pages off the inactive tail and back to its head, lru_lock taken
// as reclaim takes it; the time is that of one page, with a list of so many frames. Expected: below
// 40 ns at 2^14, more at 2^18, where every page is a cache miss.
// BM_ShrinkPageList: the decision table over 32 clean file pages in use (kept), a page.
// BM_Gate_EnterLeave: the throttle's uncontended gate, a visit.
// BM_Pagevec_Add: a page on its way to the active list, flushes included.
// Virtual engine, one task, modelled costs zero; the loops are inside one iteration.
#include <benchmark/benchmark.h>

#include <ctime>
#include <functional>
#include <memory>
#include <vector>

#include "core/check.h"
#include "core/fifo_scheduler.h"
#include "core/make_engine.h"
#include "mm/lru.h"
#include "mm/memory_manager.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/reclaim.h"
#include "mm/shrink_list.h"
#include "mm/throttle.h"
#include "mm/zone.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {
namespace {

// CPU time of the process, which has one busy thread: other load on the host does not count.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Pages of a file that is in use: the whole table is walked, and every page kept.
class InUse final : public PageOwners {
 public:
  int Referenced(FrameNo, bool) override { return 0; }
  bool HasMapping(FrameNo) override { return true; }
  bool AddToSwapLocked(FrameNo) override { return false; }
  UnmapResult TryToUnmapLocked(FrameNo) override { return UnmapResult::kSuccess; }
  WriteResult WriteLocked(FrameNo) override { return WriteResult::kNoOp; }
  bool RemoveMappingLocked(FrameNo) override { return false; }
};

struct Bench {
  explicit Bench(std::int64_t pages)
      : scheduler(EngineKind::kVirtual, kMillisecond),
        engine(MakeEngine(EngineKind::kVirtual, OneCpu(), scheduler)) {
    numa::MemoryMapOptions map;
    map.arch = numa::Arch::kIa64;
    map.nodes.push_back({.id = {0}, .bytes = (pages + pages / 2 + 16384) << 12});
    MmConfig config;
    config.map = numa::BuildMemoryMap(map).value();
    config.policy.throttle.gate = "throttle";
    config.costs.lru_op_ns = config.costs.page_list_ns = config.costs.pcp_op_ns = 0;
    config.costs.buddy_op_ns = config.costs.watermark_ns = 0;
    mm = MemoryManager::Boot(*engine, std::move(config)).value();
    mm->reclaimer->set_owners(std::make_unique<InUse>());
  }
  static EngineConfig OneCpu() {
    EngineConfig config;
    config.cpus.push_back({.node = {0}});
    return config;
  }
  void AddPages(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto n = mm->allocator->Alloc(GFP_HIGHUSER_MOVABLE);
      PS_CHECK(n.has_value());
      mm->pagevecs->Add(*n);
    }
    mm->pagevecs->DrainAll();
  }
  // Seconds that `loop` takes in a task after `prepare`.
  double Time(const std::function<void()>& prepare, const std::function<void()>& loop) {
    double seconds = 0;
    engine->Spawn({.name = "bench"}, [&] {
      prepare();
      const double start = CpuSeconds();
      loop();
      seconds = CpuSeconds() - start;
    });
    PS_CHECK(engine->Run().end == RunEnd::kDone);
    return seconds;
  }

  FifoScheduler scheduler;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<MemoryManager> mm;
};

void IsolateAndPutBack(MemoryManager& mm) {
  Zone& zone = *mm.zones[0];
  IsolatedBatch batch(mm, zone);
  zone.lru->Isolate(kSwapClusterMax, LruList::kInactiveAnon, 0, IsolateMode::kInactive,
                    batch.entries);
  batch.PutBack();
}

void BM_Lru_IsolatePutback(benchmark::State& state) {
  const std::int64_t pages = state.range(0);
  constexpr std::int64_t kBatches = 40'000;
  for (auto _ : state) {
    Bench bench(pages);
    const double seconds = bench.Time([&] { bench.AddPages(pages); },
                                      [&] {
                                        for (std::int64_t i = 0; i < kBatches; ++i) {
                                          IsolateAndPutBack(*bench.mm);
                                        }
                                      });
    state.SetIterationTime(seconds);
  }
  state.SetItemsProcessed(state.iterations() * kBatches * kSwapClusterMax);
}
BENCHMARK(BM_Lru_IsolatePutback)->Arg(1 << 14)->Arg(1 << 18)->UseManualTime()->Iterations(3);

void BM_ShrinkPageList(benchmark::State& state) {
  constexpr std::int64_t kBatches = 20'000;
  for (auto _ : state) {
    Bench bench(1 << 14);
    state.SetIterationTime(bench.Time([&] { bench.AddPages(1 << 14); },
                                      [&] {
                                        ScanControl sc;
                                        bench.mm->reclaimer->ShrinkInactive(
                                            kBatches * kSwapClusterMax, *bench.mm->zones[0],
                                            LruList::kInactiveAnon, sc, 12);
                                      }));
  }
  state.SetItemsProcessed(state.iterations() * kBatches * kSwapClusterMax);
}
BENCHMARK(BM_ShrinkPageList)->UseManualTime()->Iterations(3);

void BM_Gate_EnterLeave(benchmark::State& state) {
  constexpr std::int64_t kVisits = 1'000'000;
  for (auto _ : state) {
    Bench bench(1 << 10);
    state.SetIterationTime(bench.Time([] {},
                                      [&] {
                                        ScanControl sc{.may_cut_off = true};
                                        Zone& zone = *bench.mm->zones[0];
                                        for (std::int64_t i = 0; i < kVisits; ++i) {
                                          Gate::Ticket ticket;
                                          bench.mm->gate->Enter(zone, sc, ticket);
                                          bench.mm->gate->Leave(zone, sc, ticket);
                                        }
                                      }));
  }
  state.SetItemsProcessed(state.iterations() * kVisits);
}
BENCHMARK(BM_Gate_EnterLeave)->UseManualTime()->Iterations(3);

void BM_Pagevec_Add(benchmark::State& state) {
  const std::int64_t pages = state.range(0);
  for (auto _ : state) {
    Bench bench(pages);
    std::vector<FrameNo> frames;
    state.SetIterationTime(bench.Time(
        [&] {
          for (std::int64_t i = 0; i < pages; ++i) {
            frames.push_back(bench.mm->allocator->Alloc(GFP_HIGHUSER_MOVABLE).value());
          }
        },
        [&] {
          for (const FrameNo n : frames) bench.mm->pagevecs->AddActive(n);
        }));
  }
  state.SetItemsProcessed(state.iterations() * pages);
}
BENCHMARK(BM_Pagevec_Add)->Arg(1 << 18)->UseManualTime()->Iterations(3);

}  // namespace
}  // namespace pagestorm::mm
