// Read-modify-writes without a bus lock, and when they may be.
#include "core/host_atomic.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

#include "tests/support/machine.h"

namespace pagestorm {
namespace {

// Every operation once, with what it returns and leaves.
void CheckAll() {
  HostAtomic<std::uint32_t> word{0b0110};
  CHECK(word.fetch_or(0b1000) == 0b0110);
  CHECK(word.fetch_and(0b1100) == 0b1110);
  CHECK(word.fetch_xor(0b0101) == 0b1100);
  CHECK(word.load() == 0b1001);
  CHECK(word.fetch_add(7) == 9);
  CHECK(word.fetch_sub(15) == 16);
  std::uint32_t expected = 5;
  CHECK_FALSE(word.compare_exchange_strong(expected, 8));
  CHECK(expected == 1);
  CHECK(word.compare_exchange_weak(expected, 8));
  CHECK(word.exchange(3) == 8);
  CHECK(word == 3);

  // Narrow types wrap as std::atomic's do.
  HostAtomic<std::uint16_t> narrow{std::numeric_limits<std::uint16_t>::max()};
  CHECK(narrow.fetch_add(2) == std::numeric_limits<std::uint16_t>::max());
  CHECK(narrow == 1);
}

}  // namespace

// Mutation tried: fetch_xor without a threads engine does an or.
TEST_CASE("HostAtomic: the same results with and without a threads engine", "[core]") {
  const int before = live_threads_engines;
  CheckAll();
  const testing::Machine machine(EngineKind::kThreads, testing::Cpus(1));
  CHECK(live_threads_engines == before + 1);
  CheckAll();
}

// What goes wrong otherwise: two CPUs of the threads engine lose each other's increments. Mutation
// tried: the threads engine does not count itself; about half of the increments were lost.
TEST_CASE("HostAtomic: no increment is lost between the CPUs of a threads engine", "[core]") {
  constexpr int kCpus = 2;
  constexpr std::uint32_t kIncrements = 200'000;
  HostAtomic<std::uint32_t> sum{0};
  {
    testing::Machine machine(EngineKind::kThreads, testing::Cpus(kCpus));
    for (int i = 0; i < kCpus; ++i) {
      CpuMask only;
      only.set(static_cast<std::size_t>(i));
      machine.engine.Spawn({.name = "adder", .allowed = only}, [&sum] {
        for (std::uint32_t n = 0; n < kIncrements; ++n) sum.fetch_add(1, std::memory_order_relaxed);
      });
    }
    CHECK(machine.engine.Run().end == RunEnd::kDone);
  }
  CHECK(sum == kCpus * kIncrements);
}

}  // namespace pagestorm
