// What do reclaim's hot paths cost the host?
//
// BM_Lru_IsolatePutback/lru/frames: 32 pages off the inactive tail and back to its head, as reclaim
// does it; the time is that of one page, with a list of so many frames. lru: 0 locked, 1 ring,
// 2 clock. Expected: locked below 30 ns at 2^14, more at 2^18, where every page is a cache miss;
// the ring has more atomic operations, and prefetches nothing.
// BM_Lru_Threads/lru/threads: the same with 2^14 frames by so many OS threads at once, wall time; a
// run of the locked list follows each, and times_locked is how many times faster. Expected: 1 for
// the locked list; the others below 1 with one thread and above 1.5 with two on two cores.
// BM_ShrinkPageList: the decision table over 32 clean file pages in use (kept), a page.
// BM_Gate_EnterLeave: the throttle's uncontended gate, a visit.
// BM_Pagevec_Add: a page on its way to the active list, flushes included.
// Virtual engine, one task, modelled costs zero; the loops are inside one iteration.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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
  explicit Bench(std::int64_t pages, LruDesign lru = LruDesign::kLocked,
                 EngineKind kind = EngineKind::kVirtual, int cpus = 1)
      : scheduler(kind, kMillisecond), engine(MakeEngine(kind, Cpus(cpus), scheduler)) {
    numa::MemoryMapOptions map;
    map.arch = numa::Arch::kIa64;
    map.nodes.push_back({.id = {0}, .bytes = (pages + pages / 2 + 16384) << 12});
    MmConfig config;
    config.map = numa::BuildMemoryMap(map).value();
    config.policy.throttle.gate = "throttle";
    config.policy.lru = lru;
    config.costs.lru_look_ns = 0;
    config.costs.lru_op_ns = config.costs.page_list_ns = config.costs.pcp_op_ns = 0;
    config.costs.buddy_op_ns = config.costs.watermark_ns = 0;
    mm = MemoryManager::Boot(*engine, std::move(config)).value();
    mm->reclaimer->set_owners(std::make_unique<InUse>());
  }
  static EngineConfig Cpus(int count) {
    EngineConfig config;
    for (int i = 0; i < count; ++i) config.cpus.push_back({.node = {0}});
    if (count > 1) config.costs.lock_ns = 0;  // real threads: nothing but what the host costs
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

LruDesign DesignOf(const benchmark::State& state) { return static_cast<LruDesign>(state.range(0)); }

void BM_Lru_IsolatePutback(benchmark::State& state) {
  const std::int64_t pages = state.range(1);
  constexpr std::int64_t kBatches = 40'000;
  for (auto _ : state) {
    Bench bench(pages, DesignOf(state));
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
BENCHMARK(BM_Lru_IsolatePutback)
    ->ArgNames({"lru", "frames"})
    ->ArgsProduct({{0, 1, 2}, {1 << 14, 1 << 18}})
    ->UseManualTime()
    ->Iterations(3);

// Wall seconds that `threads` tasks, each on a CPU and OS thread of its own, take together for
// `batches` batches each.
double ThreadsSeconds(LruDesign lru, int threads, std::int64_t batches) {
  using Clock = std::chrono::steady_clock;
  Bench bench(1 << 14, lru, EngineKind::kThreads, threads);
  bench.engine->Spawn({.name = "filler"}, [&] { bench.AddPages(1 << 14); });
  std::atomic<int> ready{0};
  std::atomic<int> filled{0};
  std::vector<Clock::time_point> begun(static_cast<std::size_t>(threads));
  std::vector<Clock::time_point> ended(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    CpuMask mask;
    mask.set(static_cast<std::size_t>(i));
    const auto slot = static_cast<std::size_t>(i);
    bench.engine->Spawn({.name = "bench", .allowed = mask, .cpu_hint = {i}}, [&, slot] {
      while (bench.mm->zones[0]->lru->Size(LruList::kInactiveAnon) < (1 << 14)) SleepFor({100'000});
      ready.fetch_add(1);
      while (ready.load() < threads) SleepFor({100'000});
      begun[slot] = Clock::now();
      for (std::int64_t n = 0; n < batches; ++n) IsolateAndPutBack(*bench.mm);
      ended[slot] = Clock::now();
      filled.fetch_add(1);
    });
  }
  PS_CHECK(bench.engine->Run().end == RunEnd::kDone && filled.load() == threads);
  const auto first = *std::min_element(begun.begin(), begun.end());
  const auto last = *std::max_element(ended.begin(), ended.end());
  return std::chrono::duration<double>(last - first).count();
}

void BM_Lru_Threads(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(1));
  constexpr std::int64_t kBatches = 20'000;
  double design = 0;
  double locked = 0;
  for (auto _ : state) {
    const double seconds = ThreadsSeconds(DesignOf(state), threads, kBatches);
    state.SetIterationTime(seconds);
    design += seconds;
    locked += ThreadsSeconds(LruDesign::kLocked, threads, kBatches);
  }
  state.SetItemsProcessed(state.iterations() * threads * kBatches * kSwapClusterMax);
  state.counters["times_locked"] = locked / design;
}
BENCHMARK(BM_Lru_Threads)
    ->ArgNames({"lru", "threads"})
    ->ArgsProduct({{0, 1, 2}, {1, 2}})
    ->UseManualTime()
    ->Iterations(5);

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
