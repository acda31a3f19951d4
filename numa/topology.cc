#include "numa/topology.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "numa/topology_assembly.h"

namespace pagestorm::numa {
namespace {

bool Contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void CheckShape(const SyntheticShape& shape) {
  PS_CHECK(shape.nodes >= 1);
  PS_CHECK(shape.nodes <= kMaxNodes);
  PS_CHECK(shape.cores_per_node >= 1);
  PS_CHECK(shape.threads_per_core >= 1);
  PS_CHECK(shape.cores_per_llc >= 0);
  PS_CHECK(shape.nodes_per_package >= 1);
  PS_CHECK(shape.memory_bytes_per_node >= 0);
  PS_CHECK(shape.remote_distance >= kLocalDistance);
  PS_CHECK(shape.remote_distance <= kMaxDistance);
}

RawDistances ShapeDistances(const SyntheticShape& shape) {
  RawDistances raw;
  for (int from = 0; from < shape.nodes; ++from) {
    raw.nodes.push_back(from);
    for (int to = 0; to < shape.nodes; ++to) {
      const int value = from == to ? kLocalDistance : shape.remote_distance;
      raw.values.push_back(static_cast<std::uint64_t>(value));
    }
  }
  if (!shape.distances.empty()) {
    PS_CHECK(shape.distances.size() == raw.values.size(), "one distance for each pair of nodes");
    for (std::size_t i = 0; i < raw.values.size(); ++i) {
      raw.values[i] = static_cast<std::uint64_t>(shape.distances[i]);
    }
  }
  return raw;
}

// The CPUs of node `node` in Linux' usual numbering: all first threads of the machine, then all
// second threads.
void AddCpus(const SyntheticShape& shape, int node, RawTopology& raw, RawNode& raw_node) {
  const int per_llc = shape.cores_per_llc == 0 ? shape.cores_per_node : shape.cores_per_llc;
  const int llcs_per_node = (shape.cores_per_node + per_llc - 1) / per_llc;
  for (int thread = 0; thread < shape.threads_per_core; ++thread) {
    for (int core = 0; core < shape.cores_per_node; ++core) {
      const int global_core = node * shape.cores_per_node + core;
      RawCpu cpu;
      cpu.os_index = thread * shape.nodes * shape.cores_per_node + global_core;
      cpu.core = global_core;
      cpu.package = node / shape.nodes_per_package;
      cpu.package_os_index = cpu.package;
      cpu.llc = node * llcs_per_node + core / per_llc;
      cpu.llc_bytes = shape.llc_bytes;
      cpu.l2 = global_core;
      raw_node.cpus.push_back(cpu.os_index);
      raw.cpus.push_back(cpu);
    }
  }
}

}  // namespace

Topology Topology::Synthetic(const SyntheticShape& shape) {
  CheckShape(shape);
  RawTopology raw;
  raw.name = "synthetic";
  for (int node = 0; node < shape.nodes; ++node) {
    RawNode raw_node;
    raw_node.os_index = node;
    raw_node.memory_bytes =
        Contains(shape.memoryless_nodes, node) ? 0 : shape.memory_bytes_per_node;
    if (!Contains(shape.cpuless_nodes, node)) AddCpus(shape, node, raw, raw_node);
    raw.nodes.push_back(raw_node);
  }
  raw.distances = ShapeDistances(shape);
  absl::StatusOr<Topology> topology = Assemble(raw);
  PS_CHECK(topology.ok(), topology.status().ToString());
  return *std::move(topology);
}

std::optional<std::size_t> Topology::NodePosition(NodeId node) const {
  const auto at = std::lower_bound(nodes.begin(), nodes.end(), node,
                                   [](const Node& a, NodeId b) { return a.id < b; });
  if (at == nodes.end() || at->id != node) return std::nullopt;
  return static_cast<std::size_t>(at - nodes.begin());
}

const Node& Topology::NodeAt(NodeId node) const {
  const std::optional<std::size_t> position = NodePosition(node);
  PS_CHECK(position.has_value(), "no such node");
  return nodes[*position];
}

const Cpu& Topology::CpuAt(CpuId cpu) const {
  PS_CHECK(cpu.n >= 0);
  PS_CHECK(static_cast<std::size_t>(cpu.n) < cpus.size(), "no such CPU");
  return cpus[static_cast<std::size_t>(cpu.n)];
}

int Topology::Distance(NodeId from, NodeId to) const {
  const std::optional<std::size_t> row = NodePosition(from);
  const std::optional<std::size_t> column = NodePosition(to);
  PS_CHECK(row.has_value(), "no such node");
  PS_CHECK(column.has_value(), "no such node");
  return distances[*row * nodes.size() + *column];
}

std::int64_t Topology::TotalMemoryBytes() const {
  std::int64_t total = 0;
  for (const Node& node : nodes) total += node.memory_bytes;
  return total;
}

int Topology::source_packages() const {
  return static_cast<int>(std::count_if(packages.begin(), packages.end(),
                                        [](const Package& p) { return !p.inferred; }));
}

std::string Topology::Summary() const {
  const auto count = [](auto n, std::string_view what) {
    return absl::StrCat(n, " ", std::string(what), n == 1 ? "" : "s");
  };
  std::string text =
      absl::StrCat(count(packages.size(), "package"), ", ", count(cores, "core"), ", ",
                   count(cpus.size(), "CPU"), ", ", count(nodes.size(), "node"));
  std::string_view separator = ": ";
  for (const Node& node : nodes) {
    absl::StrAppend(&text, std::string(separator), node.id.n, " ",
                    (node.memory_bytes + kMiB / 2) / kMiB, " MiB ", count(node.cpus.size(), "CPU"));
    separator = ", ";
  }
  return text;
}

void Topology::CheckInvariants() const {
  PS_CHECK(!nodes.empty());
  PS_CHECK(!cpus.empty());
  for (std::size_t i = 1; i < nodes.size(); ++i) PS_CHECK(nodes[i - 1].id < nodes[i].id);
  std::vector<NodeId> home(cpus.size(), kNoNode);
  for (const Node& node : nodes) {
    PS_CHECK(node.id.n >= 0);
    PS_CHECK(node.id.n < kMaxNodes);
    PS_CHECK(node.memory_bytes >= 0);
    PS_CHECK(std::is_sorted(node.cpus.begin(), node.cpus.end()));
    for (const CpuId cpu : node.cpus) {
      PS_CHECK(CpuAt(cpu).node == node.id);
      PS_CHECK(home[static_cast<std::size_t>(cpu.n)] == kNoNode, "a CPU has two homes");
      home[static_cast<std::size_t>(cpu.n)] = node.id;
    }
  }
  std::set<int> seen_cores;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const Cpu& cpu = cpus[i];
    PS_CHECK(cpu.id.n == static_cast<std::int32_t>(i));
    PS_CHECK(home[i] != kNoNode, "a CPU has no home");
    PS_CHECK(i == 0 || cpus[i - 1].os_index < cpu.os_index);
    PS_CHECK(static_cast<std::size_t>(cpu.package) < packages.size());
    PS_CHECK(static_cast<std::size_t>(cpu.llc) < llc_bytes.size());
    PS_CHECK(static_cast<std::size_t>(cpu.l2) < l2_bytes.size());
    PS_CHECK((cpu.smt == 0) == seen_cores.insert(cpu.core).second);
  }
  PS_CHECK(seen_cores.size() == static_cast<std::size_t>(cores));
  PS_CHECK(distances.size() == nodes.size() * nodes.size());
  for (std::size_t from = 0; from < nodes.size(); ++from) {
    for (std::size_t to = 0; to < nodes.size(); ++to) {
      const int value = distances[from * nodes.size() + to];
      PS_CHECK(value >= kLocalDistance);
      PS_CHECK(value <= kMaxDistance);
      PS_CHECK(from != to || value == kLocalDistance);
    }
  }
}

}  // namespace pagestorm::numa
