#include "core/shared_line.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/machine.h"

namespace pagestorm {
namespace {

EngineConfig WithTransfer() {
  EngineConfig config = testing::Cpus(2, 1);
  config.costs.rmw_ns = 10;
  config.costs.context_switch_ns = config.costs.wake_latency_ns = 0;
  config.transfer_ns = {0, 100, 100, 0};
  return config;
}

// Both arrive at 10. The first pays 10 and no transfer: the line was nobody's, it is free at 10.
// The second fetches it: 10 + 100 = 110. Then each again, 10 later: CPU A arrives at 20, waits
// until 110 and fetches: 210, 190 of it waited. B arrives at 120, and waits until 210 + 100 = 310.
// Mutations tried, red: no free_at_ (A would be done at 120); the transfer paid by the last owner;
// no transfer.
TEST_CASE("SharedLine: operations happen one after the other, each fetches the line", "[core]") {
  testing::Machine machine(EngineKind::kVirtual, WithTransfer());
  SharedLine line(machine.engine);
  std::vector<std::int64_t> at;
  for (int cpu = 0; cpu < 2; ++cpu) {
    machine.engine.Spawn({.name = "test", .cpu_hint = {cpu}}, [&] {
      for (int i = 0; i < 2; ++i) {
        line.Own();
        at.push_back(Now().n);
      }
    });
  }
  machine.engine.Run();
  CHECK(at == std::vector<std::int64_t>{10, 110, 210, 310});
  CHECK(line.stats().acquisitions == 4);
  CHECK(line.stats().contentions == 2);
  CHECK(line.stats().wait_ns == 190 + 190);
  CHECK(line.stats().wait_ns_max == 190);
}

TEST_CASE("SharedLine: costs nothing under the threads engine", "[core][threads]") {
  testing::Machine machine(EngineKind::kThreads, WithTransfer());
  SharedLine line(machine.engine);
  machine.engine.Spawn({.name = "test"}, [&] { line.Own(); });
  machine.engine.Run();
  CHECK(line.stats().acquisitions == 0);
}

}  // namespace
}  // namespace pagestorm
