#include "numa/topology.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/rng.h"
#include "numa/crash_guard.h"
#include "numa/topology_assembly.h"
#include "tests/support/source_root.h"

namespace pagestorm::numa {
namespace {

const std::string kData = SourceRoot() + "/tests/data/topologies/";

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool OneLine(const absl::Status& status) {
  const std::string text(status.message());
  return !text.empty() && text.find('\n') == std::string::npos;
}

// Everything written to stderr while it lives; printed nowhere.
class StderrCapture {
 public:
  StderrCapture() : saved_(dup(STDERR_FILENO)), file_(std::tmpfile()) {
    std::fflush(stderr);
    dup2(fileno(file_), STDERR_FILENO);
  }
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;
  ~StderrCapture() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    std::fclose(file_);
  }
  [[nodiscard]] long Bytes() const {
    std::fflush(stderr);
    return static_cast<long>(lseek(fileno(file_), 0, SEEK_END));
  }

 private:
  int saved_;
  std::FILE* file_;
};

// A file with `text` that is removed again.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "ps_topology_XXXXXX").string();
    close(mkstemp(pattern.data()));
    path_ = pattern;
    std::ofstream(path_, std::ios::binary) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

RawCpu BareCpu(int os_index) {
  RawCpu cpu;
  cpu.os_index = os_index;
  return cpu;
}

RawNode BareNode(int os_index, std::vector<int> cpus, std::int64_t memory = 1 << 30) {
  RawNode node;
  node.os_index = os_index;
  node.memory_bytes = memory;
  node.cpus = std::move(cpus);
  return node;
}

}  // namespace

TEST_CASE("Topology: a synthetic shape gives nodes, CPUs and distances", "[numa][topology]") {
  const Topology topology = Topology::Synthetic({.nodes = 2,
                                                 .cores_per_node = 8,
                                                 .threads_per_core = 2,
                                                 .cores_per_llc = 4,
                                                 .memory_bytes_per_node = 1 << 28,
                                                 .remote_distance = 21});
  topology.CheckInvariants();
  CHECK(topology.cpu_count() == 32);
  CHECK(topology.cores == 16);
  CHECK(topology.packages.size() == 2);
  CHECK(topology.llc_bytes.size() == 4);
  CHECK(topology.Distance(NodeId{0}, NodeId{1}) == 21);
  CHECK(topology.Distance(NodeId{1}, NodeId{1}) == 10);
  CHECK(topology.TotalMemoryBytes() == 1 << 29);
  // Linux numbers all first threads before all second threads.
  CHECK(topology.CpuAt(CpuId{0}).core == topology.CpuAt(CpuId{16}).core);
  CHECK(topology.CpuAt(CpuId{16}).smt == 1);
  CHECK(topology.CpuAt(CpuId{8}).node == NodeId{1});
  CHECK(topology.notes.empty());
  CHECK(topology.Summary() ==
        "2 packages, 16 cores, 32 CPUs, 2 nodes: 0 256 MiB 16 CPUs, 1 256 MiB 16 CPUs");
}

TEST_CASE("Topology: a synthetic shape can have nodes without CPUs or memory, and rings",
          "[numa][topology]") {
  const Topology topology = Topology::Synthetic(
      {.nodes = 4,
       .cores_per_node = 2,
       .distances = {10, 16, 22, 16, 16, 10, 16, 22, 22, 16, 10, 16, 16, 22, 16, 10},
       .cpuless_nodes = {2},
       .memoryless_nodes = {3}});
  CHECK_FALSE(topology.NodeAt(NodeId{2}).has_cpus());
  CHECK_FALSE(topology.NodeAt(NodeId{3}).has_memory());
  CHECK(topology.cpu_count() == 6);
  CHECK(topology.Distance(NodeId{0}, NodeId{2}) == 22);
  CHECK_FALSE(topology.HasNode(NodeId{4}));
}

TEST_CASE("Topology: a built machine survives the round trip through XML", "[numa][topology]") {
  Topology first = Topology::Synthetic({.nodes = 4,
                                        .cores_per_node = 6,
                                        .threads_per_core = 2,
                                        .cores_per_llc = 3,
                                        .nodes_per_package = 2,
                                        .memory_bytes_per_node = 123 << 20,
                                        .remote_distance = 31,
                                        .cpuless_nodes = {3},
                                        .memoryless_nodes = {1}});
  first.nodes[0].subtype = "a<b>&\"c\"";
  const TemporaryFile file("");
  REQUIRE(WriteXmlFile(first, file.path()).ok());
  absl::StatusOr<Topology> second = Topology::FromXmlFile(file.path());
  CAPTURE(second.status().ToString());
  REQUIRE(second.ok());
  second->name = first.name;
  CHECK(second->notes.empty());
  CHECK(*second == first);
  CHECK_FALSE(WriteXmlFile(first, file.path() + "/no/such/folder.xml").ok());
}

