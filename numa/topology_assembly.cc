#include "numa/topology_assembly.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace pagestorm::numa {
namespace {

constexpr std::int64_t kMaxMemoryBytes = std::int64_t{1} << 52;  // x86-64: 52 physical address bits
constexpr int kMaxCpuOsIndex = 1 << 16;

absl::Status Invalid(const RawTopology& raw, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("topology ", raw.name, ": ", what));
}

absl::Status ValidateCpus(const RawTopology& raw) {
  if (raw.cpus.empty()) return Invalid(raw, "no CPU in it");
  if (raw.cpus.size() > static_cast<std::size_t>(kMaxCpus)) {
    return Invalid(raw, absl::StrCat(raw.cpus.size(), " CPUs, at most ", kMaxCpus, " are allowed"));
  }
  std::set<int> seen;
  for (const RawCpu& cpu : raw.cpus) {
    if (cpu.os_index < 0 || cpu.os_index >= kMaxCpuOsIndex) {
      return Invalid(
          raw, absl::StrCat("CPU number ", cpu.os_index, ", allowed are 0..", kMaxCpuOsIndex - 1));
    }
    if (!seen.insert(cpu.os_index).second) {
      return Invalid(raw, absl::StrCat("CPU ", cpu.os_index, " appears twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateNodes(const RawTopology& raw) {
  if (raw.nodes.empty()) return Invalid(raw, "no NUMA node in it");
  std::set<std::int64_t> seen;
  std::int64_t total = 0;
  for (const RawNode& node : raw.nodes) {
    if (node.os_index < 0 || node.os_index >= kMaxNodes) {
      return Invalid(
          raw, absl::StrCat("node number ", node.os_index, ", allowed are 0..", kMaxNodes - 1));
    }
    if (!seen.insert(node.os_index).second) {
      return Invalid(raw, absl::StrCat("node ", node.os_index, " appears twice"));
    }
    if (node.memory_bytes < 0 || node.memory_bytes > kMaxMemoryBytes - total) {
      return Invalid(raw, absl::StrCat("node ", node.os_index, " has ", node.memory_bytes,
                                       " bytes of memory, a machine has at most 2^52"));
    }
    total += node.memory_bytes;
  }
  return absl::OkStatus();
}

// Dense numbers from 0 in the order of first use; a key is whatever names a group.
class DenseIds {
 public:
  // Returns the number of `key` and whether it is new.
  std::pair<int, bool> Get(const std::tuple<int, int, int>& key) {
    const auto [at, fresh] = ids_.try_emplace(key, static_cast<int>(ids_.size()));
    return {at->second, fresh};
  }

 private:
  std::map<std::tuple<int, int, int>, int> ids_;
};

std::string OsIndexList(const std::vector<int>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i;
    while (end + 1 < list.size() && list[end + 1] == list[end] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ",", list[i]);
    if (end > i) absl::StrAppend(&text, "-", list[end]);
    i = end + 1;
  }
  return text;
}

// What is being assembled: `raw` with its CPUs and nodes sorted, and the Topology so far.
struct Assembly {
  RawTopology raw;
  Topology out;
};

// The node around each CPU that is its home; kNoNode where there is none.
std::vector<NodeId> HomesAround(const RawTopology& raw) {
  using Rank = std::tuple<std::size_t, bool, std::int64_t>;  // fewest CPUs, DRAM, lowest number
  std::map<int, Rank> best;
  for (const RawNode& node : raw.nodes) {
    const Rank rank{node.cpus.size(), !node.subtype.empty() && node.subtype != "DRAM",
                    node.os_index};
    for (const int cpu : node.cpus) {
      const auto [at, fresh] = best.try_emplace(cpu, rank);
      if (!fresh) at->second = std::min(at->second, rank);
    }
  }
  std::vector<NodeId> homes(raw.cpus.size(), kNoNode);
  for (std::size_t i = 0; i < raw.cpus.size(); ++i) {
    const auto at = best.find(raw.cpus[i].os_index);
    if (at == best.end()) continue;
    homes[i] = NodeId{static_cast<std::int32_t>(std::get<2>(at->second))};
  }
  return homes;
}

// The lowest node that serves `package`, else any CPU, else has memory, else the lowest.
NodeId NearestNode(const RawTopology& raw, const std::vector<NodeId>& homes, int package) {
  NodeId in_package = kNoNode;
  NodeId with_cpus = kNoNode;
  const auto keep_lowest = [](NodeId& best, NodeId node) {
    if (best == kNoNode || node < best) best = node;
  };
  for (std::size_t i = 0; i < homes.size(); ++i) {
    if (homes[i] == kNoNode) continue;
    keep_lowest(with_cpus, homes[i]);
    if (package >= 0 && raw.cpus[i].package == package) keep_lowest(in_package, homes[i]);
  }
  if (in_package != kNoNode) return in_package;
  if (with_cpus != kNoNode) return with_cpus;
  for (const RawNode& node : raw.nodes) {
    if (node.memory_bytes > 0) return NodeId{static_cast<std::int32_t>(node.os_index)};
  }
  return NodeId{static_cast<std::int32_t>(raw.nodes.front().os_index)};
}

std::vector<NodeId> FindHomes(Assembly& work) {
  const std::vector<NodeId> around = HomesAround(work.raw);
  std::vector<NodeId> homes = around;
  std::map<NodeId, std::vector<int>> moved;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    if (homes[i] != kNoNode) continue;
    homes[i] = NearestNode(work.raw, around, work.raw.cpus[i].package);
    moved[homes[i]].push_back(work.raw.cpus[i].os_index);
  }
  for (const auto& [node, cpus] : moved) {
    work.out.notes.push_back(
        absl::StrCat("CPUs ", OsIndexList(cpus), " have no online node: placed on node ", node.n));
  }
  return homes;
}

void AddPackage(Assembly& work, DenseIds& ids, const RawCpu& raw, Cpu& cpu) {
  const bool inferred = raw.package < 0;
  const auto [id, fresh] = ids.Get({raw.package, inferred ? cpu.node.n : 0, 0});
  cpu.package = id;
  if (fresh) work.out.packages.push_back({.os_index = raw.package_os_index, .inferred = inferred});
  work.out.packages[static_cast<std::size_t>(id)].cpus.push_back(cpu.id);
}

void AddCaches(Assembly& work, DenseIds& llcs, DenseIds& l2s, const RawCpu& raw, Cpu& cpu) {
  const auto [llc, new_llc] =
      raw.llc >= 0 ? llcs.Get({0, raw.llc, 0}) : llcs.Get({1, cpu.package, cpu.node.n});
  if (new_llc) work.out.llc_bytes.push_back(raw.llc_bytes);
  cpu.llc = llc;
  const auto [l2, new_l2] = raw.l2 >= 0 ? l2s.Get({0, raw.l2, 0}) : l2s.Get({1, cpu.core, 0});
  if (new_l2) work.out.l2_bytes.push_back(raw.l2_bytes);
  cpu.l2 = l2;
}

void AddCpus(Assembly& work, const std::vector<NodeId>& homes) {
  DenseIds cores;
  DenseIds packages;
  DenseIds llcs;
  DenseIds l2s;
  std::vector<int> threads;  // by core
  std::vector<int> without_package;
  for (std::size_t i = 0; i < work.raw.cpus.size(); ++i) {
    const RawCpu& raw = work.raw.cpus[i];
    Cpu cpu;
    cpu.id = CpuId{static_cast<std::int32_t>(i)};
    cpu.os_index = raw.os_index;
    cpu.node = homes[i];
    const auto [core, new_core] =
        raw.core >= 0 ? cores.Get({0, raw.core, 0}) : cores.Get({1, raw.os_index, 0});
    if (new_core) threads.push_back(0);
    cpu.core = core;
    cpu.smt = threads[static_cast<std::size_t>(core)]++;
    AddPackage(work, packages, raw, cpu);
    AddCaches(work, llcs, l2s, raw, cpu);
    if (raw.package < 0) without_package.push_back(raw.os_index);
    work.out.cpus.push_back(cpu);
  }
  work.out.cores = static_cast<int>(threads.size());
  if (!without_package.empty() && without_package.size() < work.raw.cpus.size()) {
    work.out.notes.push_back(absl::StrCat("CPUs ", OsIndexList(without_package),
                                          " are in no package: one assumed for each node"));
  }
}

void AddNodes(Assembly& work) {
  for (const RawNode& raw : work.raw.nodes) {
    Node node;
    node.id = NodeId{static_cast<std::int32_t>(raw.os_index)};
    node.memory_bytes = raw.memory_bytes;
    node.subtype = raw.subtype;
    for (const Cpu& cpu : work.out.cpus) {
      if (cpu.node == node.id) node.cpus.push_back(cpu.id);
    }
    work.out.nodes.push_back(std::move(node));
  }
}

void AddAttributes(Assembly& work) {
  std::map<int, CpuId> by_os_index;
  for (const Cpu& cpu : work.out.cpus) by_os_index[cpu.os_index] = cpu.id;
  for (const RawAttribute& raw : work.raw.attributes) {
    MemoryAttribute attribute{.name = raw.name, .values = {}};
    for (const RawAttributeValue& value : raw.values) {
      const NodeId target{static_cast<std::int32_t>(value.target)};
      if (!work.out.HasNode(target)) continue;
      MemoryAttributeValue out{.target = target, .initiator = {}, .value = value.value};
      for (const int cpu : value.initiator) {
        const auto at = by_os_index.find(cpu);
        if (at != by_os_index.end()) out.initiator.push_back(at->second);
      }
      attribute.values.push_back(std::move(out));
    }
    std::sort(attribute.values.begin(), attribute.values.end(),
              [](const MemoryAttributeValue& a, const MemoryAttributeValue& b) {
                return std::tie(a.target, a.initiator) < std::tie(b.target, b.initiator);
              });
    if (!attribute.values.empty()) work.out.memory_attributes.push_back(std::move(attribute));
  }
}

// ---- distances ----

constexpr std::int64_t kMissing = -1;

// The raw values in node order; kMissing for a pair that the matrix does not cover.
std::vector<std::int64_t> InNodeOrder(const std::vector<std::int64_t>& ids,
                                      const RawDistances& raw) {
  const std::size_t n = ids.size();
  std::vector<std::int64_t> values(n * n, kMissing);
  const std::size_t width = raw.nodes.size();
  if (raw.values.size() != width * width) return values;
  const auto position = [&](std::int64_t id) {
    return static_cast<std::size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
  };
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t row = position(raw.nodes[i]);
    if (row >= n || ids[row] != raw.nodes[i]) continue;
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t column = position(raw.nodes[j]);
      if (column >= n || ids[column] != raw.nodes[j]) continue;
      constexpr std::uint64_t kCap = 1'000'000'000;  // far above any distance or ns
      values[row * n + column] =
          static_cast<std::int64_t>(std::min(raw.values[i * width + j], kCap));
    }
  }
  return values;
}

