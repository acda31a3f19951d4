// The only file that knows hwloc. Checked against hwloc 2.9.
//
// Group objects are kept, because a node's CPUs are those of its parent, but never read: what
// hwloc's own grouping by distance adds (design: HWLOC_GROUPING) thus has no effect here.
#include <hwloc.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "numa/crash_guard.h"
#include "numa/topology.h"
#include "numa/topology_assembly.h"

namespace pagestorm::numa {
namespace {

constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{64} << 20;
constexpr unsigned kTrialSeconds = 20;  // the largest export at hand (256 PUs) takes 20 ms

// hwloc reports a damaged file on stderr in a banner of its own; our status line replaces it. It
// reads the variable once, at its first error. A user's own setting wins.
void SilenceHwloc() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("HWLOC_HIDE_ERRORS", "2", /*overwrite=*/0); });
}

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

HwlocTopology NewTopology() {
  SilenceHwloc();
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  return HwlocTopology(topology);
}

std::vector<int> Indexes(hwloc_const_bitmap_t set) {
  std::vector<int> indexes;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return indexes;  // infinite: damaged
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) indexes.push_back(i);
  return indexes;
}

bool IsDataCache(const hwloc_obj& object, hwloc_obj_type_t type) {
  return object.type == type && object.attr->cache.type != HWLOC_OBJ_CACHE_INSTRUCTION;
}

RawCpu ReadCpu(const hwloc_obj& pu) {
  constexpr int kL2Key = 1 << 24;  // keeps keys of L2 and L3 apart where an L2 is the last level
  RawCpu cpu;
  cpu.os_index = static_cast<int>(pu.os_index);
  for (const hwloc_obj* object = pu.parent; object != nullptr; object = object->parent) {
    const int key = static_cast<int>(object->logical_index);
    if (object->type == HWLOC_OBJ_CORE) cpu.core = key;
    if (IsDataCache(*object, HWLOC_OBJ_L2CACHE)) {
      cpu.l2 = key;
      cpu.l2_bytes = static_cast<std::int64_t>(object->attr->cache.size);
      cpu.llc = kL2Key + key;
      cpu.llc_bytes = cpu.l2_bytes;
    }
    if (IsDataCache(*object, HWLOC_OBJ_L3CACHE)) {
      cpu.llc = key;
      cpu.llc_bytes = static_cast<std::int64_t>(object->attr->cache.size);
    }
    if (object->type == HWLOC_OBJ_PACKAGE) {
      cpu.package = key;
      cpu.package_os_index = static_cast<int>(object->os_index);
    }
  }
  return cpu;
}

RawNode ReadNode(const hwloc_obj& object) {
  RawNode node;
  node.os_index = object.os_index;
  // Above 2^63 it is damaged; as a negative number the assembly refuses it.
  node.memory_bytes = static_cast<std::int64_t>(object.attr->numanode.local_memory);
  node.cpus = Indexes(object.cpuset);
  if (object.subtype != nullptr) node.subtype = object.subtype;
  return node;
}

// The latency matrix of the nodes that covers most of them; of equals, one from the firmware.
std::optional<RawDistances> ReadDistances(hwloc_topology_t topology) {
  unsigned count = 0;
  hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, nullptr, 0, 0);
  std::vector<hwloc_distances_s*> all(count, nullptr);
  if (count == 0 ||
      hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, all.data(), 0, 0) != 0) {
    return std::nullopt;
  }
  const auto rank = [](const hwloc_distances_s& d) {
    return std::pair(d.nbobjs, (d.kind & HWLOC_DISTANCES_KIND_FROM_OS) != 0);
  };
  const hwloc_distances_s* best = nullptr;
  for (const hwloc_distances_s* matrix : all) {
    if (matrix == nullptr || (matrix->kind & HWLOC_DISTANCES_KIND_MEANS_LATENCY) == 0) continue;
    if (best == nullptr || rank(*matrix) > rank(*best)) best = matrix;
  }
  std::optional<RawDistances> raw;
  if (best != nullptr) {
    raw.emplace();
    for (unsigned i = 0; i < best->nbobjs; ++i) {
      raw->nodes.push_back(best->objs[i] == nullptr ? -1 : std::int64_t{best->objs[i]->os_index});
    }
    raw->values.assign(best->values,
                       best->values + std::size_t{best->nbobjs} * std::size_t{best->nbobjs});
  }
  for (hwloc_distances_s* matrix : all) {
    if (matrix != nullptr) hwloc_distances_release(topology, matrix);
  }
  return raw;
}

RawAttribute ReadAttribute(hwloc_topology_t topology, hwloc_memattr_id_t id, const char* name) {
  RawAttribute attribute{.name = name, .values = {}};
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    unsigned count = 0;
    hwloc_memattr_get_initiators(topology, id, node, 0, &count, nullptr, nullptr);
    std::vector<hwloc_location> initiators(count);
    std::vector<hwloc_uint64_t> values(count);
    if (count == 0 || hwloc_memattr_get_initiators(topology, id, node, 0, &count, initiators.data(),
                                                   values.data()) != 0) {
      continue;
    }
    for (unsigned i = 0; i < count; ++i) {
      RawAttributeValue value;
      value.target = node->os_index;
      value.value = values[i];
      const hwloc_location& from = initiators[i];
      value.initiator =
          Indexes(from.type == HWLOC_LOCATION_TYPE_CPUSET ? from.location.cpuset
                                                          : from.location.object->cpuset);
      attribute.values.push_back(std::move(value));
    }
  }
  return attribute;
}

