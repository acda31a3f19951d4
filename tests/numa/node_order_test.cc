#include "numa/node_order.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/source_root.h"

namespace pagestorm::numa {
namespace {

using Orders = std::vector<std::vector<int>>;

Orders Numbers(const Topology& topology, const NodeOrderRule& rule = {}) {
  Orders orders;
  for (const std::vector<NodeId>& order : BuildNodeOrders(topology, rule)) {
    std::vector<int> numbers;
    for (const NodeId node : order) numbers.push_back(node.n);
    orders.push_back(numbers);
  }
  return orders;
}

Topology Load(const std::string& file) {
  absl::StatusOr<Topology> topology =
      Topology::FromXmlFile(SourceRoot() + "/tests/data/topologies/" + file);
  REQUIRE(topology.ok());
  return *std::move(topology);
}

}  // namespace

// Worked for node 2: candidates 0 and 1 carry the penalty "lower number than local" (22 against
// 21), so 3 is first; then 0 (load 0) before 1 (load 3: the first remote pick of node 0's list,
// when 3 picks were left). Mutations tried: no penalty for lower numbers (lists 1 and 2 red); no
// load (the star below red).
TEST_CASE("NodeOrder: four equidistant nodes take turns", "[numa]") {
  const Topology topology = Topology::Synthetic({.nodes = 4, .cores_per_node = 2});
  CHECK(Numbers(topology) == Orders{{0, 1, 2, 3}, {1, 2, 3, 0}, {2, 3, 0, 1}, {3, 0, 1, 2}});
}

TEST_CASE("NodeOrder: the load makes a later list start elsewhere", "[numa]") {
  // Node 3 chooses between 1 (loaded by list 0) and 2 (loaded by list 1): of equals, the lower.
  const Topology topology =
      Topology::Synthetic({.nodes = 4, .cores_per_node = 2, .memoryless_nodes = {0}});
  CHECK(Numbers(topology) == Orders{{0, 1, 2, 3}, {1, 2, 3}, {2, 3, 1}, {3, 1, 2}});
  // A star around node 0. List 0 loads 1 with 3. List 1 goes to 0, then, the distance changes
  // again, to 2, which is loaded with 2. List 2 goes to 0, then to 3, free of the penalty. List 3
  // has 1 (load 3) and 2 (load 2) left after 0: 2 first.
  const Topology star = Topology::Synthetic(
      {.nodes = 4,
       .cores_per_node = 2,
       .distances = {10, 16, 16, 16, 16, 10, 22, 22, 16, 22, 10, 22, 16, 22, 22, 10}});
  CHECK(Numbers(star) == Orders{{0, 1, 2, 3}, {1, 0, 2, 3}, {2, 0, 3, 1}, {3, 0, 2, 1}});
}

TEST_CASE("NodeOrder: two nodes", "[numa][spec:throttle-7]") {
  const Topology topology = Topology::Synthetic({.nodes = 2});
  CHECK(Numbers(topology) == Orders{{0, 1}, {1, 0}});
  CHECK(Numbers(Topology::Synthetic({.nodes = 1})) == Orders{{0}});
}

TEST_CASE("NodeOrder: the near comes before the far", "[numa]") {
  const Topology topology = Load("2s-8n-epyc-naples-nps4-48c96t.xml");
  for (const auto rule : {NodeOrderRule::Load::kSet, NodeOrderRule::Load::kRaise}) {
    const Orders orders = Numbers(topology, {.max_numnodes = 64, .load = rule});
    std::vector<int> first_far;
    for (int local = 0; local < 8; ++local) {
      const std::vector<int>& order = orders[static_cast<std::size_t>(local)];
      REQUIRE(order.size() == 8);
      CHECK(order[0] == local);
      for (std::size_t i = 1; i < 4; ++i) CHECK(order[i] / 4 == local / 4);
      first_far.push_back(order[4]);
    }
    // Socket 0 spreads over socket 1 under both rules. The other way round, setting the load (to 4,
    // from the 7 that node 0 got as a neighbour) makes node 0 the favourite; raising it does not.
    const bool set = rule == NodeOrderRule::Load::kSet;
    CHECK(first_far == (set ? std::vector<int>{4, 5, 6, 7, 0, 0, 0, 0}
                            : std::vector<int>{4, 5, 6, 7, 0, 1, 2, 3}));
  }
}

TEST_CASE("NodeOrder: an uneven matrix is followed entry by entry", "[numa]") {
  const Orders orders = Numbers(Load("4s-8n-opteron-interlagos-64c-uneven.xml"));
  CHECK(orders[0] == std::vector<int>{0, 1, 2, 4, 6, 3, 5, 7});
  CHECK(orders[2].front() == 2);
  // Node 2 is 16 from all but node 1.
  CHECK(orders[2].back() == 1);
}

TEST_CASE("NodeOrder: memory without CPUs is preferred at equal distance, memory-less is left out",
          "[numa]") {
  const Topology topology = Topology::Synthetic(
      {.nodes = 4, .cores_per_node = 2, .cpuless_nodes = {3}, .memoryless_nodes = {1}});
  const Orders orders = Numbers(topology);
  CHECK(orders[0] == std::vector<int>{0, 3, 2});
  CHECK(orders[1] == std::vector<int>{1, 3, 2, 0});  // itself first although it has no memory
  CHECK(orders[2] == std::vector<int>{2, 3, 0});
}

TEST_CASE("NodeOrder: sparse node numbers", "[numa]") {
  const Orders orders = Numbers(Load("2s-6n-power9-cpuless-gpu-nodes.v1.xml"));
  CHECK(orders[0] == std::vector<int>{0, 8, 252, 253, 254, 255});
  CHECK(orders[2].front() == 252);
}

// Checklist 8. Mutation tried: >= instead of >; red.
TEST_CASE("ExceedsReclaimDistance: 21 does, 20 does not", "[numa][spec:throttle-8]") {
  const auto with = [](int distance) {
    return Topology::Synthetic({.nodes = 2, .remote_distance = distance});
  };
  CHECK(ExceedsReclaimDistance(with(21), kReclaimDistance2626));
  CHECK_FALSE(ExceedsReclaimDistance(with(20), kReclaimDistance2626));
  CHECK_FALSE(ExceedsReclaimDistance(with(21), kReclaimDistance411));
  CHECK(ExceedsReclaimDistance(Load("2s-8n-epyc-naples-nps4-48c96t.xml"), kReclaimDistance411));
  const Topology far_but_empty =
      Topology::Synthetic({.nodes = 2, .remote_distance = 21, .memoryless_nodes = {0, 1}});
  CHECK_FALSE(ExceedsReclaimDistance(far_but_empty, kReclaimDistance2626));
}

}  // namespace pagestorm::numa
