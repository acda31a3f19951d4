// What memory and cache lines cost on this machine, in emulated time.
//
// Memory: idle latency and bandwidth as functions of the SLIT distance (or, on request, of the
// firmware's memory attributes). Locks and shared lines: the price of moving one line between two
// CPUs, by what they share. Integers only, so every compiler computes the same.
// Sources: spec numa-balancing-v5 4.5, 5.1, 5.2; each default names its confidence.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/units.h"
#include "numa/topology.h"

namespace pagestorm::numa {

// One measured point. Between two points both figures are interpolated linearly; below the first
// they stay; beyond the last, latency keeps its last slope (with one point: grows with the
// distance) and bandwidth falls as 1 / distance (guess).
struct DistancePoint {
  int distance = kLocalDistance;
  Ns latency{80};
  std::int64_t mb_per_s = 40'000;  // of one node's memory or one link, 10^6 bytes/s
};

struct LatencyParams {
  // Defaults: 2-socket Sandy Bridge-EP class, spec numa-balancing-v5 5.1: 70-80 / 120-135 ns
  // (unconfirmed), 40 / 17-25 GB/s.
  std::vector<DistancePoint> points{{10, Ns{80}, 40'000}, {21, Ns{130}, 20'000}};
  std::int64_t cpu_mb_per_s = 6'000;   // what one CPU alone can stream; guess
  bool use_memory_attributes = false;  // where the topology has them, instead of `points`

  Ns zero_page_fixed{1'500};  // on top of bytes / bandwidth; spec numa-balancing-v5 4.5
  Ns copy_page_fixed{0};      // idem

  // Moving a cache line from one CPU to another.
  Ns transfer_same_core{20};      // SMT siblings share the L1; guess
  Ns transfer_same_l2{30};        // guess
  Ns transfer_same_llc{66};       // half of a round trip of 132 ns, measured on one host
  Ns transfer_same_package{100};  // same package, two last-level caches; guess
  // Other packages and nodes: the latency between their nodes, at least transfer_same_package.
};

// One line naming key, value and what is allowed. Points must ascend in distance and be positive.
absl::Status ValidateLatencyParams(const LatencyParams& params);

// Immutable after construction, so shared freely. Keeps no reference to its arguments.
class LatencyModel {
 public:
  // PS_CHECKs that the parameters are valid.
  LatencyModel(const Topology& topology, const LatencyParams& params);

  // One cache miss of a CPU on node `from` served by the memory of node `to`, idle machine.
  [[nodiscard]] Ns AccessCost(NodeId from, NodeId to) const;
  // Megabytes (10^6) a second that the path can carry for all CPUs together.
  [[nodiscard]] std::int64_t PathMbPerS(NodeId from, NodeId to) const;
  // One CPU on `from` streams `bytes` >= 0 of `to`'s memory: one latency, then bandwidth.
  [[nodiscard]] Ns StreamCost(NodeId from, NodeId to, std::int64_t bytes) const;
  // A CPU on `cpu_node` zeroes or copies `bytes` (one page of whatever size). Fault entry, page
  // tables and locks are not included.
  [[nodiscard]] Ns ZeroPage(NodeId cpu_node, NodeId page_node, std::int64_t bytes) const;
  [[nodiscard]] Ns CopyPage(NodeId cpu_node, NodeId source, NodeId target,
                            std::int64_t bytes) const;
  // A cache line, and with it a lock, moves from CPU `a` to CPU `b`. 0 when a == b. Symmetric if
  // the distances are.
  [[nodiscard]] Ns TransferCost(CpuId a, CpuId b) const;

 private:
  struct CpuPlace {
    int core, l2, llc, package;
    std::size_t node;  // position
  };
  [[nodiscard]] std::size_t Position(NodeId node) const;
  [[nodiscard]] std::size_t Pair(NodeId from, NodeId to) const;
  void ApplyMemoryAttributes(const Topology& topology);
  void ApplyAttribute(const Topology& topology, const MemoryAttribute& attribute, bool latency);

  LatencyParams params_;
  std::vector<NodeId> nodes_;           // ascending
  std::vector<CpuPlace> cpus_;          // by CpuId
  std::vector<Ns> latency_;             // [from][to] by position
  std::vector<std::int64_t> mb_per_s_;  // [from][to] by position
};

// How much slower memory answers at a utilisation of `per_mille` (clipped to 0..1000), times 1000:
// f(u) = 1 + 0.48 u + 0.06 u^3 / (1.03 - u). f(0) = 1000, f(1000) = 3480. A fit over one machine's
// curve, within 1.5 % there; spec numa-balancing-v5 5.2.
[[nodiscard]] std::int64_t LoadFactorPerMille(std::int64_t per_mille);

}  // namespace pagestorm::numa
