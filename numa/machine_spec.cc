#include "numa/machine_spec.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace pagestorm::numa {
namespace {

constexpr std::int64_t kMaxMib = std::int64_t{1} << 32;  // 2^52 bytes
constexpr std::int64_t kMinMachineBytes = 4 * kMiB;      // below, no kernel boots
constexpr int kMaxSwapDevices = 32;                      // Linux MAX_SWAPFILES

// Collects the first complaint about a spec.
class Checker {
 public:
  explicit Checker(const MachineSpec& spec) : spec_(spec) {}

  template <class Value>
  void Range(const std::string& key, Value value, Value low, Value high) {
    if (value >= low && value <= high) return;
    Complain(absl::StrCat(key, " = ", value, ": allowed are ", low, "..", high));
  }
  void Require(bool condition, const std::string& complaint) {
    if (!condition) Complain(complaint);
  }
  // A list with no value, one for all nodes, or one for each.
  void NodeList(const std::string& key, const std::vector<std::int64_t>& list, std::int64_t high) {
    const std::size_t nodes = spec_.topology.node_count();
    Require(list.size() <= 1 || list.size() == nodes,
            absl::StrCat(key, " has ", list.size(), " values: allowed are none, 1 or ", nodes,
                         " (one for each node)"));
    for (const std::int64_t value : list) Range<std::int64_t>(key, value, 0, high);
  }
  [[nodiscard]] bool ok() const { return status_.ok(); }
  void Complain(const std::string& text) {
    if (!status_.ok()) return;
    // lint: message only
    status_ = absl::InvalidArgumentError(absl::StrCat("machine ", spec_.name, ": ", text));
  }
  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  const MachineSpec& spec_;
  absl::Status status_;
};

void CheckDistances(const MachineSpec& spec, Checker& check) {
  const std::size_t nodes = spec.topology.node_count();
  if (spec.distances.empty()) return;
  check.Require(spec.distances.size() == nodes * nodes,
                absl::StrCat("distances has ", spec.distances.size(), " values: allowed are ",
                             nodes * nodes, " (", nodes, " x ", nodes, ")"));
  if (!check.ok()) return;
  for (std::size_t i = 0; i < nodes; ++i) {
    for (std::size_t j = 0; j < nodes; ++j) {
      const int value = spec.distances[i * nodes + j];
      const std::string key = absl::StrCat("distances[", i, "][", j, "]");
      if (i == j) {
        check.Range(key, value, kLocalDistance, kLocalDistance);
      } else {
        check.Range(key, value, kLocalDistance, kMaxDistance);
      }
    }
  }
}

void CheckParts(const MachineSpec& spec, Checker& check) {
  check.Range<std::int64_t>("swap.mib", spec.swap.mib, -1, kMaxMib);
  check.Range("swap.devices", spec.swap.devices, 1, kMaxSwapDevices);
  check.Range<std::int64_t>("disk.transfer_mb_per_s", spec.disk.transfer_mb_per_s, 1, 1'000'000);
  check.Range<std::int64_t>("disk.positioning_ns", spec.disk.positioning.n, 0, kSecond.n);
  check.Range("disk.nr_requests", spec.disk.nr_requests, 4, 100'000);
  const int page_kib = 1 << (spec.page_shift.n - 10);
  check.Range("disk.max_request_kib", spec.disk.max_request_kib, page_kib, 1 << 20);
  check.Range("nuisance.free_ram_per_mille", spec.nuisance.free_ram_per_mille, 0, 500);
  check.Range("nuisance.daemons", spec.nuisance.daemons, 0, 1000);
  check.Range<std::int64_t>("nuisance.daemon_pages", spec.nuisance.daemon_pages, 0, 1 << 20);
  check.Range<std::int64_t>("nuisance.daemon_period_ns", spec.nuisance.daemon_period.n,
                            kMillisecond.n, 1000 * kSecond.n);
  const absl::Status latency = ValidateLatencyParams(spec.latency);
  if (!latency.ok()) check.Complain(std::string(latency.message()));
}

std::int64_t ForNode(const std::vector<std::int64_t>& list, std::size_t position) {
  if (list.empty()) return 0;
  return list.size() == 1 ? list[0] : list[position];
}

void CheckMemory(const MachineSpec& spec, Checker& check) {
  const Topology topology = EffectiveTopology(spec);
  const std::int64_t total = topology.TotalMemoryBytes();
  check.Require(total >= kMinMachineBytes,
                absl::StrCat("memory of all nodes = ", total, " bytes at scale ", spec.scale,
                             ": at least 4 MiB are needed (memory_mib, scale)"));
  check.Require(total >> spec.page_shift.n <= kMaxFrames,
                absl::StrCat("memory of all nodes = ", total, " bytes: at most 2^32 pages of ",
                             1 << spec.page_shift.n, " bytes are allowed"));
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    const Node& node = topology.nodes[i];
    if (!node.has_memory()) continue;
    const std::int64_t reserve = ToBytes(BootReserve(spec, i), spec.page_shift);
    check.Require(
        reserve < node.memory_bytes,
        absl::StrCat("boot_reserve_pages = ", ForNode(spec.boot_reserve_pages, i), ": node ",
                     node.id.n, " has ", node.memory_bytes >> spec.page_shift.n, " pages in all"));
    const std::int64_t movable = ForNode(spec.movable_mib, i) * kMiB / spec.scale;
    check.Require(movable <= node.memory_bytes,
                  absl::StrCat("movable_mib = ", ForNode(spec.movable_mib, i), ": node ", node.id.n,
                               " has ", node.memory_bytes / kMiB, " MiB in all"));
  }
  if (!check.ok()) return;
  const absl::StatusOr<MemoryMap> map = EffectiveMemoryMap(spec);
  if (!map.ok()) check.Complain(std::string(map.status().message()));
}

}  // namespace

