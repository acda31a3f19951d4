#include "sched/cpu_topology.h"

#include <algorithm>

#include "core/check.h"

namespace pagestorm::sched {
namespace {

int NextGroup(const std::vector<int>& groups) {
  return groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end()) + 1;
}

}  // namespace

CpuTopology CpuTopology::From(const numa::Topology& topology) {
  CpuTopology result;
  for (const numa::Node& node : topology.nodes) result.node_ids.push_back(node.id);
  for (const numa::Cpu& cpu : topology.cpus) {
    const auto position = topology.NodePosition(cpu.node);
    PS_CHECK(position.has_value(), "a CPU's node does not exist");
    result.core.push_back(cpu.core);
    result.llc.push_back(cpu.llc);
    result.node.push_back(static_cast<int>(*position));
  }
  result.distances = topology.distances;
  return result;
}

CpuTopology CpuTopology::Flat(int cpus) {
  CpuTopology result;
  for (int i = 0; i < cpus; ++i) {
    result.core.push_back(i);
    result.llc.push_back(0);
    result.node.push_back(0);
  }
  result.node_ids.push_back(NodeId{0});
  result.distances.push_back(numa::kLocalDistance);
  return result;
}

void CpuTopology::AddServiceCpu(NodeId home) {
  const auto found = std::find(node_ids.begin(), node_ids.end(), home);
  core.push_back(NextGroup(core));
  llc.push_back(NextGroup(llc));
  node.push_back(found == node_ids.end() ? 0 : static_cast<int>(found - node_ids.begin()));
}

}  // namespace pagestorm::sched
