#include "numa/latency_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace pagestorm::numa {
namespace {

std::int64_t Interpolate(std::int64_t x, std::int64_t x0, std::int64_t y0, std::int64_t x1,
                         std::int64_t y1) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

struct PathCost {
  Ns latency;
  std::int64_t mb_per_s = 0;
};

PathCost Beyond(const std::vector<DistancePoint>& points, int distance) {
  const DistancePoint& last = points.back();
  PathCost cost;
  cost.mb_per_s = std::max<std::int64_t>(1, last.mb_per_s * last.distance / distance);
  if (points.size() == 1) {
    cost.latency = last.latency * distance / last.distance;
  } else {
    const DistancePoint& before = points[points.size() - 2];
    cost.latency =
        Ns{Interpolate(distance, before.distance, before.latency.n, last.distance, last.latency.n)};
    cost.latency = std::max(cost.latency, last.latency);
  }
  return cost;
}

PathCost CostAt(const std::vector<DistancePoint>& points, int distance) {
  if (distance <= points.front().distance) {
    return {points.front().latency, points.front().mb_per_s};
  }
  for (std::size_t i = 1; i < points.size(); ++i) {
    const DistancePoint& a = points[i - 1];
    const DistancePoint& b = points[i];
    if (distance > b.distance) continue;
    return {Ns{Interpolate(distance, a.distance, a.latency.n, b.distance, b.latency.n)},
            Interpolate(distance, a.distance, a.mb_per_s, b.distance, b.mb_per_s)};
  }
  return Beyond(points, distance);
}

absl::Status BadModel(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("latency.", what));
}

constexpr std::int64_t kMaxNs = 1'000'000'000;
constexpr std::int64_t kMaxMbPerS = 100'000'000;

}  // namespace

absl::Status ValidateLatencyParams(const LatencyParams& params) {
  if (params.points.empty()) return BadModel("points: at least one is needed");
  int previous = kLocalDistance - 1;
  for (const DistancePoint& point : params.points) {
    if (point.distance <= previous || point.distance > kMaxDistance) {
      return BadModel(
          absl::StrCat("points: distance = ", point.distance, ", they ascend and lie in 10..255"));
    }
    previous = point.distance;
    if (point.latency.n < 1 || point.latency.n > kMaxNs) {
      return BadModel(
          absl::StrCat("points: latency_ns = ", point.latency.n, ", allowed are 1..", kMaxNs));
    }
    if (point.mb_per_s < 1 || point.mb_per_s > kMaxMbPerS) {
      return BadModel(
          absl::StrCat("points: mb_per_s = ", point.mb_per_s, ", allowed are 1..", kMaxMbPerS));
    }
  }
  if (params.cpu_mb_per_s < 1 || params.cpu_mb_per_s > kMaxMbPerS) {
    return BadModel(
        absl::StrCat("cpu_mb_per_s = ", params.cpu_mb_per_s, ", allowed are 1..", kMaxMbPerS));
  }
  const struct {
    const char* key;
    Ns value;
  } times[] = {{"zero_page_fixed_ns", params.zero_page_fixed},
               {"copy_page_fixed_ns", params.copy_page_fixed},
               {"transfer_same_core_ns", params.transfer_same_core},
               {"transfer_same_l2_ns", params.transfer_same_l2},
               {"transfer_same_llc_ns", params.transfer_same_llc},
               {"transfer_same_package_ns", params.transfer_same_package}};
  for (const auto& [key, value] : times) {
    if (value.n < 0 || value.n > kMaxNs) {
      return BadModel(absl::StrCat(key, " = ", value.n, ", allowed are 0..", kMaxNs));
    }
  }
  return absl::OkStatus();
}

LatencyModel::LatencyModel(const Topology& topology, const LatencyParams& params)
    : params_(params) {
  const absl::Status status = ValidateLatencyParams(params);
  PS_CHECK(status.ok(), status.ToString());
  for (const Node& node : topology.nodes) nodes_.push_back(node.id);
  for (const Cpu& cpu : topology.cpus) {
    cpus_.push_back({cpu.core, cpu.l2, cpu.llc, cpu.package, Position(cpu.node)});
  }
  for (const int distance : topology.distances) {
    const PathCost cost = CostAt(params_.points, distance);
    latency_.push_back(cost.latency);
    mb_per_s_.push_back(cost.mb_per_s);
  }
  if (params_.use_memory_attributes) ApplyMemoryAttributes(topology);
}

