#include "numa/machine_spec.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "numa/host.h"
#include "tests/support/source_root.h"

namespace pagestorm::numa {
namespace {

MachineSpec TwoNodes() {
  MachineSpec spec;
  spec.name = "pair";
  spec.topology =
      Topology::Synthetic({.nodes = 2, .cores_per_node = 2, .memory_bytes_per_node = kGiB});
  return spec;
}

}  // namespace

TEST_CASE("MachineSpec: the defaults are a machine", "[numa]") {
  CHECK(Validate(MachineSpec{}).ok());
  CHECK(Validate(TwoNodes()).ok());
}

TEST_CASE("MachineSpec: bad values get one line with machine, key, value and what is allowed",
          "[numa]") {
  struct Case {
    std::function<void(MachineSpec&)> spoil;
    std::string says;
  };
  const std::vector<Case> cases = {
      {[](MachineSpec& s) { s.page_shift = PageShift{13}; },
       "machine pair: page_shift = 13: allowed are 12, 14 and 16"},
      {[](MachineSpec& s) { s.scale = 0; }, "machine pair: scale = 0: allowed are 1..1048576"},
      {[](MachineSpec& s) { s.scale = 1 << 20; }, "at least 4 MiB are needed"},
      {[](MachineSpec& s) {
         s.memory_mib = {1, 2, 3};
       },
       "memory_mib has 3 values: allowed are none, 1 or 2 (one for each node)"},
      {[](MachineSpec& s) { s.memory_mib = {-1}; }, "memory_mib = -1: allowed are 0.."},
      {[](MachineSpec& s) { s.memory_mib = {0}; }, "at least 4 MiB are needed"},
      {[](MachineSpec& s) { s.memory_mib = {std::int64_t{1} << 24}; }, "at most 2^32 pages"},
      {[](MachineSpec& s) {
         s.distances = {10, 20, 20};
       },
       "distances has 3 values"},
      {[](MachineSpec& s) {
         s.distances = {10, 9, 20, 10};
       },
       "distances[0][1] = 9: allowed are 10..255"},
      {[](MachineSpec& s) {
         s.distances = {10, 20, 20, 11};
       },
       "distances[1][1] = 11: allowed are 10..10"},
      {[](MachineSpec& s) { s.swap.mib = -2; }, "swap.mib = -2"},
      {[](MachineSpec& s) { s.swap.devices = 0; }, "swap.devices = 0: allowed are 1..32"},
      {[](MachineSpec& s) { s.disk.transfer_mb_per_s = 0; }, "disk.transfer_mb_per_s = 0"},
      {[](MachineSpec& s) { s.disk.positioning = Ns{-1}; }, "disk.positioning_ns = -1"},
      {[](MachineSpec& s) { s.disk.nr_requests = 0; }, "disk.nr_requests = 0: allowed are 4.."},
      {[](MachineSpec& s) { s.disk.max_request_kib = 2; }, "disk.max_request_kib = 2"},
      {[](MachineSpec& s) { s.nuisance.free_ram_per_mille = 501; },
       "nuisance.free_ram_per_mille = 501: allowed are 0..500"},
      {[](MachineSpec& s) { s.nuisance.daemon_period = Ns{0}; }, "nuisance.daemon_period_ns = 0"},
      {[](MachineSpec& s) { s.latency.cpu_mb_per_s = 0; }, "machine pair: latency.cpu_mb_per_s"},
      {[](MachineSpec& s) {
         s.boot_reserve_pages = {0, 262144};
       },
       "boot_reserve_pages = 262144: node 1 has 262144 pages in all"},
      {[](MachineSpec& s) { s.movable_mib = {1025}; }, "movable_mib = 1025: node 0 has 1024 MiB"},
      {[](MachineSpec& s) {
         s.holes = {{Pfn{9}, Pages{0}, {}}};
       },
       "memory map: a hole has at"},
      {[](MachineSpec& s) { s.topology.cpus.clear(); }, "topology has no node or no CPU"},
      {[](MachineSpec& s) { s.name = ""; }, "name is empty"}};
  for (const Case& bad : cases) {
    MachineSpec spec = TwoNodes();
    bad.spoil(spec);
    const absl::Status status = Validate(spec);
    CAPTURE(bad.says, status.ToString());
    REQUIRE_FALSE(status.ok());
    CHECK(std::string(status.message()).find(bad.says) != std::string::npos);
    CHECK(status.message().find('\n') == absl::string_view::npos);
  }
}

TEST_CASE("MachineSpec: memory and distances are overridden, and scaled together", "[numa]") {
  MachineSpec spec = TwoNodes();
  SECTION("one value for all") {
    spec.memory_mib = {256};
    CHECK(EffectiveTopology(spec).nodes[1].memory_bytes == 256 * kMiB);
  }
  SECTION("one for all leaves a node without memory alone, one each does not") {
    spec.topology = Topology::Synthetic({.nodes = 2, .memoryless_nodes = {1}});
    spec.memory_mib = {256};
    CHECK(EffectiveTopology(spec).nodes[1].memory_bytes == 0);
    spec.memory_mib = {256, 128};
    CHECK(EffectiveTopology(spec).nodes[1].memory_bytes == 128 * kMiB);
  }
  SECTION("one for all gives memory where the source has none at all") {
    spec.topology = Topology::Synthetic({.nodes = 2, .memoryless_nodes = {0, 1}});
    CHECK_FALSE(Validate(spec).ok());
    spec.memory_mib = {64};
    CHECK(Validate(spec).ok());
    CHECK(EffectiveTopology(spec).TotalMemoryBytes() == 128 * kMiB);
  }
  SECTION("scale divides memory, swap, movable part and reserve, in whole pages") {
    spec.scale = 3;
    spec.swap.mib = 96;
    spec.boot_reserve_pages = {3000, 6000};
    spec.movable_mib = {300};
    REQUIRE(Validate(spec).ok());
    CHECK(EffectiveTopology(spec).nodes[0].memory_bytes == kGiB / 3 / 4096 * 4096);
    CHECK(SwapPages(spec) == Pages{8192});
    CHECK(BootReserve(spec, 1) == Pages{2000});
    const absl::StatusOr<MemoryMap> map = EffectiveMemoryMap(spec);
    REQUIRE(map.ok());
    // 100 MiB, less what the alignment to 1024 pages takes.
    CHECK(map->nodes[0].zones[3].spanned.n <= 25600);
    CHECK(map->nodes[0].zones[3].spanned.n > 25600 - 1024);
  }
  SECTION("distances") {
    spec.distances = {10, 40, 40, 10};
    CHECK(EffectiveTopology(spec).Distance(NodeId{0}, NodeId{1}) == 40);
  }
}

TEST_CASE("LoadTopology: a file beside the machine file, a description or the host", "[numa]") {
  const std::string base = SourceRoot() + "/configs/machines";
  const absl::StatusOr<Topology> file =
      LoadTopology("../../tests/data/topologies/2s-2n-westmere-12c24t.xml", base);
  REQUIRE(file.ok());
  CHECK(file->cpu_count() == 24);
  CHECK(LoadTopology("numa:2 core:2 pu:1", base)->node_count() == 2);
  CHECK(LoadTopology("host", base).ok());
  const absl::Status missing = LoadTopology("no-such.xml", base).status();
  CHECK(std::string(missing.message()).find("no-such.xml: no such file") != std::string::npos);
}

TEST_CASE("EffectiveTopology: notes about what the machine file provides are dropped", "[numa]") {
  MachineSpec spec;
  spec.topology = *Topology::FromSynthetic("Package:2 [NUMANode] Core:1 PU:1");
  CHECK(spec.topology.notes.size() == 2);
  spec.memory_mib = {64};
  CHECK(EffectiveTopology(spec).notes.size() == 1);
  spec.distances = {10, 21, 21, 10};
  CHECK(EffectiveTopology(spec).notes.empty());
}

// The rest of a machine file is read, and tested, where TOML is: in bench/config.
TEST_CASE("LoadTopology: the topology of every machine file can be loaded", "[numa]") {
  const std::string folder = SourceRoot() + "/configs/machines";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path().filename().string());
    std::ifstream file(entry.path());
    const std::string key = "topology = \"";
    for (std::string line; std::getline(file, line);) {
      if (line.rfind(key, 0) != 0) continue;
      const std::size_t end = line.find('"', key.size());
      const absl::StatusOr<Topology> topology =
          LoadTopology(line.substr(key.size(), end - key.size()), folder);
      CAPTURE(topology.status().ToString());
      CHECK(topology.ok());
      ++files;
    }
  }
  CHECK(files >= 8);
}

TEST_CASE("HostMemoryCheck: fits, or says by how much to shrink", "[numa]") {
  CHECK(HostMemoryCheck(7 * kGiB, 8 * kGiB).fits);  // an eighth stays free
  CHECK(HostMemoryCheck(1 << 30, 0).fits);          // unknown
  const HostMemoryVerdict verdict = HostMemoryCheck(7 * kGiB + 1, 8 * kGiB);
  CHECK_FALSE(verdict.fits);
  CHECK(verdict.suggested_scale == 2);
  CHECK(verdict.line ==
        "the machine needs 7168 MiB for its page frames, the host has 8192 MiB available: use "
        "scale = 2 or a smaller memory_mib");
  CHECK(HostMemoryCheck(100 * kGiB, 8 * kGiB).suggested_scale == 16);
}

TEST_CASE("HostFacts: this host has a core and some memory", "[numa]") {
  const HostFacts facts = ReadHostFacts();
  CHECK(facts.cores >= 1);
  CHECK(facts.memory_total_bytes > 0);
  CHECK(facts.memory_available_bytes > 0);
  CHECK(facts.memory_available_bytes <= facts.memory_total_bytes);
}

}  // namespace pagestorm::numa
