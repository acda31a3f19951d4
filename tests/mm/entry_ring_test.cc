#include "mm/entry_ring.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/machine.h"

namespace pagestorm::mm {
namespace {

using pagestorm::testing::Cpus;
using Entry = EntryRing::Entry;

struct Machine : pagestorm::testing::Machine {
  explicit Machine(int cpus, EngineKind kind = EngineKind::kVirtual)
      : pagestorm::testing::Machine(kind, Cpus(cpus, 1)) {}
};

// Mutations tried, red: the lap left out of a slot (old entries come out again after a lap); a
// consumer that takes one slot more than it has read.
TEST_CASE("EntryRing: entries come out in the order they went in, over many laps", "[mm]") {
  Machine machine(1);
  EntryRing ring(machine.engine, 10, {5});
  CHECK(ring.capacity() == 128);  // 2 x 10 + 3 x 32 = 116, rounded up
  CHECK(ring.limit() == 96);
  machine.engine.Spawn({.name = "test"}, [&] {
    std::uint32_t in = 0;
    std::uint32_t out = 0;
    for (int round = 0; round < 40'000; ++round) {
      std::array<Entry, 14> some;
      for (Entry& entry : some) {
        entry = {.frame = in, .sequence = (in * 7) & EntryRing::kSequenceMask};
        ++in;
      }
      ring.Push(some);
      std::array<Entry, 14> got;
      while (const std::size_t count = ring.Pop(got)) {
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(got[i].frame == out);
          REQUIRE(got[i].sequence == ((out * 7) & EntryRing::kSequenceMask));
          ++out;
        }
      }
      REQUIRE(out == in);
    }
    CHECK(ring.size() == 0);
  });
  machine.engine.Run();
}

// CPU 0 reserves two slots at 0 ns and publishes them at 1000 and 2000; CPU 1 looks at 500, at 1500
// and at 2500. Mutation tried, red: a consumer that goes by head_ instead of published slots.
TEST_CASE("EntryRing: slots reserved and not published hide what is behind them", "[mm]") {
  Machine machine(2);
  EntryRing ring(machine.engine, 10, {1000});
  std::vector<std::size_t> seen;
  const auto spawn = [&](int cpu, const std::function<void()>& body) {
    CpuMask mask;
    mask.set(static_cast<std::size_t>(cpu));
    machine.engine.Spawn({.name = "test", .allowed = mask, .cpu_hint = {cpu}}, body);
  };
  spawn(0, [&] {
    const std::array<Entry, 2> two{{{.frame = 1}, {.frame = 2}}};
    ring.Push(two);
  });
  spawn(1, [&] {
    std::array<Entry, 32> got;
    Charge({500});
    seen.push_back(ring.Pop(got));
    CHECK(ring.size() == 2);
    Charge({1000});
    seen.push_back(ring.Pop(got));
    Charge({3000});
    seen.push_back(ring.Pop(got));
    CHECK(ring.size() == 0);
  });
  machine.engine.Run();
  CHECK(seen == std::vector<std::size_t>{0, 1, 1});
}

}  // namespace
}  // namespace pagestorm::mm