void LatencyModel::ApplyMemoryAttributes(const Topology& topology) {
  // The general attribute first: where the firmware tells reads from writes, reads count.
  for (const char* name : {"Latency", "ReadLatency", "Bandwidth", "ReadBandwidth"}) {
    for (const MemoryAttribute& attribute : topology.memory_attributes) {
      if (attribute.name != name) continue;
      const bool latency = attribute.name.find("Latency") != std::string::npos;
      ApplyAttribute(topology, attribute, latency);
    }
  }
}

void LatencyModel::ApplyAttribute(const Topology& topology, const MemoryAttribute& attribute,
                                  bool latency) {
  for (const MemoryAttributeValue& value : attribute.values) {
    if (value.value == 0 || value.value > static_cast<std::uint64_t>(kMaxMbPerS)) continue;
    const auto amount = static_cast<std::int64_t>(value.value);
    for (const CpuId cpu : value.initiator) {
      const std::size_t pair = Pair(topology.CpuAt(cpu).node, value.target);
      if (latency) {
        latency_[pair] = Ns{amount};
      } else {
        mb_per_s_[pair] = std::max<std::int64_t>(1, amount * (1 << 20) / 1'000'000);
      }
    }
  }
}

std::size_t LatencyModel::Position(NodeId node) const {
  const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), node);
  PS_CHECK(at != nodes_.end());
  PS_CHECK(*at == node, "no such node");
  return static_cast<std::size_t>(at - nodes_.begin());
}

std::size_t LatencyModel::Pair(NodeId from, NodeId to) const {
  return Position(from) * nodes_.size() + Position(to);
}

Ns LatencyModel::AccessCost(NodeId from, NodeId to) const { return latency_[Pair(from, to)]; }

std::int64_t LatencyModel::PathMbPerS(NodeId from, NodeId to) const {
  return mb_per_s_[Pair(from, to)];
}

Ns LatencyModel::StreamCost(NodeId from, NodeId to, std::int64_t bytes) const {
  PS_CHECK(bytes >= 0);
  const std::size_t pair = Pair(from, to);
  const std::int64_t mb_per_s = std::min(params_.cpu_mb_per_s, mb_per_s_[pair]);
  // 10^6 bytes/s are bytes per microsecond. 2^53 bytes would overflow; a page is below 2^31.
  return latency_[pair] + Ns{bytes * 1'000 / mb_per_s};
}

Ns LatencyModel::ZeroPage(NodeId cpu_node, NodeId page_node, std::int64_t bytes) const {
  return params_.zero_page_fixed + StreamCost(cpu_node, page_node, bytes);
}

// Reads and writes overlap, so the slower of the two paths decides.
Ns LatencyModel::CopyPage(NodeId cpu_node, NodeId source, NodeId target, std::int64_t bytes) const {
  const Ns read = StreamCost(cpu_node, source, bytes);
  const Ns write = StreamCost(cpu_node, target, bytes);
  return params_.copy_page_fixed + std::max(read, write);
}

Ns LatencyModel::TransferCost(CpuId a, CpuId b) const {
  if (a == b) return Ns{0};
  const auto place = [this](CpuId cpu) -> const CpuPlace& {
    PS_CHECK(cpu.n >= 0);
    PS_CHECK(static_cast<std::size_t>(cpu.n) < cpus_.size(), "no such CPU");
    return cpus_[static_cast<std::size_t>(cpu.n)];
  };
  const CpuPlace& from = place(a);
  const CpuPlace& to = place(b);
  if (from.core == to.core) return params_.transfer_same_core;
  if (from.l2 == to.l2) return params_.transfer_same_l2;
  if (from.llc == to.llc) return params_.transfer_same_llc;
  if (from.package == to.package && from.node == to.node) return params_.transfer_same_package;
  return std::max(params_.transfer_same_package, latency_[from.node * nodes_.size() + to.node]);
}

std::int64_t LoadFactorPerMille(std::int64_t per_mille) {
  const std::int64_t u = std::clamp<std::int64_t>(per_mille, 0, 1000);
  // 0.06 u^3 / (1.03 - u) with u in thousandths: 60 u^3 / (10^6 (1030 - u)) thousandths.
  return 1000 + 48 * u / 100 + 60 * u * u * u / (1'000'000 * (1030 - u));
}

}  // namespace pagestorm::numa