std::vector<RawAttribute> ReadAttributes(hwloc_topology_t topology) {
  constexpr std::pair<hwloc_memattr_id_t, const char*> kAttributes[] = {
      {HWLOC_MEMATTR_ID_BANDWIDTH, "Bandwidth"},
      {HWLOC_MEMATTR_ID_LATENCY, "Latency"},
      {HWLOC_MEMATTR_ID_READ_BANDWIDTH, "ReadBandwidth"},
      {HWLOC_MEMATTR_ID_WRITE_BANDWIDTH, "WriteBandwidth"},
      {HWLOC_MEMATTR_ID_READ_LATENCY, "ReadLatency"},
      {HWLOC_MEMATTR_ID_WRITE_LATENCY, "WriteLatency"}};
  std::vector<RawAttribute> attributes;
  for (const auto& [id, name] : kAttributes) {
    RawAttribute attribute = ReadAttribute(topology, id, name);
    if (!attribute.values.empty()) attributes.push_back(std::move(attribute));
  }
  return attributes;
}

absl::StatusOr<Topology> Convert(hwloc_topology_t topology, const std::string& name) {
  RawTopology raw;
  raw.name = name;
  for (hwloc_obj_t pu = nullptr;
       (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr;) {
    raw.cpus.push_back(ReadCpu(*pu));
  }
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    raw.nodes.push_back(ReadNode(*node));
  }
  raw.distances = ReadDistances(topology);
  raw.attributes = ReadAttributes(topology);
  return Assemble(raw);
}

absl::Status Invalid(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("topology ", name, ": ", what));
}

absl::StatusOr<Topology> LoadXml(const std::string& xml, const std::string& name) {
  const HwlocTopology topology = NewTopology();
  if (topology == nullptr) return absl::ResourceExhaustedError("hwloc cannot start");
  hwloc_topology_set_flags(topology.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  // hwloc wants the final NUL inside the length.
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml.c_str(), static_cast<int>(xml.size()) + 1) !=
      0) {
    return Invalid(name, "not well-formed XML or not an hwloc export (damaged or cut short?)");
  }
  if (hwloc_topology_load(topology.get()) != 0) {
    const bool has_node = xml.find("\"NUMANode\"") != std::string::npos;
    return Invalid(name, has_node ? "hwloc cannot load it (damaged?)"
                                  : "hwloc cannot load it: it has no NUMANode object");
  }
  return Convert(topology.get(), name);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("topology ", path, ": no such file"));
  }
  if (!std::filesystem::is_regular_file(path, error)) return Invalid(path, "not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > kMaxFileBytes) return Invalid(path, "larger than 64 MiB");
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    return Invalid(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  return text;
}

// The number of PUs and nodes a synthetic description asks for, so that "Core:99999999" is refused
// before hwloc tries to build it: the product of all counts outside brackets and parentheses.
bool SyntheticTooLarge(const std::string& text) {
  std::int64_t product = 1;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ':' || depth != 0) continue;
    std::size_t end = i + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    std::int64_t count = 0;
    if (end == i + 1) continue;
    if (!absl::SimpleAtoi(text.substr(i + 1, end - i - 1), &count)) return true;
    if (count > kMaxCpus) return true;
    product *= std::max<std::int64_t>(count, 1);
    if (product > kMaxCpus) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<Topology> Topology::FromXml(std::string_view xml, const std::string& name) {
  const std::string text(xml);
  if (text.empty()) return Invalid(name, "empty");
  if (text.size() > kMaxFileBytes) return Invalid(name, "larger than 64 MiB");
  if (text.find("<topology") == std::string::npos) {
    return Invalid(name, "not an hwloc XML export: no <topology> element");
  }
  // hwloc 2.9 trusts the structure of what it reads: of 3,000 damaged exports five made it crash.
  const TrialResult trial =
      TryInChild([&] { return LoadXml(text, name).ok() ? 0 : 1; }, kTrialSeconds);
  if (trial.outcome == TrialResult::Outcome::kCrashed) {
    return Invalid(name, "damaged: hwloc crashes on it");
  }
  if (trial.outcome == TrialResult::Outcome::kTimedOut) {
    return Invalid(name, "damaged: hwloc does not come to an end with it");
  }
  return LoadXml(text, name);
}

absl::StatusOr<Topology> Topology::FromXmlFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<Topology> topology = FromXml(*text, path);
  if (topology.ok()) topology->name = std::filesystem::path(path).filename().string();
  return topology;
}

absl::StatusOr<Topology> Topology::FromSynthetic(const std::string& description) {
  const std::string name = absl::StrCat("\"", description, "\"");
  if (SyntheticTooLarge(description)) {
    return Invalid(name, absl::StrCat("more than ", kMaxCpus, " CPUs"));
  }
  const HwlocTopology topology = NewTopology();
  if (topology == nullptr) return absl::ResourceExhaustedError("hwloc cannot start");
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    return Invalid(name,
                   "not a synthetic description; an example is "
                   "\"Package:2 [NUMANode(memory=8GiB)] L3Cache:1 Core:8 PU:2\"");
  }
  return Convert(topology.get(), name);
}

absl::StatusOr<Topology> Topology::FromHost() {
  const HwlocTopology topology = NewTopology();
  if (topology == nullptr || hwloc_topology_load(topology.get()) != 0) {
    return absl::UnavailableError("topology host: hwloc cannot read this machine");
  }
  return Convert(topology.get(), "host");
}

}  // namespace pagestorm::numa