std::vector<int> UniformDistances(std::size_t n) {
  std::vector<int> matrix(n * n, kRemoteDistance);
  for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] = kLocalDistance;
  return matrix;
}

// True when no entry of a row is below its diagonal. Missing entries do not count.
bool DiagonalIsMinimal(const std::vector<std::int64_t>& values, std::size_t n) {
  for (std::size_t row = 0; row < n; ++row) {
    const std::int64_t diagonal = values[row * n + row];
    if (diagonal == 0) return false;
    for (std::size_t column = 0; column < n; ++column) {
      const std::int64_t value = values[row * n + column];
      if (diagonal != kMissing && value != kMissing && value < diagonal) return false;
    }
  }
  return true;
}

bool OthersExceedLocal(const std::vector<std::int64_t>& values, std::size_t n) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool on_diagonal = i / n == i % n;
    if (!on_diagonal && values[i] != kMissing && values[i] <= kLocalDistance) return false;
  }
  return true;
}

struct DistanceRepairs {
  bool scaled = false;
  bool limited = false;
  bool filled = false;
  bool asymmetric = false;
};

std::vector<int> Normalise(const std::vector<std::int64_t>& values, std::size_t n,
                           DistanceRepairs& repairs) {
  std::vector<int> matrix(n * n, kRemoteDistance);
  for (std::size_t row = 0; row < n; ++row) {
    const std::int64_t diagonal = values[row * n + row];
    for (std::size_t column = 0; column < n; ++column) {
      std::int64_t value = values[row * n + column];
      if (value == kMissing) {
        repairs.filled = repairs.filled || n > 1;
        value = row == column ? kLocalDistance : kRemoteDistance;
      } else if (diagonal != kMissing && diagonal != kLocalDistance) {
        repairs.scaled = true;
        value = (value * kLocalDistance + diagonal / 2) / diagonal;
      }
      if (value > kMaxDistance) repairs.limited = true;
      const std::int64_t limited = std::clamp<std::int64_t>(value, kLocalDistance, kMaxDistance);
      matrix[row * n + column] = static_cast<int>(limited);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (matrix[i * n + j] != matrix[j * n + i]) repairs.asymmetric = true;
    }
  }
  return matrix;
}

}  // namespace

