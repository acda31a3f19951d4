// What the scheduler needs to know of the machine: who shares a core, a cache, a node.
#pragma once

#include <cstddef>
#include <vector>

#include "core/units.h"
#include "numa/topology.h"

namespace pagestorm::sched {

struct CpuTopology {
  // By CpuId; group numbers are dense from 0.
  std::vector<int> core;
  std::vector<int> llc;   // shares the last-level cache
  std::vector<int> node;  // position in node_ids
  std::vector<NodeId> node_ids;
  std::vector<int> distances;  // SLIT, row-major by node position

  static CpuTopology From(const numa::Topology& topology);
  // One node, one cache, a core for each CPU.
  static CpuTopology Flat(int cpus);

  // Appends a CPU that shares nothing but its node; a node that is not known counts as the first.
  void AddServiceCpu(NodeId home);

  [[nodiscard]] std::size_t cpus() const { return core.size(); }
  [[nodiscard]] std::size_t nodes() const { return node_ids.size(); }
  [[nodiscard]] int Distance(int from, int to) const {
    return distances[static_cast<std::size_t>(from) * nodes() + static_cast<std::size_t>(to)];
  }
};

}  // namespace pagestorm::sched
