// In which order an allocation visits the nodes: the zonelist's node order.
//
// The local node comes first, then repeatedly the unused node n with the lowest
//   (distance(local, n) + (n < local ? 1 : 0) + (n has CPUs ? 1 : 0)) * online * max_numnodes
//     + load[n]
// (the lower number of equals). When the distance changes from the previous pick, the picked node's
// load is set to the number of picks left (or raised by it), which makes equidistant nodes take
// turns: lists built for one node after the other start with different neighbours. So loads live as
// long as one rebuild of all lists. Source: spec throttle-2.6.26 2.2, kswapd-4.11 1.10.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"
#include "numa/topology.h"

namespace pagestorm::numa {

inline constexpr int kReclaimDistance2626 = 20;  // RECLAIM_DISTANCE until 2.6.38; ia64: 15
inline constexpr int kReclaimDistance411 = 30;   // since 3.0

struct NodeOrderRule {
  // Only weighs distance against load, and does so enough while it is at least the node count.
  int max_numnodes = 64;
  enum class Load { kSet, kRaise } load = Load::kSet;  // 2.6.26; 4.11
};

// The orders of all nodes of `topology`, by position of the local node. Each list holds the local
// node, even if it has no memory, and every other node that has some.
[[nodiscard]] std::vector<std::vector<NodeId>> BuildNodeOrders(const Topology& topology,
                                                               const NodeOrderRule& rule = {});

// True when a node with memory is farther from some node than `reclaim_distance`: building the
// lists then switches zone_reclaim_mode on (2.6.26 .. 3.15).
[[nodiscard]] bool ExceedsReclaimDistance(const Topology& topology, int reclaim_distance);

}  // namespace pagestorm::numa
