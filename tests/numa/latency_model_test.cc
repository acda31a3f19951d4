#include "numa/latency_model.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/source_root.h"

namespace pagestorm::numa {
namespace {

LatencyParams Params() {
  LatencyParams params;
  params.points = {{10, Ns{100}, 10'000}, {20, Ns{200}, 5'000}};
  params.cpu_mb_per_s = 4'000;
  params.zero_page_fixed = Ns{1'500};
  params.copy_page_fixed = Ns{50};
  return params;
}

Topology TwoNodes(int distance) {
  return Topology::Synthetic({.nodes = 2,
                              .cores_per_node = 4,
                              .threads_per_core = 2,
                              .cores_per_llc = 2,
                              .remote_distance = distance});
}

}  // namespace

TEST_CASE("LatencyModel: latency and bandwidth follow the distance", "[numa]") {
  struct Case {
    int distance;
    std::int64_t ns, mb_per_s;
  };
  // 15 lies half way; 40 is 20 beyond the last point: + 2 x 100 ns, and half the bandwidth.
  for (const Case& c :
       {Case{10, 100, 10'000}, Case{15, 150, 7'500}, Case{20, 200, 5'000}, Case{40, 400, 2'500}}) {
    CAPTURE(c.distance);
    const LatencyModel model(TwoNodes(c.distance), Params());
    CHECK(model.AccessCost(NodeId{0}, NodeId{1}) == Ns{c.ns});
    CHECK(model.PathMbPerS(NodeId{0}, NodeId{1}) == c.mb_per_s);
    CHECK(model.AccessCost(NodeId{1}, NodeId{1}) == Ns{100});
  }
}

TEST_CASE("LatencyModel: with a single point latency grows with the distance", "[numa]") {
  LatencyParams params = Params();
  params.points = {{10, Ns{100}, 10'000}};
  const LatencyModel model(TwoNodes(25), params);
  CHECK(model.AccessCost(NodeId{0}, NodeId{1}) == Ns{250});
  CHECK(model.PathMbPerS(NodeId{0}, NodeId{1}) == 4'000);
}

TEST_CASE("LatencyModel: zeroing and copying cost latency and bandwidth of the path", "[numa]") {
  LatencyParams params = Params();
  params.points[1].mb_per_s = 2'000;  // slower than one CPU
  const LatencyModel model(TwoNodes(20), params);
  const NodeId near{0};
  const NodeId far{1};
  // 4000 bytes at 4000 MB/s (the CPU's limit) are 1000 ns, at 2000 MB/s (the link's) 2000 ns.
  CHECK(model.StreamCost(near, near, 4'000) == Ns{1'100});
  CHECK(model.StreamCost(near, far, 4'000) == Ns{2'200});
  CHECK(model.ZeroPage(near, near, 4'000) == Ns{2'600});
  CHECK(model.ZeroPage(near, far, 4'000) == Ns{3'700});
  CHECK(model.CopyPage(near, near, near, 4'000) == Ns{1'150});
  CHECK(model.CopyPage(near, near, far, 4'000) == Ns{2'250});
  CHECK(model.CopyPage(near, far, near, 4'000) == Ns{2'250});
  CHECK(model.StreamCost(near, far, 0) == Ns{200});
}

TEST_CASE("LatencyModel: a line costs more the less two CPUs share", "[numa]") {
  const LatencyModel model(TwoNodes(20), Params());
  const LatencyParams params = Params();
  // CPUs 0..7 are first threads (0-3 node 0, 4-7 node 1), 8..15 their siblings.
  CHECK(model.TransferCost(CpuId{3}, CpuId{3}) == Ns{0});
  CHECK(model.TransferCost(CpuId{0}, CpuId{8}) == params.transfer_same_core);
  CHECK(model.TransferCost(CpuId{0}, CpuId{1}) == params.transfer_same_llc);
  CHECK(model.TransferCost(CpuId{0}, CpuId{2}) == params.transfer_same_package);
  CHECK(model.TransferCost(CpuId{0}, CpuId{4}) == Ns{200});
  CHECK(model.TransferCost(CpuId{4}, CpuId{0}) == Ns{200});
  LatencyParams slow_package = params;
  slow_package.transfer_same_package = Ns{300};
  const LatencyModel other(TwoNodes(20), slow_package);
  CHECK(other.TransferCost(CpuId{0}, CpuId{4}) == Ns{300});
}

TEST_CASE("LatencyModel: cores that share an L2", "[numa]") {
  Topology topology = TwoNodes(20);
  topology.cpus[1].l2 = topology.cpus[0].l2;
  const LatencyModel model(topology, Params());
  CHECK(model.TransferCost(CpuId{0}, CpuId{1}) == Params().transfer_same_l2);
}

TEST_CASE("LatencyModel: memory attributes replace the points where asked for", "[numa]") {
  const absl::StatusOr<Topology> topology = Topology::FromXmlFile(
      SourceRoot() + "/tests/data/topologies/6n-memattrs-initiators-dram-nvm.xml");
  REQUIRE(topology.ok());
  LatencyParams params = Params();
  const LatencyModel plain(*topology, params);
  params.use_memory_attributes = true;
  const LatencyModel model(*topology, params);
  CHECK(plain.AccessCost(NodeId{5}, NodeId{7}) == Ns{170});
  CHECK(model.AccessCost(NodeId{5}, NodeId{5}) == Ns{26});
  CHECK(model.AccessCost(NodeId{5}, NodeId{7}) == Ns{77});
  CHECK(model.PathMbPerS(NodeId{6}, NodeId{7}) == 78'644LL * 1'048'576 / 1'000'000);
  // No value for this pair: the points still hold (distance 21, just beyond the last point).
  CHECK(model.AccessCost(NodeId{5}, NodeId{8}) == plain.AccessCost(NodeId{5}, NodeId{8}));
}

// The table of spec numa-balancing-v5 5.2: latency over idle latency (78 ns) of one machine.
TEST_CASE("LoadFactorPerMille: follows the measured curve", "[numa]") {
  struct Point {
    std::int64_t load;
    double ns;
  };
  for (const Point& p : {Point{180, 85.5}, Point{260, 87.9}, Point{360, 91.6}, Point{450, 95},
                         Point{590, 102.7}, Point{870, 130.6}, Point{1000, 261.5}}) {
    CAPTURE(p.load);
    CHECK(static_cast<double>(LoadFactorPerMille(p.load)) * 0.078 ==
          Approx(p.ns).epsilon(p.load == 1000 ? 0.04 : 0.02));
  }
  CHECK(LoadFactorPerMille(0) == 1000);
  CHECK(LoadFactorPerMille(1000) == 3480);
  CHECK(LoadFactorPerMille(5000) == 3480);
  CHECK(LoadFactorPerMille(-5) == 1000);
}

TEST_CASE("LatencyParams: bad values are refused by name", "[numa]") {
  CHECK(ValidateLatencyParams({}).ok());
  CHECK(ValidateLatencyParams(Params()).ok());
  const auto says = [](const LatencyParams& params, const std::string& part) {
    const absl::Status status = ValidateLatencyParams(params);
    CAPTURE(status.ToString(), part);
    return !status.ok() && std::string(status.message()).find(part) != std::string::npos;
  };
  LatencyParams params = Params();
  SECTION("points") {
    params.points.clear();
    CHECK(says(params, "latency.points: at least one"));
    params.points = {{20, Ns{1}, 1}, {20, Ns{1}, 1}};
    CHECK(says(params, "distance = 20"));
    params.points = {{9, Ns{1}, 1}};
    CHECK(says(params, "distance = 9"));
    params.points = {{10, Ns{0}, 1}};
    CHECK(says(params, "latency_ns = 0"));
    params.points = {{10, Ns{1}, 0}};
    CHECK(says(params, "mb_per_s = 0"));
  }
  SECTION("scalars") {
    params.cpu_mb_per_s = 0;
    CHECK(says(params, "latency.cpu_mb_per_s = 0"));
    params = Params();
    params.transfer_same_llc = Ns{-1};
    CHECK(says(params, "latency.transfer_same_llc_ns = -1"));
  }
}

}  // namespace pagestorm::numa