absl::Status Validate(const MachineSpec& spec) {
  Checker check(spec);
  // lint: message only
  check.Require(!spec.name.empty(), "name is empty");
  check.Require(!spec.topology.nodes.empty() && !spec.topology.cpus.empty(),
                "topology has no node or no CPU");
  const int shift = spec.page_shift.n;
  check.Require(shift == 12 || shift == 14 || shift == 16,
                absl::StrCat("page_shift = ", shift, ": allowed are 12, 14 and 16"));
  check.Range("scale", spec.scale, 1, 1 << 20);
  check.NodeList("memory_mib", spec.memory_mib, kMaxMib);
  check.Range<std::int64_t>("mib_per_cpu", spec.mib_per_cpu, 0, kMaxMib);
  check.NodeList("movable_mib", spec.movable_mib, kMaxMib);
  check.NodeList("boot_reserve_pages", spec.boot_reserve_pages, kMaxFrames);
  check.Range<std::int64_t>("slab_reclaimable_pages", spec.slab_reclaimable_pages, 0, kMaxFrames);
  check.Range<std::int64_t>("page_cache_pages", spec.page_cache_pages, 0, kMaxFrames);
  if (!check.ok()) return check.status();
  CheckDistances(spec, check);
  CheckParts(spec, check);
  if (check.ok()) CheckMemory(spec, check);
  return check.status();
}

Topology EffectiveTopology(const MachineSpec& spec) {
  PS_CHECK(spec.scale >= 1);
  Topology topology = spec.topology;
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    Node& node = topology.nodes[i];
    const bool for_all = spec.memory_mib.size() == 1;
    // One value for all does not give memory to a node that has none, unless no node has any.
    const bool skip = for_all && !node.has_memory() && spec.topology.TotalMemoryBytes() > 0;
    if (!spec.memory_mib.empty() && !skip) {
      node.memory_bytes = ForNode(spec.memory_mib, i) * kMiB;
    } else if (spec.memory_mib.empty() && spec.mib_per_cpu > 0) {
      const auto cpus = static_cast<std::int64_t>(std::max<std::size_t>(1, node.cpus.size()));
      // More is refused below, by the number of frames.
      node.memory_bytes = std::min(spec.mib_per_cpu, kMaxMib / cpus) * cpus * kMiB;
    }
    const std::int64_t pages = (node.memory_bytes / spec.scale) >> spec.page_shift.n;
    node.memory_bytes = pages << spec.page_shift.n;
  }
  if (!spec.distances.empty()) topology.distances = spec.distances;
  // What the topology lacked and the machine file has is not worth a note any more.
  std::erase_if(topology.notes, [&](const std::string& note) {
    return (!spec.distances.empty() && absl::StrContains(note, "distance")) ||
           (topology.TotalMemoryBytes() > 0 && absl::StartsWith(note, "no memory"));
  });
  return topology;
}

absl::StatusOr<MemoryMap> EffectiveMemoryMap(const MachineSpec& spec) {
  const Topology topology = EffectiveTopology(spec);
  MemoryMapOptions options;
  options.arch = spec.arch;
  options.page_shift = spec.page_shift;
  options.holes = spec.holes;
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    const Node& node = topology.nodes[i];
    options.nodes.push_back({.id = node.id,
                             .bytes = node.memory_bytes,
                             .movable_bytes = ForNode(spec.movable_mib, i) * kMiB / spec.scale});
    NodeMemory& memory = options.nodes.back();
    memory.movable_bytes = std::min(memory.movable_bytes, memory.bytes);
  }
  return BuildMemoryMap(options);
}

Pages BootReserve(const MachineSpec& spec, std::size_t position) {
  return Pages{ForNode(spec.boot_reserve_pages, position) / spec.scale};
}

Pages SwapPages(const MachineSpec& spec) {
  if (spec.swap.mib < 0) {
    return PagesFromBytes(2 * EffectiveTopology(spec).TotalMemoryBytes(), spec.page_shift);
  }
  return PagesFromBytes(spec.swap.mib * kMiB / spec.scale, spec.page_shift);
}

absl::StatusOr<Topology> LoadTopology(const std::string& source,
                                      const std::string& base_directory) {
  if (source == "host") return Topology::FromHost();
  if (!absl::EndsWith(source, ".xml")) return Topology::FromSynthetic(source);
  const std::filesystem::path path(source);
  if (path.is_absolute()) return Topology::FromXmlFile(source);
  return Topology::FromXmlFile(
      (std::filesystem::path(base_directory) / path).lexically_normal().string());
}

HostMemoryVerdict HostMemoryCheck(std::int64_t needed_bytes, std::int64_t available_bytes) {
  PS_CHECK(needed_bytes >= 0);
  if (available_bytes <= 0) return {};
  const std::int64_t usable = available_bytes - available_bytes / 8;
  if (needed_bytes <= usable) return {};
  HostMemoryVerdict verdict;
  verdict.fits = false;
  while (needed_bytes / verdict.suggested_scale > usable && verdict.suggested_scale < (1 << 20)) {
    verdict.suggested_scale *= 2;
  }
  verdict.line = absl::StrCat("the machine needs ", needed_bytes / kMiB,
                              " MiB for its page frames, the host has ", available_bytes / kMiB,
                              " MiB available: use scale = ", verdict.suggested_scale,
                              " or a smaller memory_mib");
  return verdict;
}

}  // namespace pagestorm::numa
