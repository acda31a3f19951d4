#include "bench/workloads/hackbench.h"

#include <algorithm>

#include "bench/emulator/emulator.h"
#include "mm/rmap.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

// The most anon_vmas that live at once while hackbench runs in one group of two tasks.
std::size_t MostAnonVmas(const std::vector<std::pair<std::string, std::int64_t>>& params) {
  const std::unique_ptr<Workload> hackbench = MakeHackbench();
  for (const auto& [name, value] : params) {
    for (WorkloadParam& param : hackbench->params()) {
      if (param.key == name) param.value = value;
    }
  }
  auto booted = Emulator::Boot(SmallRun());
  REQUIRE(booted.ok());
  mm::MemoryManager& mm = (*booted)->memory();
  REQUIRE(
      hackbench
          ->Validate({.memory = {}, .page_shift = mm.page_shift(), .online_cpus = 1, .swap = {}})
          .ok());
  std::size_t most = 0;
  const MachineOutcome outcome = (*booted)->Run("main", [&](Process& self) {
    self.Fork("watcher", {}, [&](Process&) {
      for (int i = 0; i < 200; ++i) {
        most = std::max(most, mm.rmap->anon_vmas().live());
        SleepFor(kMillisecond / 10);
      }
    });
    hackbench->Main(self);
  });
  CHECK(outcome.broken == "");
  CHECK(hackbench->Report().ok);
  return most;
}

// Mutation tried, red: one area for everything.
TEST_CASE("Hackbench: a process has its pages in several areas with an anon_vma each", "[bench]") {
  const std::vector<std::pair<std::string, std::int64_t>> small{
      {"groups", 1}, {"fan", 1}, {"loops", 5}};
  const auto with = [&](std::vector<std::pair<std::string, std::int64_t>> more) {
    more.insert(more.end(), small.begin(), small.end());
    return MostAnonVmas(more);
  };
  CHECK(with({}) == 3);  // stack, data, heap
  CHECK(with({{"areas", 1}}) == 1);
  CHECK(with({{"areas", 5}}) == 5);
  // No more areas than pages.
  CHECK(with({{"hot_pages", 1}, {"cold_pages", 0}, {"shared_pages", 1}}) == 2);
  // A thread has an area of its own in the one address space.
  CHECK(with({{"mode", 1}}) == 3);
}

}  // namespace
}  // namespace pagestorm::bench