TEST_CASE("Topology: hwloc's synthetic language is understood", "[numa][topology]") {
  const absl::StatusOr<Topology> topology = Topology::FromSynthetic(
      "Package:2 [NUMANode(memory=8GiB)] L3Cache:1(size=8388608) Core:4 PU:2");
  CAPTURE(topology.status().ToString());
  REQUIRE(topology.ok());
  CHECK(topology->node_count() == 2);
  CHECK(topology->cpu_count() == 16);
  CHECK(topology->cores == 8);
  CHECK(topology->nodes[1].memory_bytes == std::int64_t{8} << 30);
  CHECK(topology->Distance(NodeId{0}, NodeId{1}) == 20);
  CHECK(topology->notes ==
        std::vector<std::string>{"no distance matrix: 10 local and 20 remote assumed"});
  const absl::StatusOr<Topology> single = Topology::FromSynthetic("core:2 pu:1");
  REQUIRE(single.ok());
  CHECK(single->node_count() == 1);
  CHECK(single->notes.empty());
}

TEST_CASE("Topology: a bad synthetic description is refused in one line", "[numa][topology]") {
  const std::string text = GENERATE("", "Gibberish", "Package:", "Package:2 Core", "PU:0",
                                    "Core:99999999 PU:2", "Package:65 Core:64 PU:1",
                                    "Core:99999999999999999999", "Package:2 [NUMANode(", "pu:-3");
  CAPTURE(text);
  const StderrCapture capture;
  const absl::StatusOr<Topology> topology = Topology::FromSynthetic(text);
  CHECK_FALSE(topology.ok());
  CHECK(OneLine(topology.status()));
  CHECK(capture.Bytes() == 0);
}

TEST_CASE("Topology: this host can be read", "[numa][topology]") {
  const absl::StatusOr<Topology> topology = Topology::FromHost();
  REQUIRE(topology.ok());
  CHECK(topology->TotalMemoryBytes() > 0);
  CHECK(topology->name == "host");
}

TEST_CASE("Topology: a bad file is refused in one line that names it", "[numa][topology]") {
  const std::string good = ReadText(kData + "2s-2n-westmere-12c24t.xml");
  REQUIRE(good.size() > 4000);
  struct Case {
    std::string text;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"", "empty"},
      {"hello", "not an hwloc XML export"},
      {"<?xml version=\"1.0\"?><html/>", "not an hwloc XML export"},
      {std::string("\0\0\0\0", 4), "not an hwloc XML export"},
      {"<?xml version=\"1.0\"?><topology version=\"2.0\"></topology>", "cannot load it"},
      {good.substr(0, 3000), "damaged or cut short"},
      {good.substr(0, good.size() - 20), "damaged or cut short"},
      {good.substr(good.find("<topology")) + "<", "damaged or cut short"}};
  for (const Case& bad : cases) {
    CAPTURE(bad.says, bad.text.size());
    const TemporaryFile file(bad.text);
    const StderrCapture capture;
    const absl::StatusOr<Topology> topology = Topology::FromXmlFile(file.path());
    REQUIRE_FALSE(topology.ok());
    const std::string message(topology.status().message());
    CAPTURE(message);
    CHECK(OneLine(topology.status()));
    CHECK(message.find(bad.says) != std::string::npos);
    CHECK(message.find(file.path()) != std::string::npos);
    CHECK(capture.Bytes() == 0);
  }
  CHECK(absl::IsNotFound(Topology::FromXmlFile(kData + "none.xml").status()));
  CHECK(OneLine(Topology::FromXmlFile(kData).status()));
}

