// Writes a Topology as hwloc XML 2.0: a tree of nested CPU sets with the nodes as memory children.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "numa/topology.h"

namespace pagestorm::numa {
namespace {

// A set of os indexes, printed the way hwloc does: 32-bit words, the highest first.
class Bits {
 public:
  void Set(int index) {
    const std::size_t word = static_cast<std::size_t>(index) / 32;
    if (word >= words_.size()) words_.resize(word + 1);
    words_[word] |= std::uint32_t{1} << (index % 32);
  }
  void Merge(const Bits& other) {
    words_.resize(std::max(words_.size(), other.words_.size()));
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }
  [[nodiscard]] bool Intersects(const Bits& other) const {
    for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }
  [[nodiscard]] bool Covers(const Bits& other) const {
    for (std::size_t i = 0; i < other.words_.size(); ++i) {
      const std::uint32_t mine = i < words_.size() ? words_[i] : 0;
      if ((other.words_[i] & ~mine) != 0) return false;
    }
    return true;
  }
  [[nodiscard]] std::string Text() const {
    std::string text;
    for (std::size_t i = words_.size(); i-- > 0;) {
      if (text.empty() && words_[i] == 0) continue;
      absl::StrAppend(&text, text.empty() ? "0x" : ",0x", absl::Hex(words_[i], absl::kZeroPad8));
    }
    return text.empty() ? "0x0" : text;
  }

 private:
  std::vector<std::uint32_t> words_;
};

std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

enum class Kind { kMachine, kGroup, kPackage, kL3, kL2, kCore, kPu };  // outer first

// An object of the tree; `nodes` are its memory children.
struct Object {
  Kind kind = Kind::kMachine;
  int os_index = -1;
  std::int64_t cache_bytes = 0;
  Bits cpus;
  std::size_t weight = 0;
  std::vector<const Node*> nodes;
  std::vector<std::size_t> children;
};

class Writer {
 public:
  explicit Writer(const Topology& topology) : topology_(topology) {}

  std::string Write() {
    CollectObjects();
    Nest();
    AttachNodes();
    text_ =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n";
    WriteObject(0, 1);
    WriteDistances();
    for (const MemoryAttribute& attribute : topology_.memory_attributes) WriteAttribute(attribute);
    text_ += "</topology>\n";
    return std::move(text_);
  }

 private:
  [[nodiscard]] Bits CpuBits(const std::vector<CpuId>& cpus) const {
    Bits bits;
    for (const CpuId cpu : cpus) bits.Set(topology_.CpuAt(cpu).os_index);
    return bits;
  }

  // Adds an object unless it cuts through one that is already there.
  void Add(Kind kind, const std::vector<CpuId>& cpus, int os_index, std::int64_t cache_bytes) {
    Object object{.kind = kind,
                  .os_index = os_index,
                  .cache_bytes = cache_bytes,
                  .cpus = CpuBits(cpus),
                  .weight = cpus.size(),
                  .nodes = {},
                  .children = {}};
    for (const Object& other : objects_) {
      if (!object.cpus.Intersects(other.cpus)) continue;
      if (!object.cpus.Covers(other.cpus) && !other.cpus.Covers(object.cpus)) return;
    }
    objects_.push_back(std::move(object));
  }

  template <class Key>
  void AddGroups(Kind kind, Key key, const std::vector<std::int64_t>& bytes) {
    std::map<int, std::vector<CpuId>> groups;
    for (const Cpu& cpu : topology_.cpus) groups[key(cpu)].push_back(cpu.id);
    for (const auto& [id, cpus] : groups) {
      Add(kind, cpus, kind == Kind::kCore ? id : -1,
          bytes.empty() ? 0 : bytes[static_cast<std::size_t>(id)]);
    }
  }

