#include "numa/node_order.h"

#include <algorithm>
#include <optional>

namespace pagestorm::numa {
namespace {

// Builds the lists of one rebuild; `load_` is what they share.
class OrderBuilder {
 public:
  OrderBuilder(const Topology& topology, const NodeOrderRule& rule)
      : topology_(topology), rule_(rule), load_(topology.node_count(), 0) {}

  std::vector<NodeId> Build(std::size_t local) {
    const auto online = static_cast<std::int64_t>(topology_.node_count());
    std::vector<bool> used(topology_.node_count(), false);
    std::vector<NodeId> order;
    std::int64_t picks_left = online;
    int previous_distance = kLocalDistance;
    for (std::optional<std::size_t> next = local; next; next = Best(local, used)) {
      used[*next] = true;
      const int distance = Distance(local, *next);
      if (distance != previous_distance) Raise(*next, picks_left);
      previous_distance = distance;
      order.push_back(topology_.nodes[*next].id);
      --picks_left;
    }
    return order;
  }

 private:
  [[nodiscard]] int Distance(std::size_t from, std::size_t to) const {
    return topology_.distances[from * topology_.node_count() + to];
  }

  void Raise(std::size_t node, std::int64_t picks_left) {
    if (rule_.load == NodeOrderRule::Load::kSet) load_[node] = 0;
    load_[node] += picks_left;
  }

  [[nodiscard]] std::int64_t Value(std::size_t local, std::size_t node) const {
    const std::int64_t penalty =
        Distance(local, node) + (node < local ? 1 : 0) + (topology_.nodes[node].has_cpus() ? 1 : 0);
    const auto online = static_cast<std::int64_t>(topology_.node_count());
    const std::int64_t weight = std::max<std::int64_t>(rule_.max_numnodes, online);
    return penalty * online * weight + load_[node];
  }

  [[nodiscard]] std::optional<std::size_t> Best(std::size_t local,
                                                const std::vector<bool>& used) const {
    std::optional<std::size_t> best;
    for (std::size_t node = 0; node < topology_.node_count(); ++node) {
      if (used[node] || !topology_.nodes[node].has_memory()) continue;
      if (!best || Value(local, node) < Value(local, *best)) best = node;
    }
    return best;
  }

  const Topology& topology_;
  NodeOrderRule rule_;
  std::vector<std::int64_t> load_;
};

}  // namespace

std::vector<std::vector<NodeId>> BuildNodeOrders(const Topology& topology,
                                                 const NodeOrderRule& rule) {
  OrderBuilder builder(topology, rule);
  std::vector<std::vector<NodeId>> orders;
  for (std::size_t local = 0; local < topology.node_count(); ++local) {
    orders.push_back(builder.Build(local));
  }
  return orders;
}

bool ExceedsReclaimDistance(const Topology& topology, int reclaim_distance) {
  for (const Node& from : topology.nodes) {
    for (const Node& to : topology.nodes) {
      if (to.has_memory() && topology.Distance(from.id, to.id) > reclaim_distance) return true;
    }
  }
  return false;
}

}  // namespace pagestorm::numa
