// What does the host itself cost? The floors that tools/performance sets every hot path against,
// measured in the same rounds.
//
// BM_Floor_AtomicRmw: a fetch_add on a line this core owns. BM_Floor_CompareExchange: the same by
// compare and exchange. BM_Floor_LineHandOver: a line that two host threads write in turn; the time
// is one way. BM_Floor_DramMiss/huge: a dependent load somewhere in 512 MiB, with huge pages asked
// for (1) or refused (0). BM_Floor_Loop: the benchmark library's own loop, which is in every figure
// of a loop "for (auto _ : state)". The loops of the others are inside one iteration and are timed
// by hand.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/rng.h"

namespace pagestorm {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void PerOperation(benchmark::State& state, double operations) {
  state.counters["per_op"] = benchmark::Counter(
      operations, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// A second thread lives meanwhile: glibc's single-threaded shortcuts would flatter the floor.
class Company {
 public:
  Company() : thread_([this] { done_.wait(false); }) {}
  ~Company() {
    done_ = true;
    done_.notify_one();
    thread_.join();
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

void BM_Floor_Loop(benchmark::State& state) {
  for (auto _ : state) benchmark::ClobberMemory();
}
BENCHMARK(BM_Floor_Loop);

// Times operation(word, i) on one word, with a second thread in the process.
template <class Operation>
void TimeOwned(benchmark::State& state, Operation operation) {
  constexpr std::uint64_t kOperations = 20'000'000;
  const Company company;
  for (auto _ : state) {
    std::atomic<std::uint64_t> word{0};
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < kOperations; ++i) operation(word, i);
    state.SetIterationTime(SecondsSince(start));
  }
  PerOperation(state, static_cast<double>(kOperations));
}

void BM_Floor_AtomicRmw(benchmark::State& state) {
  TimeOwned(state, [](auto& word, std::uint64_t) { word.fetch_add(1, std::memory_order_acq_rel); });
}
BENCHMARK(BM_Floor_AtomicRmw)->UseManualTime()->Iterations(1);

void BM_Floor_CompareExchange(benchmark::State& state) {
  TimeOwned(state, [](auto& word, std::uint64_t i) {
    PS_CHECK(word.compare_exchange_strong(i, i + 1, std::memory_order_acq_rel));
  });
}
BENCHMARK(BM_Floor_CompareExchange)->UseManualTime()->Iterations(1);

void BM_Floor_LineHandOver(benchmark::State& state) {
  constexpr std::uint32_t kRounds = 200'000;
  for (auto _ : state) {
    alignas(64) std::atomic<std::uint32_t> turn{0};
    std::thread partner([&turn] {
      for (std::uint32_t i = 0; i < kRounds; ++i) {
        while (turn.load(std::memory_order_acquire) != 2 * i + 1) {
        }
        turn.store(2 * i + 2, std::memory_order_release);
      }
    });
    const auto start = Clock::now();
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      turn.store(2 * i + 1, std::memory_order_release);
      while (turn.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
    state.SetIterationTime(SecondsSince(start));
    partner.join();
  }
  PerOperation(state, 2.0 * kRounds);
}
BENCHMARK(BM_Floor_LineHandOver)->UseManualTime()->Iterations(1);

void BM_Floor_DramMiss(benchmark::State& state) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kSteps = 300'000;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PS_CHECK(memory != MAP_FAILED);
  madvise(memory, kBytes, state.range(0) == 1 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  // One cycle through a line of every fourth of all lines, in random order.
  std::vector<std::uint32_t> order(kBytes / kLine / 4);
  std::iota(order.begin(), order.end(), 0U);
  Rng rng = Seeds(1).Stream("floor", 0);
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[rng.Next() % (i + 1)]);
  const auto line = [memory](std::uint32_t n) {
    return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(memory) + n * kLine * 4);
  };
  for (std::size_t i = 0; i < order.size(); ++i) *line(order[i]) = order[(i + 1) % order.size()];
  std::uint32_t at = order[0];
  for (auto _ : state) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < kSteps; ++i) at = *line(at);
    state.SetIterationTime(SecondsSince(start));
    benchmark::DoNotOptimize(at);
  }
  munmap(memory, kBytes);
  PerOperation(state, static_cast<double>(kSteps));
}
BENCHMARK(BM_Floor_DramMiss)->ArgName("huge")->Arg(1)->Arg(0)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace pagestorm
