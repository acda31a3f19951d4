#include "core/executor.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "core/host_binding.h"
#include "core/spin_lock.h"
#include "tests/support/machine.h"

namespace pagestorm {
namespace {

TEST_CASE("Executor: pieces cover the range once and are no longer than the grain",
          "[core][threads]") {
  const Executor executor(GENERATE(1, 2, 5));
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    std::vector<std::atomic<int>> seen(count);
    std::atomic<bool> too_long{false};
    executor.ParallelFor(count, 7, [&](std::size_t first, std::size_t last) {
      if (last - first > 7) too_long = true;
      for (std::size_t i = first; i < last; ++i) ++seen[i];
    });
    CHECK_FALSE(too_long);
    for (std::size_t i = 0; i < count; ++i) REQUIRE(seen[i] == 1);
  }
}

TEST_CASE("Executor: every run of a sweep runs once, at most `workers` at a time",
          "[core][threads]") {
  const int workers = GENERATE(1, 3);
  const Executor executor(workers);
  std::vector<std::atomic<int>> ran(50);
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  executor.Sweep(ran.size(), [&](std::size_t i) {
    const int running = ++now;
    int seen = most;
    while (seen < running && !most.compare_exchange_weak(seen, running)) {
    }
    ++ran[i];
    --now;
  });
  for (const auto& times : ran) CHECK(times == 1);
  CHECK(most <= workers);
  CHECK(Executor().workers() == HostCores());
}

TEST_CASE("Executor: an exception of one piece reaches the caller", "[core][threads]") {
  const Executor executor(2);
  CHECK_THROWS_AS(executor.Sweep(10,
                                 [](std::size_t i) {
                                   if (i == 3) throw std::runtime_error("third");
                                 }),
                  std::runtime_error);
}

TEST_CASE("Executor: virtual machines give the same on any number of workers", "[core][threads]") {
  const auto hashes = [](int workers) {
    std::vector<std::uint64_t> result(8);
    Executor(workers).Sweep(result.size(), [&](std::size_t i) {
      testing::Machine machine(EngineKind::kVirtual, testing::Cpus(3, i + 1));
      SpinLock lock(machine.engine, LockRank::kLru, "test");
      for (int t = 0; t < 6; ++t) {
        machine.engine.Spawn({.name = "t"}, [&, t] {
          Rng rng = CurrentEngine().seeds().Stream("t", t);
          for (int k = 0; k < 200; ++k) {
            SpinGuard guard(lock);
            Charge({rng.Between(10, 500)});
          }
        });
      }
      result[i] = machine.engine.Run().trace_hash;
    });
    return result;
  };
  const auto alone = hashes(1);
  CHECK(hashes(4) == alone);
  CHECK(alone[0] != alone[1]);
}

}  // namespace
}  // namespace pagestorm
