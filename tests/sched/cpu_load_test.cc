#include "sched/cpu_load.h"

#include <catch2/catch.hpp>

namespace pagestorm::sched {
namespace {

// Mutation tried: no rounding up (1024 from 0 still gives 256, but the average never gets to 1024).
TEST_CASE("CpuLoad: average 2 moves by a quarter of the difference", "[sched][spec:numa-5]") {
  CpuLoad load;
  load.Tick(1024);
  CHECK(load.average(0) == 1024);
  CHECK(load.average(2) == 256);  // (0 * 3 + 1024 + 3) >> 2
  load.Ticks(100, 1024);
  CHECK(load.average(2) == 1024);
  load.Tick(0);
  CHECK(load.average(2) == 768);  // (1024 * 3) >> 2
}

TEST_CASE("CpuLoad: every average arrives at a steady load, up and down", "[sched]") {
  CpuLoad load;
  load.Ticks(200, 3000);
  for (std::size_t i = 0; i < CpuLoad::kAverages; ++i) CHECK(load.average(i) == 3000);
  load.Ticks(1 << 30, 0);
  for (std::size_t i = 0; i < CpuLoad::kAverages; ++i) CHECK(load.average(i) == 0);
}

TEST_CASE("CpuLoad: many ticks at once are as many single ones", "[sched]") {
  CpuLoad one;
  CpuLoad many;
  for (const std::int64_t now : {1024, 5000, 0, 335}) {
    for (int i = 0; i < 7; ++i) one.Tick(now);
    many.Ticks(7, now);
    for (std::size_t i = 0; i < CpuLoad::kAverages; ++i) CHECK(one.average(i) == many.average(i));
  }
}

TEST_CASE("CpuLoad: a source looks no busier, a target no idler than now", "[sched]") {
  CpuLoad load;
  load.Tick(1024);
  CHECK(load.SourceLoad(0, 4096) == 4096);
  CHECK(load.SourceLoad(3, 4096) == 256);
  CHECK(load.SourceLoad(3, 100) == 100);
  CHECK(load.TargetLoad(0, 7) == 7);
  CHECK(load.TargetLoad(3, 4096) == 4096);
  CHECK(load.TargetLoad(3, 100) == 256);
}

}  // namespace
}  // namespace pagestorm::sched
