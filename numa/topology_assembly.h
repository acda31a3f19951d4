// From what a source says about a machine to a whole Topology.
//
// A source (hwloc, or a builder) fills a RawTopology with whatever it knows; Assemble() numbers the
// CPUs, gives each a home, completes packages and caches, and repairs the distance matrix.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "numa/topology.h"

namespace pagestorm::numa {

// -1 or an arbitrary key that the members of a group share.
struct RawCpu {
  int os_index = 0;
  int core = -1;
  int package = -1;
  int llc = -1;
  int l2 = -1;
  int package_os_index = -1;
  std::int64_t llc_bytes = 0;
  std::int64_t l2_bytes = 0;
};

struct RawNode {
  std::int64_t os_index = 0;
  std::int64_t memory_bytes = 0;
  std::vector<int> cpus;  // os indexes of all CPUs around it; nodes may overlap
  std::string subtype;
};

struct RawDistances {
  std::vector<std::int64_t> nodes;    // os indexes
  std::vector<std::uint64_t> values;  // row-major
};

struct RawAttributeValue {
  std::int64_t target = 0;
  std::vector<int> initiator;  // CPU os indexes
  std::uint64_t value = 0;
};
struct RawAttribute {
  std::string name;
  std::vector<RawAttributeValue> values;
};

struct RawTopology {
  std::string name;
  std::vector<RawCpu> cpus;
  std::vector<RawNode> nodes;
  std::optional<RawDistances> distances;
  std::vector<RawAttribute> attributes;
};

// Outcomes: a Topology that satisfies its invariants, or InvalidArgument with one line (no CPU, no
// node, too many or duplicate ones, a node number out of range, an absurd memory size).
//
// Homes: of the nodes around a CPU the one with the fewest CPUs, then one without a subtype (DRAM),
// then the lowest number. A CPU with no node around it (its node is offline or was not exported)
// goes to the lowest node that serves its package, else to the lowest node with CPUs, else memory.
absl::StatusOr<Topology> Assemble(const RawTopology& raw);

// The matrix for the nodes `ids` (ascending), row-major. Absent: 10 local, 20 remote. A row whose
// diagonal is its minimum is scaled to a diagonal of 10; a matrix with a diagonal that is not
// minimal is insane: the diagonal alone is replaced if all other entries exceed 10, otherwise the
// whole matrix, as Linux ignores an invalid SLIT. Missing pairs get 20; entries are limited to 255.
// Appends one note for each kind of repair.
std::vector<int> RepairDistances(const std::vector<std::int64_t>& ids,
                                 const std::optional<RawDistances>& raw,
                                 std::vector<std::string>& notes);

}  // namespace pagestorm::numa