  void CollectObjects() {
    std::vector<CpuId> everyone;
    for (const Cpu& cpu : topology_.cpus) everyone.push_back(cpu.id);
    Add(Kind::kMachine, everyone, 0, 0);
    // Nodes first: where a package straddles nodes, it is the package that is left out.
    for (const Node& node : topology_.nodes) {
      if (node.has_cpus()) Add(Kind::kGroup, node.cpus, -1, 0);
    }
    for (const Package& package : topology_.packages) {
      if (!package.inferred) Add(Kind::kPackage, package.cpus, package.os_index, 0);
    }
    AddGroups(
        Kind::kL3, [](const Cpu& cpu) { return cpu.llc; }, topology_.llc_bytes);
    AddGroups(
        Kind::kL2, [](const Cpu& cpu) { return cpu.l2; }, topology_.l2_bytes);
    AddGroups(Kind::kCore, [](const Cpu& cpu) { return cpu.core; }, {});
    for (const Cpu& cpu : topology_.cpus) Add(Kind::kPu, {cpu.id}, cpu.os_index, 0);
    std::stable_sort(objects_.begin(), objects_.end(), [](const Object& a, const Object& b) {
      return a.weight != b.weight ? a.weight > b.weight : a.kind < b.kind;
    });
  }

  // Each object becomes a child of the innermost one around it.
  void Nest() {
    for (std::size_t i = 1; i < objects_.size(); ++i) {
      std::size_t parent = 0;
      for (bool deeper = true; deeper;) {
        deeper = false;
        for (const std::size_t child : objects_[parent].children) {
          if (!objects_[child].cpus.Covers(objects_[i].cpus)) continue;
          parent = child;
          deeper = true;
          break;
        }
      }
      objects_[parent].children.push_back(i);
    }
  }

  // A node belongs to the group with exactly its CPUs; a node without CPUs to a group of its own.
  void AttachNodes() {
    for (const Node& node : topology_.nodes) {
      if (!node.has_cpus()) {
        objects_.push_back(Object{.kind = Kind::kGroup,
                                  .os_index = -1,
                                  .cache_bytes = 0,
                                  .cpus = {},
                                  .weight = 0,
                                  .nodes = {&node},
                                  .children = {}});
        objects_[0].children.push_back(objects_.size() - 1);
        continue;
      }
      const Bits bits = CpuBits(node.cpus);
      const auto at = std::find_if(objects_.begin(), objects_.end(), [&](const Object& o) {
        return o.kind == Kind::kGroup && o.cpus.Covers(bits) && bits.Covers(o.cpus);
      });
      PS_CHECK(at != objects_.end(), "homes are disjoint, so every node has its group");
      at->nodes.push_back(&node);
    }
  }

  [[nodiscard]] Bits NodeBits(std::size_t index) const {
    Bits bits;
    for (const Node* node : objects_[index].nodes) bits.Set(node->id.n);
    for (const std::size_t child : objects_[index].children) bits.Merge(NodeBits(child));
    return bits;
  }

  static std::string Sets(const std::string& cpus, const std::string& nodes) {
    return absl::StrCat(" cpuset=\"", cpus, "\" complete_cpuset=\"", cpus, "\" nodeset=\"", nodes,
                        "\" complete_nodeset=\"", nodes, "\"");
  }

  static std::string TypeText(const Object& object) {
    switch (object.kind) {
      case Kind::kMachine:
        return "type=\"Machine\"";
      case Kind::kGroup:
        return "type=\"Group\" kind=\"0\" subkind=\"0\"";
      case Kind::kPackage:
        return "type=\"Package\"";
      case Kind::kL3:
      case Kind::kL2:
        return absl::StrCat("type=\"", object.kind == Kind::kL3 ? "L3" : "L2",
                            "Cache\" cache_size=\"", object.cache_bytes, "\" depth=\"",
                            object.kind == Kind::kL3 ? 3 : 2,
                            "\" cache_linesize=\"64\" cache_associativity=\"0\" cache_type=\"0\"");
      case Kind::kCore:
        return "type=\"Core\"";
      case Kind::kPu:
        return "type=\"PU\"";
    }
    return "";
  }