// Random damage to real files: cut, flipped and removed bytes, changed digits, absurd values.
// Either a whole topology comes out or one line, never a crash and never a word on stderr.
TEST_CASE("Topology: damaged files never crash", "[numa][topology][model]") {
  const auto seed = GENERATE(take(4, random(0U, 0xffff'ffffU)));
  CAPTURE(seed);
  Rng rng(seed);
  const std::vector<std::string> files = {
      "2s-2n-westmere-12c24t.xml", "2s-4n-haswell-cluster-on-die-28c.v1.xml",
      "6n-memattrs-initiators-dram-nvm.xml", "8s-5of8n-opteron-cpuset-restricted.xml"};
  const std::vector<std::string> values = {
      "", "0", "-1", "4294967295", "99999999999999999999", "0x0", "0xf...f"};
  for (int i = 0; i < 12; ++i) {
    std::string text = ReadText(kData + files[rng.Below(files.size())]);
    for (std::uint64_t damage = 1 + rng.Below(3); damage > 0; --damage) {
      const std::size_t at = rng.Below(text.size());
      const std::size_t digit = text.find_first_of("0123456789", at);
      const std::size_t value = text.find("=\"", at);
      switch (rng.Below(5)) {
        case 0:
          text.resize(at + 1);
          break;
        case 1:
          text[at] = static_cast<char>(rng.Below(256));
          break;
        case 2:
          text.erase(at, 1 + rng.Below(100));
          break;
        case 3:
          if (digit != std::string::npos) text[digit] = static_cast<char>('0' + rng.Below(10));
          break;
        default:
          if (value == std::string::npos) break;
          text.replace(value + 2, text.find('"', value + 2) - value - 2,
                       values[rng.Below(values.size())]);
      }
      if (text.empty()) text = "x";
    }
    const StderrCapture capture;
    const absl::StatusOr<Topology> topology = Topology::FromXml(text, "damaged");
    if (topology.ok()) {
      topology->CheckInvariants();
    } else {
      CHECK(OneLine(topology.status()));
    }
    CHECK(capture.Bytes() == 0);
  }
}

TEST_CASE("TryInChild: reports a return, a crash and a time-out", "[numa]") {
  using Outcome = TrialResult::Outcome;
  const TrialResult returned = TryInChild([] { return 7; }, 10);
  CHECK(returned.outcome == Outcome::kReturned);
  CHECK(returned.exit_code == 7);
  const TrialResult crashed = TryInChild([]() -> int { std::abort(); }, 10);
  CHECK(crashed.outcome == Outcome::kCrashed);
  CHECK(crashed.signal == SIGABRT);
  const TrialResult endless = TryInChild(
      []() -> int {
        while (true) pause();
      },
      1);
  CHECK(endless.outcome == Outcome::kTimedOut);
}

TEST_CASE("Topology: a UMA machine of format 1.x, whose memory is on the machine, is one node",
          "[numa][topology]") {
  const std::string pu =
      "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
      "online_cpuset=\"0x1\" allowed_cpuset=\"0x1\"/>";
  const absl::StatusOr<Topology> topology = Topology::FromXml(
      "<?xml version=\"1.0\"?><topology><object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" "
      "complete_cpuset=\"0x1\" online_cpuset=\"0x1\" allowed_cpuset=\"0x1\" "
      "local_memory=\"4294967296\">" +
          pu + "</object></topology>",
      "uma");
  CAPTURE(topology.status().ToString());
  REQUIRE(topology.ok());
  REQUIRE(topology->node_count() == 1);
  CHECK(topology->nodes[0].memory_bytes == std::int64_t{4} << 30);
  CHECK(topology->cores == 1);
  CHECK(topology->packages[0].inferred);
}

TEST_CASE("Assemble: the home of a CPU is the smallest node around it", "[numa][topology]") {
  RawTopology raw;
  raw.name = "raw";
  for (const int cpu : {6, 1, 3, 9}) raw.cpus.push_back(BareCpu(cpu));
  raw.nodes = {BareNode(8, {1, 3}), BareNode(0, {1, 3, 6}), BareNode(5, {1, 3})};
  SECTION("of equals the lowest number, and the rest go to the nearest") {
    const absl::StatusOr<Topology> topology = Assemble(raw);
    REQUIRE(topology.ok());
    CHECK(topology->CpuAt(CpuId{0}).os_index == 1);
    CHECK(topology->NodeAt(NodeId{5}).cpus == std::vector<CpuId>{CpuId{0}, CpuId{1}});
    CHECK(topology->NodeAt(NodeId{0}).cpus == std::vector<CpuId>{CpuId{2}, CpuId{3}});
    CHECK_FALSE(topology->NodeAt(NodeId{8}).has_cpus());
  }
  SECTION("of equals a DRAM node before another kind") {
    raw.nodes[2].subtype = "NVM";
    CHECK(Assemble(raw)->NodeAt(NodeId{8}).cpus.size() == 2);
  }
  SECTION("a CPU without a node goes to one that serves its package") {
    raw.cpus[3].package = 4;  // CPU 9
    raw.cpus[1].package = 4;  // CPU 1, on node 5
    CHECK(Assemble(raw)->CpuAt(CpuId{3}).node == NodeId{5});
  }
  SECTION("without any node around a CPU, one with memory") {
    raw.nodes = {BareNode(2, {}, 0), BareNode(3, {})};
    CHECK(Assemble(raw)->NodeAt(NodeId{3}).cpus.size() == 4);
  }
}

TEST_CASE("Assemble: impossible machines are refused in one line", "[numa][topology]") {
  RawTopology raw;
  raw.name = "raw";
  raw.cpus = {BareCpu(0)};
  raw.nodes = {BareNode(0, {0})};
  REQUIRE(Assemble(raw).ok());
  std::string says;
  SECTION("no CPU") {
    raw.cpus.clear();
    says = "no CPU";
  }
  SECTION("no node") {
    raw.nodes.clear();
    says = "no NUMA node";
  }
  SECTION("a node twice") {
    raw.nodes.push_back(BareNode(0, {}));
    says = "node 0 appears twice";
  }
  SECTION("a CPU twice") {
    raw.cpus.push_back(BareCpu(0));
    says = "CPU 0 appears twice";
  }
  SECTION("a node number beyond the largest machine") {
    raw.nodes.push_back(BareNode(1024, {}));
    says = "node number 1024, allowed are 0..1023";
  }
  SECTION("a negative CPU number") {
    raw.cpus.push_back(BareCpu(-1));
    says = "CPU number -1";
  }
  SECTION("more memory than addresses") {
    raw.nodes.push_back(BareNode(1, {}, std::int64_t{1} << 52));
    says = "at most 2^52";
  }
  SECTION("negative memory") {
    raw.nodes.push_back(BareNode(1, {}, -5));
    says = "at most 2^52";
  }
  SECTION("too many CPUs") {
    for (int i = 1; i <= kMaxCpus; ++i) raw.cpus.push_back(BareCpu(i));
    says = "4097 CPUs, at most 4096";
  }
  const absl::StatusOr<Topology> topology = Assemble(raw);
  REQUIRE_FALSE(topology.ok());
  CHECK(OneLine(topology.status()));
  CAPTURE(topology.status().ToString());
  CHECK(std::string(topology.status().message()).find(says) != std::string::npos);
}

TEST_CASE("RepairDistances: a sane matrix is kept, an odd one repaired", "[numa][topology]") {
  std::vector<std::string> notes;
  const auto repair = [&](std::vector<std::int64_t> ids, std::vector<std::int64_t> nodes,
                          std::vector<std::uint64_t> values) {
    return RepairDistances(ids, RawDistances{std::move(nodes), std::move(values)}, notes);
  };
  using Matrix = std::vector<int>;
  SECTION("sane: no note, reordered to the order of the nodes") {
    CHECK(repair({0, 8}, {8, 0}, {10, 21, 22, 10}) == Matrix{10, 22, 21, 10});
    CHECK(notes.size() == 1);  // not symmetric
    notes.clear();
    CHECK(repair({0, 1}, {0, 1}, {10, 10, 10, 10}) == Matrix{10, 10, 10, 10});
    CHECK(notes.empty());
  }
  SECTION("absent") {
    CHECK(RepairDistances({3}, std::nullopt, notes) == Matrix{10});
    CHECK(notes.empty());
    CHECK(RepairDistances({3, 4}, std::nullopt, notes) == Matrix{10, 20, 20, 10});
    CHECK(notes.size() == 1);
  }
  SECTION("measured latencies are scaled by row") {
    CHECK(repair({0, 1}, {0, 1}, {80, 140, 152, 95}) == Matrix{10, 18, 16, 10});
    CHECK(notes[0] == "distance matrix scaled to 10 on the diagonal");
  }
  SECTION("a node it does not cover") {
    CHECK(repair({0, 1, 2}, {0, 2}, {10, 30, 30, 10}) ==
          Matrix{10, 20, 30, 20, 10, 20, 30, 20, 10});
    CHECK(notes.size() == 1);
  }
  SECTION("a diagonal that is not minimal") {
    CHECK(repair({0, 1}, {0, 1}, {30, 20, 20, 30}) == Matrix{10, 20, 20, 10});
    CHECK(notes.size() == 1);
  }
  SECTION("nonsense is replaced as a whole") {
    CHECK(repair({0, 1}, {0, 1}, {0, 0, 0, 0}) == Matrix{10, 20, 20, 10});
    CHECK(repair({0, 1}, {0, 1}, {20, 10, 10, 20}) == Matrix{10, 20, 20, 10});
    CHECK(notes.size() == 2);
  }
  SECTION("too large") {
    CHECK(repair({0, 1}, {0, 1}, {10, 1'000'000'000'000, 300, 10}) == Matrix{10, 255, 255, 10});
    CHECK(notes.size() == 1);
  }
}

}  // namespace pagestorm::numa