std::vector<int> RepairDistances(const std::vector<std::int64_t>& ids,
                                 const std::optional<RawDistances>& raw,
                                 std::vector<std::string>& notes) {
  const std::size_t n = ids.size();
  if (!raw.has_value()) {
    if (n > 1) notes.push_back("no distance matrix: 10 local and 20 remote assumed");
    return UniformDistances(n);
  }
  std::vector<std::int64_t> values = InNodeOrder(ids, *raw);
  if (!DiagonalIsMinimal(values, n)) {
    if (!OthersExceedLocal(values, n)) {
      notes.push_back(
          "distance matrix is insane (a node is nearer to another than to itself): "
          "10 local and 20 remote used instead");
      return UniformDistances(n);
    }
    for (std::size_t i = 0; i < n; ++i) values[i * n + i] = kLocalDistance;
    notes.push_back("distance matrix had a diagonal that is not minimal: set to 10");
  }
  DistanceRepairs repairs;
  std::vector<int> matrix = Normalise(values, n, repairs);
  if (repairs.scaled) notes.push_back("distance matrix scaled to 10 on the diagonal");
  if (repairs.filled) notes.push_back("distance matrix does not cover all nodes: 20 assumed");
  if (repairs.limited) notes.push_back("distances above 255 limited to 255");
  if (repairs.asymmetric) notes.push_back("distance matrix is not symmetric: kept as it is");
  return matrix;
}

absl::StatusOr<Topology> Assemble(const RawTopology& raw) {
  if (absl::Status status = ValidateCpus(raw); !status.ok()) return status;
  if (absl::Status status = ValidateNodes(raw); !status.ok()) return status;
  Assembly work{.raw = raw, .out = {}};
  std::sort(work.raw.cpus.begin(), work.raw.cpus.end(),
            [](const RawCpu& a, const RawCpu& b) { return a.os_index < b.os_index; });
  std::sort(work.raw.nodes.begin(), work.raw.nodes.end(),
            [](const RawNode& a, const RawNode& b) { return a.os_index < b.os_index; });
  work.out.name = raw.name;
  const std::vector<NodeId> homes = FindHomes(work);
  AddCpus(work, homes);
  AddNodes(work);
  AddAttributes(work);
  std::vector<std::int64_t> ids;
  for (const RawNode& node : work.raw.nodes) ids.push_back(node.os_index);
  work.out.distances = RepairDistances(ids, raw.distances, work.out.notes);
  if (work.out.TotalMemoryBytes() == 0) {
    work.out.notes.push_back("no memory on any node: a machine file must give it");
  }
  work.out.CheckInvariants();
  return work.out;
}

}  // namespace pagestorm::numa