  // A memory child says its own node, everything else all the nodes inside or, as hwloc has it,
  // around it; hwloc adds the latter itself.
  void WriteObject(std::size_t index, int depth) {
    const Object& object = objects_[index];
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    const std::string cpus = object.cpus.Text();
    const std::string nodes = NodeBits(index).Text();
    absl::StrAppend(&text_, indent, "<object ", TypeText(object));
    if (object.os_index >= 0) absl::StrAppend(&text_, " os_index=\"", object.os_index, "\"");
    absl::StrAppend(&text_, Sets(cpus, nodes));
    if (object.kind == Kind::kMachine) {
      absl::StrAppend(&text_, " allowed_cpuset=\"", cpus, "\" allowed_nodeset=\"", nodes, "\"");
    }
    absl::StrAppend(&text_, " gp_index=\"", ++gp_index_, "\"");
    if (object.nodes.empty() && object.children.empty()) {
      text_ += "/>\n";
      return;
    }
    text_ += ">\n";
    for (const Node* node : object.nodes) WriteNode(*node, cpus, indent);
    for (const std::size_t child : object.children) WriteObject(child, depth + 1);
    absl::StrAppend(&text_, indent, "</object>\n");
  }

  void WriteNode(const Node& node, const std::string& cpus, const std::string& indent) {
    Bits bits;
    bits.Set(node.id.n);
    node_gp_index_[node.id] = ++gp_index_;
    absl::StrAppend(&text_, indent, "  <object type=\"NUMANode\" os_index=\"", node.id.n, "\"",
                    Sets(cpus, bits.Text()), " gp_index=\"", gp_index_, "\"");
    if (!node.subtype.empty()) {
      absl::StrAppend(&text_, " subtype=\"", Escape(node.subtype), "\"");
    }
    absl::StrAppend(&text_, " local_memory=\"", node.memory_bytes, "\"/>\n");
  }

  void WriteDistances() {
    if (topology_.nodes.size() < 2) return;
    std::string indexes;
    for (const Node& node : topology_.nodes) absl::StrAppend(&indexes, node.id.n, " ");
    absl::StrAppend(&text_, "  <distances2 type=\"NUMANode\" nbobjs=\"", topology_.nodes.size(),
                    "\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n    <indexes length=\"",
                    indexes.size(), "\">", indexes, "</indexes>\n");
    for (std::size_t row = 0; row < topology_.nodes.size(); ++row) {
      std::string values;
      for (std::size_t column = 0; column < topology_.nodes.size(); ++column) {
        absl::StrAppend(&values, topology_.distances[row * topology_.nodes.size() + column], " ");
      }
      absl::StrAppend(&text_, "    <u64values length=\"", values.size(), "\">", values,
                      "</u64values>\n");
    }
    text_ += "  </distances2>\n";
  }

  void WriteAttribute(const MemoryAttribute& attribute) {
    constexpr int kHigherIsBetter = 1;
    constexpr int kLowerIsBetter = 2;
    constexpr int kNeedsInitiator = 4;
    const bool bandwidth = attribute.name.find("Bandwidth") != std::string::npos;
    absl::StrAppend(&text_, "  <memattr name=\"", Escape(attribute.name), "\" flags=\"",
                    kNeedsInitiator + (bandwidth ? kHigherIsBetter : kLowerIsBetter), "\">\n");
    for (const MemoryAttributeValue& value : attribute.values) {
      absl::StrAppend(&text_, "    <memattr_value target_obj_type=\"NUMANode\"",
                      " target_obj_gp_index=\"", node_gp_index_.at(value.target), "\" value=\"",
                      value.value, "\" initiator_cpuset=\"", CpuBits(value.initiator).Text(),
                      "\"/>\n");
    }
    text_ += "  </memattr>\n";
  }

  const Topology& topology_;
  std::vector<Object> objects_;
  std::string text_;
  int gp_index_ = 0;
  std::map<NodeId, int> node_gp_index_;
};

}  // namespace

std::string ToXml(const Topology& topology) { return Writer(topology).Write(); }

absl::Status WriteXmlFile(const Topology& topology, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << ToXml(topology);
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  return absl::OkStatus();
}

}  // namespace pagestorm::numa
