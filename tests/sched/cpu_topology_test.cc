#include "sched/cpu_topology.h"

#include <catch2/catch.hpp>

namespace pagestorm::sched {
namespace {

TEST_CASE("CpuTopology: groups and distances are the machine's", "[sched][topology]") {
  const auto machine = numa::Topology::Synthetic({.nodes = 2,
                                                  .cores_per_node = 2,
                                                  .threads_per_core = 2,
                                                  .cores_per_llc = 1,
                                                  .remote_distance = 21});
  CpuTopology topology = CpuTopology::From(machine);
  REQUIRE(topology.cpus() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(topology.core[i] == machine.cpus[i].core);
    CHECK(topology.llc[i] == machine.cpus[i].llc);
    CHECK(topology.node_ids[static_cast<std::size_t>(topology.node[i])] == machine.cpus[i].node);
  }
  CHECK(topology.Distance(0, 0) == 10);
  CHECK(topology.Distance(0, 1) == 21);
  topology.AddServiceCpu(NodeId{1});
  CHECK(topology.core[8] == 4);
  CHECK(topology.llc[8] == 4);
  CHECK(topology.node[8] == 1);
}

TEST_CASE("CpuTopology: a node without CPUs keeps its place in the distances",
          "[sched][topology]") {
  const auto machine =
      numa::Topology::Synthetic({.nodes = 3, .cores_per_node = 1, .cpuless_nodes = {1}});
  const CpuTopology topology = CpuTopology::From(machine);
  REQUIRE(topology.cpus() == 2);
  CHECK(topology.nodes() == 3);
  CHECK(topology.node[1] == 2);
}

}  // namespace
}  // namespace pagestorm::sched
