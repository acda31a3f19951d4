// Every topology file at hand against the facts that its index states. Files under a permissive
// licence are in tests/data/topologies; the others are read from ../shared/data/topologies beside
// the tree where that exists, and their test says so where it does not.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "numa/topology.h"
#include "tests/support/source_root.h"

namespace pagestorm::numa {
namespace {

struct Facts {
  std::string file;
  int packages;
  int cores;
  std::size_t cpus;
  std::vector<int> nodes;
  std::vector<std::int64_t> mebibytes;
  std::vector<int> cpuless;
  std::vector<int> distances;
};

// For the ia64 file the distances are those after repair: its own matrix is insane.
const std::vector<Facts>& AllFacts() {
  static const std::vector<Facts> facts = {
      {"2s-2n-westmere-12c24t.xml", 2, 12, 24, {0, 1}, {18422, 18432}, {}, {10, 20, 20, 10}},
      {"2s-2n-haswell-16c32t.v1.xml", 2, 16, 32, {0, 1}, {31986, 32253}, {}, {10, 20, 20, 10}},
      {"2s-2n-cascadelake-48c96t.xml", 2, 48, 96, {0, 1}, {193060, 193524}, {}, {10, 21, 21, 10}},
      {"2s-2n-epyc7742-2tib-per-node.v1.xml",
       2,
       128,
       256,
       {0, 1},
       {2050550, 2063066},
       {},
       {10, 32, 32, 10}},
      {"2s-8n-epyc-naples-nps4-48c96t.xml",
       2,
       48,
       96,
       {0, 1, 2, 3, 4, 5, 6, 7},
       {32657, 32768, 32768, 32768, 32768, 32768, 32768, 32768},
       {},
       {10, 16, 16, 16, 32, 32, 32, 32, 16, 10, 16, 16, 32, 32, 32, 32, 16, 16, 10, 16, 32, 32,
        32, 32, 16, 16, 16, 10, 32, 32, 32, 32, 32, 32, 32, 32, 10, 16, 16, 16, 32, 32, 32, 32,
        16, 10, 16, 16, 32, 32, 32, 32, 16, 16, 10, 16, 32, 32, 32, 32, 16, 16, 16, 10}},
      {"2s-4n-haswell-cluster-on-die-28c.v1.xml",
       2,
       28,
       28,
       {0, 1, 2, 3},
       {16117, 16384, 16384, 16384},
       {},
       {10, 21, 31, 31, 21, 10, 31, 31, 31, 31, 10, 21, 31, 31, 21, 10}},
      {"4p-4n-cascadelake-ap-96c192t.v1.xml",
       4,
       96,
       192,
       {0, 1, 2, 3},
       {96941, 98304, 98304, 98304},
       {},
       {10, 21, 21, 21, 21, 10, 21, 21, 21, 21, 10, 21, 21, 21, 21, 10}},
      {"4s-4n-westmere-ex-40c.xml",
       3,
       40,
       40,
       {0, 1, 2, 3},
       {131059, 131072, 131072, 131072},
       {},
       {10, 20, 20, 20, 20, 10, 20, 20, 20, 20, 10, 20, 20, 20, 20, 10}},
      {"4s-8n-opteron-interlagos-64c-uneven.xml",
       4,
       64,
       64,
       {0, 1, 2, 3, 4, 5, 6, 7},
       {16377, 16384, 16384, 16384, 16384, 8192, 16384, 16368},
       {},
       {10, 16, 16, 22, 16, 22, 16, 22, 16, 10, 22, 16, 16, 22, 22, 16, 16, 22, 10, 16, 16, 16,
        16, 16, 22, 16, 16, 10, 16, 16, 22, 22, 16, 16, 16, 16, 10, 16, 16, 22, 22, 22, 16, 16,
        16, 10, 22, 16, 16, 22, 16, 22, 16, 22, 10, 16, 22, 16, 16, 22, 22, 16, 16, 10}},
      {"4n-16p-dunnington-96c.xml",
       16,
       96,
       96,
       {0, 1, 2, 3},
       {48895, 48896, 48896, 48896},
       {},
       {10, 26, 26, 26, 26, 10, 26, 26, 26, 26, 10, 26, 26, 26, 26, 10}},
      {"8s-8n-opteron-16c.xml",
       8,
       16,
       16,
       {0, 1, 2, 3, 4, 5, 6, 7},
       {8190, 8192, 8192, 8192, 8192, 8192, 8192, 8192},
       {},
       {10, 20, 20, 20, 20, 20, 20, 20, 20, 10, 20, 20, 20, 20, 20, 20, 20, 20, 10, 20, 20, 20,
        20, 20, 20, 20, 20, 10, 20, 20, 20, 20, 20, 20, 20, 20, 10, 20, 20, 20, 20, 20, 20, 20,
        20, 10, 20, 20, 20, 20, 20, 20, 20, 20, 10, 20, 20, 20, 20, 20, 20, 20, 20, 10}},
      {"8s-5of8n-opteron-cpuset-restricted.xml",
       6,
       10,
       10,
       {1, 2, 3, 4, 5},
       {8192, 8192, 8192, 8192, 8192},
       {4, 5},
       {10, 20, 20, 20, 20, 20, 10, 20, 20, 20, 20, 20, 10,
        20, 20, 20, 20, 20, 10, 20, 20, 20, 20, 20, 10}},
      {"1s-8n-knl-snc4-flat-64c256t.xml",
       1,
       64,
       256,
       {0, 1, 2, 3, 4, 5, 6, 7},
       {23848, 24182, 24182, 24182, 4032, 4032, 4016, 4031},
       {4, 5, 6, 7},
       {10, 21, 21, 21, 31, 41, 41, 41, 21, 10, 21, 21, 41, 31, 41, 41, 21, 21, 10, 21, 41, 41,
        31, 41, 21, 21, 21, 10, 41, 41, 41, 31, 31, 41, 41, 41, 10, 41, 41, 41, 41, 31, 41, 41,
        41, 10, 41, 41, 41, 41, 31, 41, 41, 41, 10, 41, 41, 41, 41, 31, 41, 41, 41, 10}},
      {"2s-6n-power9-cpuless-gpu-nodes.v1.xml",
       2,
       40,
       160,
       {0, 8, 252, 253, 254, 255},
       {130749, 130813, 16128, 16128, 16128, 16128},
       {252, 253, 254, 255},
       {10, 40, 80, 80, 80, 80, 40, 10, 80, 80, 80, 80, 80, 80, 10, 80, 80, 80,
        80, 80, 80, 10, 80, 80, 80, 80, 80, 80, 10, 80, 80, 80, 80, 80, 80, 10}},
      {"2s-2n-thunderx2-64c256t.v1.xml",
       2,
       64,
       256,
       {0, 1},
       {130419, 130915},
       {},
       {10, 20, 20, 10}},
      {"2n-plus-cpuless-node-ia64.v1.xml",
       4,
       8,
       8,
       {0, 2, 16},
       {97712, 98240, 996},
       {16},
       {10, 20, 20, 20, 10, 20, 20, 20, 10}},
      {"2s-offline-cpu0-and-node0.xml", 2, 17, 17, {1}, {65536}, {}, {10}},
      {"6n-memattrs-initiators-dram-nvm.xml",
       2,
       8,
       8,
       {5, 6, 7, 8, 9, 10},
       {95163, 96768, 759808, 95256, 96730, 761856},
       {7, 10},
       {10, 13, 17, 21, 21, 28, 13, 10, 17, 21, 21, 28, 17, 17, 10, 28, 28, 28,
        21, 21, 28, 10, 13, 17, 21, 21, 28, 13, 10, 17, 28, 28, 28, 17, 17, 10}},
      {"2s-8n-epyc-turin-nps4-memattrs.xml",
       2,
       128,
       256,
       {0, 1, 2, 3, 4, 5, 6, 7},
       {193103, 193528, 193528, 193528, 193528, 193528, 193528, 193407},
       {},
       {10, 12, 12, 12, 32, 32, 32, 32, 12, 10, 12, 12, 32, 32, 32, 32, 12, 12, 10, 12, 32, 32,
        32, 32, 12, 12, 12, 10, 32, 32, 32, 32, 32, 32, 32, 32, 10, 12, 12, 12, 32, 32, 32, 32,
        12, 10, 12, 12, 32, 32, 32, 32, 12, 12, 10, 12, 32, 32, 32, 32, 12, 12, 12, 10}},
      {"1s-1n-cascadelake-8c16t.v1.xml", 1, 8, 16, {0}, {46760}, {}, {10}},
      {"2p-1n-node-as-root.v1.xml", 2, 2, 2, {0}, {2048}, {}, {10}},
      {"8n-power7-256t.xml",
       64,
       64,
       256,
       {0, 1, 4, 5, 8, 9, 12, 13},
       {57088, 64768, 65280, 65536, 65280, 65536, 65280, 55552},
       {},
       {10, 20, 40, 40, 40, 40, 40, 40, 20, 10, 40, 40, 40, 40, 40, 40, 40, 40, 10, 20, 40, 40,
        40, 40, 40, 40, 20, 10, 40, 40, 40, 40, 40, 40, 40, 40, 10, 20, 40, 40, 40, 40, 40, 40,
        20, 10, 40, 40, 40, 40, 40, 40, 40, 40, 10, 20, 40, 40, 40, 40, 40, 40, 20, 10}},
  };
  return facts;
}

std::string Locate(const std::string& file) {
  const std::string& root = SourceRoot();
  for (const char* folder : {"/tests/data/topologies/", "/../shared/data/topologies/"}) {
    if (std::filesystem::exists(root + folder + file)) return root + folder + file;
  }
  return "";
}

void CheckFacts(const Topology& topology, const Facts& facts) {
  topology.CheckInvariants();
  CHECK(topology.source_packages() == facts.packages);
  CHECK(topology.cores == facts.cores);
  CHECK(topology.cpu_count() == facts.cpus);
  REQUIRE(topology.node_count() == facts.nodes.size());
  std::vector<int> cpuless;
  for (std::size_t i = 0; i < facts.nodes.size(); ++i) {
    const Node& node = topology.nodes[i];
    CHECK(node.id.n == facts.nodes[i]);
    CHECK((node.memory_bytes + (1 << 19)) >> 20 == facts.mebibytes[i]);
    if (!node.has_cpus()) cpuless.push_back(node.id.n);
  }
  CHECK(cpuless == facts.cpuless);
  CHECK(topology.distances == facts.distances);
}

Topology Load(const std::string& file) {
  const std::string path = Locate(file);
  REQUIRE_FALSE(path.empty());
  absl::StatusOr<Topology> topology = Topology::FromXmlFile(path);
  REQUIRE(topology.ok());
  return *std::move(topology);
}

bool HasNote(const Topology& topology, const std::string& part) {
  return std::any_of(topology.notes.begin(), topology.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("Topology: every exported machine has the facts of its index", "[numa][topology]") {
  const Facts facts = GENERATE(from_range(AllFacts()));
  CAPTURE(facts.file);
  const std::string path = Locate(facts.file);
  if (path.empty()) {
    WARN(facts.file << " is not here (its licence keeps it out of this tree): not tested");
    return;
  }
  const absl::StatusOr<Topology> topology = Topology::FromXmlFile(path);
  CAPTURE(topology.status().ToString());
  REQUIRE(topology.ok());
  CheckFacts(*topology, facts);
  CHECK(topology->name == facts.file);
}

TEST_CASE("Topology: an exported machine survives a round trip through its own XML",
          "[numa][topology]") {
  const Facts facts = GENERATE(from_range(AllFacts()));
  CAPTURE(facts.file);
  const std::string path = Locate(facts.file);
  if (path.empty()) return;
  Topology first = Load(facts.file);
  absl::StatusOr<Topology> second = Topology::FromXml(ToXml(first), "round trip");
  CAPTURE(second.status().ToString());
  REQUIRE(second.ok());
  CHECK(second->nodes == first.nodes);
  CHECK(second->distances == first.distances);
  CHECK(second->memory_attributes == first.memory_attributes);
  first.notes.clear();
  second->notes.clear();
  second->name = first.name;
  CHECK(*second == first);
  CHECK((ToXml(*second) == ToXml(first)));  // in parentheses: not printed
}

TEST_CASE("Topology: files in the folder of test data all have a test", "[numa][topology]") {
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceRoot() + "/tests/data/topologies")) {
    if (entry.path().extension() != ".xml") continue;
    const std::string file = entry.path().filename().string();
    CAPTURE(file);
    CHECK(std::any_of(AllFacts().begin(), AllFacts().end(),
                      [&](const Facts& facts) { return facts.file == file; }));
  }
}

TEST_CASE("Topology: CPUs of an offline node are placed on the nearest online one, with a note",
          "[numa][topology]") {
  const Topology topology = Load("2s-offline-cpu0-and-node0.xml");
  CHECK(topology.NodeAt(NodeId{1}).cpus.size() == 17);
  CHECK(topology.cpus.front().os_index == 4);
  CHECK(HasNote(topology, "CPUs 4,6,8,10,12,14,16,18,20 have no online node: placed on node 1"));
}

TEST_CASE("Topology: an insane matrix is replaced and the note says so", "[numa][topology]") {
  CHECK(HasNote(Load("2n-plus-cpuless-node-ia64.v1.xml"), "distance matrix is insane"));
  CHECK(Load("8n-power7-256t.xml").notes.empty());
}

TEST_CASE("Topology: CPUs whose package was dropped get one of their own", "[numa][topology]") {
  const Topology topology = Load("4s-4n-westmere-ex-40c.xml");
  REQUIRE(topology.packages.size() == 4);
  CHECK(topology.packages[3].inferred);
  CHECK(topology.packages[3].cpus == topology.NodeAt(NodeId{3}).cpus);
  CHECK(HasNote(topology, "CPUs 3,7,11,15,19,23,27,31,35,39 are in no package"));
}

TEST_CASE("Topology: groups of CPUs follow cores, caches and packages", "[numa][topology]") {
  SECTION("two threads a core, one L3 a package, an L2 a core") {
    const Topology topology = Load("2s-2n-westmere-12c24t.xml");
    CHECK(topology.llc_bytes.size() == 2);
    CHECK(topology.l2_bytes.size() == 12);
    CHECK(topology.llc_bytes[0] == 12 << 20);
    const Cpu& first = topology.cpus[0];
    for (const Cpu& cpu : topology.cpus) {
      CHECK((cpu.llc == first.llc) == (cpu.node == first.node));
      CHECK((cpu.package == first.package) == (cpu.node == first.node));
      if (cpu.core == first.core && cpu.id != first.id) CHECK(cpu.smt == 1);
    }
  }
  SECTION("no L3: the L2 is the last level") {
    const Topology topology = Load("8s-8n-opteron-16c.xml");
    CHECK(topology.llc_bytes.size() == 16);
    CHECK(topology.cpus[0].llc != topology.cpus[1].llc);
  }
  SECTION("an L2 for two cores, four threads a core") {
    if (Locate("1s-8n-knl-snc4-flat-64c256t.xml").empty()) return;
    const Topology topology = Load("1s-8n-knl-snc4-flat-64c256t.xml");
    CHECK(topology.l2_bytes.size() == 32);
    CHECK(topology.cpus[255].smt == 3);
  }
}

TEST_CASE("Topology: memory attributes are kept for each initiator", "[numa][topology]") {
  const Topology topology = Load("6n-memattrs-initiators-dram-nvm.xml");
  std::vector<std::string> names;
  for (const MemoryAttribute& attribute : topology.memory_attributes) {
    names.push_back(attribute.name);
  }
  CHECK(names == std::vector<std::string>{"Bandwidth", "Latency", "ReadBandwidth", "WriteBandwidth",
                                          "ReadLatency", "WriteLatency"});
  const MemoryAttribute& latency = topology.memory_attributes[1];
  REQUIRE(latency.values.size() == 6);
  for (const MemoryAttributeValue& value : latency.values) {
    const bool nvm = topology.NodeAt(value.target).subtype == "NVM";
    CHECK(value.value == (nvm ? 77U : 26U));
    CHECK(value.initiator.size() == (nvm ? 4U : 2U));
  }
  CHECK(Load("2s-2n-westmere-12c24t.xml").memory_attributes.empty());
}

}  // namespace pagestorm::numa
