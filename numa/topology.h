// What machine is this: nodes, CPUs, caches, packages, distances and memory attributes.
//
// A Topology is plain data with value semantics and no third-party type in it. It is read from an
// hwloc XML export (formats 1.x and 2.x), from an hwloc synthetic description, from this host, or
// built from a few numbers. Whatever the source says, a Topology that has been returned is whole:
//
// Invariants, verified by CheckInvariants():
//   - nodes are in ascending order of their numbers, which may have holes (0, 8, 252): index a
//     per-node array by NodePosition(), never by NodeId::n;
//   - CpuId is dense from 0 in ascending order of the operating system's numbers (Cpu::os_index);
//   - every CPU belongs to exactly one node, package, core, L2 and last-level cache;
//   - distances are a full matrix, 1..255, 10 on the diagonal and never smaller elsewhere.
//
// What had to be repaired, assumed or dropped for that is said in `notes`, one line each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/units.h"

namespace pagestorm::numa {

inline constexpr int kLocalDistance = 10;   // ACPI SLIT: a node to itself
inline constexpr int kRemoteDistance = 20;  // Linux' value when the firmware says nothing
inline constexpr int kMaxDistance = 255;    // ACPI SLIT: unreachable
inline constexpr int kMaxCpus = 4096;       // largest NR_CPUS of x86-64
inline constexpr int kMaxNodes = 1024;      // largest MAX_NUMNODES; node numbers are below it

// A hardware thread. All group ids are dense from 0 in order of their first CPU.
struct Cpu {
  CpuId id;
  int os_index = 0;  // the number in the source (hwloc's P#)
  int core = 0;
  int package = 0;
  int llc = 0;  // group that shares the last-level (L3, else L2) cache; without cache
                // information the CPUs of one package and node
  int l2 = 0;   // group that shares an L2; the core without cache information
  int smt = 0;  // position among the threads of the core, 0 first
  NodeId node;  // home: the smallest node around it, else the nearest one

  friend bool operator==(const Cpu&, const Cpu&) = default;
};

struct Node {
  NodeId id;
  std::int64_t memory_bytes = 0;
  std::vector<CpuId> cpus;  // ascending; empty for a memory-only node
  std::string subtype;      // hwloc's: "NVM", "HBM", "MCDRAM", ...; mostly empty

  [[nodiscard]] bool has_cpus() const { return !cpus.empty(); }
  [[nodiscard]] bool has_memory() const { return memory_bytes > 0; }
  friend bool operator==(const Node&, const Node&) = default;
};

struct Package {
  int os_index = -1;      // -1: the source gives none
  bool inferred = false;  // not in the source: CPUs without a package get one for each node
  std::vector<CpuId> cpus{};

  friend bool operator==(const Package&, const Package&) = default;
};

// One row of the firmware's heterogeneous memory table: what `initiator` sees of `target`.
struct MemoryAttributeValue {
  NodeId target;
  std::vector<CpuId> initiator;  // empty: holds for everyone
  std::uint64_t value = 0;

  friend bool operator==(const MemoryAttributeValue&, const MemoryAttributeValue&) = default;
};

// "Bandwidth", "ReadBandwidth", "WriteBandwidth" in MiB/s; "Latency", "ReadLatency",
// "WriteLatency" in ns.
struct MemoryAttribute {
  std::string name;
  std::vector<MemoryAttributeValue> values;  // ascending by target, then initiator

  friend bool operator==(const MemoryAttribute&, const MemoryAttribute&) = default;
};

// Input of Topology::Synthetic: `{.nodes = 2, .cores_per_node = 8, .remote_distance = 21}`.
struct SyntheticShape {
  int nodes = 1;
  int cores_per_node = 1;
  int threads_per_core = 1;
  int cores_per_llc = 0;      // 0: one last-level cache a node
  int nodes_per_package = 1;  // sub-NUMA clusters
  std::int64_t memory_bytes_per_node = std::int64_t{1} << 30;
  int remote_distance = kRemoteDistance;
  std::int64_t llc_bytes = 0;           // 0: unknown
  std::vector<int> distances{};         // row-major; not empty: replaces remote_distance
  std::vector<int> cpuless_nodes{};     // numbers of nodes that get no CPU
  std::vector<int> memoryless_nodes{};  // numbers of nodes that get no memory
};

struct Topology {
  std::string name;  // where it came from, for messages: a file's base name, "host", "synthetic"
  std::vector<Cpu> cpus;
  std::vector<Node> nodes;
  std::vector<Package> packages;
  int cores = 0;
  std::vector<std::int64_t> llc_bytes;  // by Cpu::llc; 0 = unknown
  std::vector<std::int64_t> l2_bytes;   // by Cpu::l2; 0 = unknown
  std::vector<int> distances;           // row-major by node position, [from][to]
  std::vector<MemoryAttribute> memory_attributes;
  std::vector<std::string> notes;

  // Reads an hwloc XML export, disallowed objects included: the emulated machine is the whole
  // machine, not the share of it that the exporting process was allowed to use. A file that is
  // missing, empty, no topology, damaged or larger than 64 MiB is InvalidArgument (NotFound when
  // missing) with one line that names it; nothing is printed and hwloc cannot take the process down
  // (it loads the text in a forked child first). Reads the file, no other host state.
  static absl::StatusOr<Topology> FromXmlFile(const std::string& path);
  // The same from text; `name` is used in messages.
  static absl::StatusOr<Topology> FromXml(std::string_view xml, const std::string& name);

  // hwloc's synthetic language: "Package:2 [NUMANode(memory=8GiB)] L3Cache:1 Core:8 PU:2".
  static absl::StatusOr<Topology> FromSynthetic(const std::string& description);

  // The machine this process runs on, as far as the process may use it.
  static absl::StatusOr<Topology> FromHost();

  // A regular machine without hwloc, mainly for tests. PS_CHECKs that the shape makes sense.
  static Topology Synthetic(const SyntheticShape& shape);

  [[nodiscard]] std::optional<std::size_t> NodePosition(NodeId node) const;
  [[nodiscard]] bool HasNode(NodeId node) const { return NodePosition(node).has_value(); }
  [[nodiscard]] const Node& NodeAt(NodeId node) const;  // PS_CHECKs that it exists
  [[nodiscard]] const Cpu& CpuAt(CpuId cpu) const;      // PS_CHECKs that it exists
  // SLIT distance; both nodes must exist.
  [[nodiscard]] int Distance(NodeId from, NodeId to) const;
  [[nodiscard]] std::int64_t TotalMemoryBytes() const;
  [[nodiscard]] std::size_t node_count() const { return nodes.size(); }
  [[nodiscard]] std::size_t cpu_count() const { return cpus.size(); }
  [[nodiscard]] int source_packages() const;  // packages that the source named

  // One line: "2 packages, 12 cores, 24 CPUs, 2 nodes: 0 18422 MiB 12 CPUs, 1 18432 MiB 12 CPUs".
  [[nodiscard]] std::string Summary() const;

  void CheckInvariants() const;  // aborts on a violation

  // `notes` take part: a topology that went through ToXml() has fewer.
  friend bool operator==(const Topology&, const Topology&) = default;
};

// The topology in hwloc's XML format 2.0, loadable by lstopo and by FromXml(), which gives back an
// equal Topology up to name and notes (a package that straddles nodes is left out, as hwloc
// would). Says what the emulated machine is, after repairs; a function of its argument alone.
[[nodiscard]] std::string ToXml(const Topology& topology);
absl::Status WriteXmlFile(const Topology& topology, const std::string& path);

}  // namespace pagestorm::numa
