// What do the page allocator's hot paths cost the host?
//
// BM_PageAllocator_Pair: one order-0 page taken and given back, with watermark check, NUMA counters
// and events, on each CPU at once. Expected: flat from 1 to 2 CPUs, since nothing is shared until a
// batch moves; the time is that of one pair on one CPU. Modelled costs are zero, else the threads
// engine would pause to pay them. BM_PageAllocator_Batch: 31 * 8 pages taken, then given back: a
// refill and a spill every 31 pages. BM_Buddy_SplitMerge: one frame off a block of the highest
// order and back: ten splits, ten merges. BM_WatermarkCheck: the lock-free check alone. BM_Boot:
// every frame of a machine written and the lists strung. per_op is by the wall clock, cpu_ns by the
// host thread's own, the best of three; fairness is
// the slowest CPU's pace over the fastest one's, the worst of three. Debian's benchmark library is
// a debug build; the loops here are inside one iteration, so it does not matter.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

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
#include "mm/buddy.h"
#include "mm/memory_manager.h"
#include "mm/page_alloc.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kLongest = 1e9;  // seconds

MmConfig Memory(int nodes, std::int64_t gib) {
  numa::MemoryMapOptions map;
  for (int i = 0; i < nodes; ++i) map.nodes.push_back({.id = {i}, .bytes = gib << 30});
  MmConfig config;
  config.map = numa::BuildMemoryMap(map).value();
  config.stamps = false;
  config.costs = {};
  config.costs.pcp_op_ns = config.costs.buddy_op_ns = config.costs.watermark_ns = 0;
  return config;
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

struct Bench {
  Bench(EngineKind kind, int cpus, int nodes = 1, std::int64_t gib = 1)
      : scheduler(kind, kMillisecond), engine(MakeEngine(kind, Cpus(cpus), scheduler)) {
    mm = MemoryManager::BootForTest(*engine, Memory(nodes, gib)).value();
  }
  static EngineConfig Cpus(int count) {
    EngineConfig config;
    for (int i = 0; i < count; ++i) config.cpus.push_back({.node = {0}, .host_cpu = i});
    return config;
  }
  // Runs `loop` on every CPU at once. Returns the seconds of the slowest, without start-up;
  // cpu_seconds is its host thread's own time, which counts on a host that has other things to do.
  double RunOnAll(const std::function<void()>& loop) {
    const std::size_t cpus = engine->online_cpus();
    std::vector<double> seconds(cpus, 0);
    std::vector<double> own(cpus, 0);
    std::atomic<std::size_t> ready{0};
    for (std::size_t cpu = 0; cpu < cpus; ++cpu) {
      CpuMask only;
      only.set(cpu);
      engine->Spawn({.name = "bench", .allowed = only}, [&, cpu] {
        loop();  // warm
        ++ready;
        while (ready < cpus) CondResched();
        const double busy = ThreadSeconds();
        const auto start = Clock::now();
        loop();
        seconds[cpu] = std::chrono::duration<double>(Clock::now() - start).count();
        own[cpu] = ThreadSeconds() - busy;
      });
    }
    PS_CHECK(engine->Run().end == RunEnd::kDone);
    cpu_seconds = *std::max_element(own.begin(), own.end());
    fairness = *std::min_element(seconds.begin(), seconds.end()) /
               *std::max_element(seconds.begin(), seconds.end());
    return *std::max_element(seconds.begin(), seconds.end());
  }
  double cpu_seconds = 0;
  double fairness = 1;  // the slowest CPU's pace over the fastest one's

  FifoScheduler scheduler;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<MemoryManager> mm;
};

EngineKind Kind(const benchmark::State& state) {
  return state.range(0) == 0 ? EngineKind::kVirtual : EngineKind::kThreads;
}

void PerOperation(benchmark::State& state, double operations, double cpu_seconds, double fairness) {
  state.counters["fairness"] = fairness;
  state.counters["cpu_ns"] = cpu_seconds * 1e9 / operations;
  state.counters["per_op"] = benchmark::Counter(
      operations, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_PageAllocator_Pair(benchmark::State& state) {
  constexpr int kPairs = 2'000'000;
  double cpu_seconds = kLongest;
  double fairness = 1;
  for (auto _ : state) {
    Bench bench(Kind(state), static_cast<int>(state.range(1)));
    PageAllocator& allocator = *bench.mm->allocator;
    state.SetIterationTime(bench.RunOnAll([&] {
      for (int i = 0; i < kPairs; ++i) allocator.Free(*allocator.Alloc(GFP_KERNEL), 0, false);
    }));
    cpu_seconds = std::min(cpu_seconds, bench.cpu_seconds);
    fairness = std::min(fairness, bench.fairness);
    PS_CHECK(bench.mm->CheckInvariants(true).empty());
  }
  PerOperation(state, kPairs, cpu_seconds, fairness);
}
BENCHMARK(BM_PageAllocator_Pair)
    ->ArgNames({"threads", "cpus"})
    ->ArgsProduct({{0}, {1}})
    ->ArgsProduct({{1}, {1, 2}})
    ->UseManualTime()
    ->Iterations(3);

void BM_PageAllocator_Batch(benchmark::State& state) {
  constexpr int kRounds = 4000;
  constexpr int kPages = 31 * 8;
  double cpu_seconds = kLongest;
  double fairness = 1;
  for (auto _ : state) {
    Bench bench(Kind(state), static_cast<int>(state.range(1)));
    PageAllocator& allocator = *bench.mm->allocator;
    state.SetIterationTime(bench.RunOnAll([&] {
      std::vector<FrameNo> pages(kPages);
      for (int i = 0; i < kRounds; ++i) {
        for (FrameNo& n : pages) n = *allocator.Alloc(GFP_KERNEL);
        for (const FrameNo n : pages) allocator.Free(n, 0, false);
      }
    }));
    cpu_seconds = std::min(cpu_seconds, bench.cpu_seconds);
    fairness = std::min(fairness, bench.fairness);
  }
  PerOperation(state, static_cast<double>(kRounds) * kPages, cpu_seconds, fairness);
}
BENCHMARK(BM_PageAllocator_Batch)
    ->ArgNames({"threads", "cpus"})
    ->ArgsProduct({{1}, {1, 2}})
    ->UseManualTime()
    ->Iterations(3);

void BM_Buddy_SplitMerge(benchmark::State& state) {
  constexpr int kPairs = 200'000;
  double cpu_seconds = kLongest;
  double fairness = 1;
  for (auto _ : state) {
    Bench bench(Kind(state), 1);
    Zone& zone = *bench.mm->zones.back();
    state.SetIterationTime(bench.RunOnAll([&] {
      // With only whole blocks free, every frame costs the full way down and up.
      BuddyWork work;
      std::vector<std::pair<FrameNo, int>> small;
      const SpinGuard guard(zone.lock);
      for (int order = 0; order < kMaxOrder; ++order) {
        const FreeArea& area = zone.free_area[static_cast<std::size_t>(order)];
        while (area.list[static_cast<std::size_t>(MigrateType::kMovable)].size() > 0) {
          small.emplace_back(
              TakeBlockLocked(zone, order, MigrateType::kMovable, FrameState::kInUse, work), order);
        }
      }
      for (int i = 0; i < kPairs; ++i) {
        PutBlockLocked(zone,
                       TakeBlockLocked(zone, 0, MigrateType::kMovable, FrameState::kInUse, work), 0,
                       work);
      }
      for (const auto& [n, order] : small) PutBlockLocked(zone, n, order, work);
    }));
    cpu_seconds = std::min(cpu_seconds, bench.cpu_seconds);
    fairness = std::min(fairness, bench.fairness);
  }
  PerOperation(state, kPairs, cpu_seconds, fairness);
}
BENCHMARK(BM_Buddy_SplitMerge)->ArgName("threads")->Arg(0)->UseManualTime()->Iterations(3);

void BM_WatermarkCheck(benchmark::State& state) {
  const Bench bench(EngineKind::kVirtual, 1);
  const Zone& zone = *bench.mm->zones.back();
  const auto order = static_cast<int>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        bench.mm->allocator->WatermarkOk(zone, order, zone.watermark.low, 1, 0));
  }
}
BENCHMARK(BM_WatermarkCheck)->ArgName("order")->Arg(0)->Arg(3);

void BM_Boot(benchmark::State& state) {
  for (auto _ : state) {
    const Bench bench(EngineKind::kVirtual, 1, static_cast<int>(state.range(0)), state.range(1));
    benchmark::DoNotOptimize(bench.mm->vm_total_pages());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_GiB"] = static_cast<double>(usage.ru_maxrss) / (1 << 20);
}
BENCHMARK(BM_Boot)
    ->ArgNames({"nodes", "gib"})
    ->Args({2, 8})
    ->Args({4, 256})
    ->Iterations(1)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pagestorm::mm
