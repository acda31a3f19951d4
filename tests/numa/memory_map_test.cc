#include "numa/memory_map.h"

#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace pagestorm::numa {
namespace {

constexpr PageShift k4K{12};

MemoryMap Build(const MemoryMapOptions& options) {
  absl::StatusOr<MemoryMap> map = BuildMemoryMap(options);
  CAPTURE(map.status().ToString());
  REQUIRE(map.ok());
  return *std::move(map);
}

std::vector<NodeMemory> Nodes(int count, std::int64_t bytes) {
  std::vector<NodeMemory> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back({.id = NodeId{i}, .bytes = bytes});
  return nodes;
}

// (node, zone name, spanned, memmap, present) of every zone that spans something.
using Row = std::tuple<int, std::string, std::int64_t, std::int64_t, std::int64_t>;
std::vector<Row> Rows(const MemoryMap& map) {
  std::vector<Row> rows;
  for (const NodeSpan& node : map.nodes) {
    for (const ZoneSpan& zone : node.zones) {
      if (zone.spanned.n == 0) continue;
      const PresentPages present = ComputePresent(zone, map.page_shift, {});
      CHECK(present.memmap_fits);
      rows.emplace_back(node.id.n, zone.name, zone.spanned.n, present.memmap.n, present.present.n);
    }
  }
  return rows;
}

}  // namespace

// Checklist 1, its columns spanned, memmap and present. Mutations tried: DMA32 ending at 2 GiB,
// struct page of 64 bytes; both red. (All memmaps divide exactly: rounding is tested below.)
TEST_CASE("MemoryMap: the worked examples (a) to (e) come out exactly", "[numa][spec:throttle-1]") {
  SECTION("(a) 1 GiB UMA") {
    CHECK(Rows(Build({.page_shift = k4K, .nodes = Nodes(1, kGiB)})) ==
          std::vector<Row>{{0, "DMA", 4096, 56, 4040}, {0, "DMA32", 258048, 3528, 254520}});
  }
  SECTION("(b) 2 nodes x 8 GiB") {
    CHECK(Rows(Build({.page_shift = k4K, .nodes = Nodes(2, 8 * kGiB)})) ==
          std::vector<Row>{{0, "DMA", 4096, 56, 4040},
                           {0, "DMA32", 1044480, 14280, 1030200},
                           {0, "Normal", 1048576, 14336, 1034240},
                           {1, "Normal", 2097152, 28672, 2068480}});
  }
  SECTION("(c) 4 nodes x 64 GiB") {
    CHECK(Rows(Build({.page_shift = k4K, .nodes = Nodes(4, 64 * kGiB)})) ==
          std::vector<Row>{{0, "DMA", 4096, 56, 4040},
                           {0, "DMA32", 1044480, 14280, 1030200},
                           {0, "Normal", 15728640, 215040, 15513600},
                           {1, "Normal", 16777216, 229376, 16547840},
                           {2, "Normal", 16777216, 229376, 16547840},
                           {3, "Normal", 16777216, 229376, 16547840}});
  }
  SECTION("(d) ia64, 64 KiB pages, 2 nodes x 4 GiB") {
    CHECK(Rows(Build(
              {.arch = Arch::kIa64, .page_shift = PageShift{16}, .nodes = Nodes(2, 4 * kGiB)})) ==
          std::vector<Row>{{0, "DMA", 65536, 56, 65480}, {1, "Normal", 65536, 56, 65480}});
  }
  SECTION("(e) 2 nodes x 2 GiB") {
    CHECK(Rows(Build({.page_shift = k4K, .nodes = Nodes(2, 2 * kGiB)})) ==
          std::vector<Row>{{0, "DMA", 4096, 56, 4040},
                           {0, "DMA32", 520192, 7112, 513080},
                           {1, "DMA32", 524288, 7168, 517120}});
  }
}

// The model map of spec kswapd-4.11 1.11, example A: page 0 and the BIOS area are lost, the PCI
// window at 3-4 GiB moves RAM above 4 GiB.
TEST_CASE("MemoryMap: holes are spanned and absent, and relocate or lose memory", "[numa]") {
  const MemoryMap map = Build({.page_shift = k4K,
                               .nodes = Nodes(2, 8 * kGiB),
                               .holes = {{Pfn{0}, Pages{1}, Hole::Kind::kLost},
                                         {Pfn{159}, Pages{97}, Hole::Kind::kLost},
                                         {Pfn{786432}, Pages{262144}, Hole::Kind::kRelocated}}});
  const std::vector<ZoneSpan>& zones = map.nodes[0].zones;
  CHECK(zones[0].start == Pfn{1});
  CHECK(zones[0].spanned == Pages{4095});
  CHECK(zones[0].Existing() == Pages{3998});
  CHECK(zones[1].start == Pfn{4096});
  CHECK(zones[1].spanned == Pages{1044480});
  CHECK(zones[1].Existing() == Pages{782336});
  CHECK(zones[2].start == Pfn{1048576});
  CHECK(zones[2].spanned == Pages{1310720});
  CHECK(zones[2].absent == Pages{0});
  CHECK(map.nodes[1].start == Pfn{2359296});
  CHECK(map.nodes[1].zones[2].spanned == Pages{2097152});
  CHECK(map.end == Pfn{4456448});
  CHECK(map.TotalExisting() == Pages{2 * 2097152 - 98});
}

TEST_CASE("MemoryMap: a hole between two nodes belongs to neither", "[numa]") {
  const MemoryMap map = Build({.page_shift = k4K,
                               .nodes = Nodes(2, 1 << 22),
                               .holes = {{Pfn{1024}, Pages{100}, Hole::Kind::kRelocated},
                                         {Pfn{3000}, Pages{1000}, Hole::Kind::kLost}}});
  CHECK(map.nodes[0].spanned == Pages{1024});
  CHECK(map.nodes[1].start == Pfn{1124});
  CHECK(map.nodes[1].spanned == Pages{1024});  // 1124 .. 2147, before the second hole
}

TEST_CASE("MemoryMap: nodes start on a block of the highest order, memory-less ones span nothing",
          "[numa]") {
  const MemoryMap map = Build({.page_shift = k4K,
                               .nodes = {{.id = NodeId{3}, .bytes = (1 << 22) + 5 * 4096 + 17},
                                         {.id = NodeId{7}, .bytes = 0},
                                         {.id = NodeId{8}, .bytes = 1 << 22}}});
  CHECK(map.nodes[0].spanned == Pages{1029});
  CHECK(map.nodes[1].spanned == Pages{0});
  CHECK(map.nodes[1].zones.size() == 4);
  CHECK(map.nodes[2].start == Pfn{2048});
  CHECK(map.nodes[2].zones[0].Contains(Pfn{2048}));
  CHECK(map.nodes[2].zones[0].Contains(Pfn{3071}));
  CHECK_FALSE(map.nodes[2].zones[0].Contains(Pfn{3072}));
  CHECK_FALSE(map.nodes[2].zones[0].Contains(Pfn{2047}));
  CHECK(map.TotalSpanned() == Pages{1029 + 1024});
}

TEST_CASE("MemoryMap: the movable part is cut from the top of a node", "[numa]") {
  const MemoryMap map =
      Build({.page_shift = k4K,
             .nodes = {{.id = NodeId{0}, .bytes = 8 * kGiB, .movable_bytes = 2 * kGiB},
                       {.id = NodeId{1}, .bytes = kGiB, .movable_bytes = kGiB}}});
  CHECK(map.nodes[0].zones[2].spanned == Pages{1048576 - 524288});
  CHECK(map.nodes[0].zones[3].spanned == Pages{524288});
  CHECK(map.nodes[0].zones[3].start == Pfn{1572864});
  CHECK(map.nodes[1].zones[2].spanned == Pages{0});
  CHECK(map.nodes[1].zones[3].spanned == Pages{262144});
}

TEST_CASE("MemoryMap: 16 and 64 KiB pages move the zone boundaries with them", "[numa]") {
  const MemoryMap map = Build({.page_shift = PageShift{14}, .nodes = Nodes(1, 8 * kGiB)});
  CHECK(map.nodes[0].zones[0].spanned == Pages{1024});
  CHECK(map.nodes[0].zones[1].spanned == Pages{262144 - 1024});
  const MemoryMap large = Build({.page_shift = PageShift{16}, .nodes = Nodes(1, 8 * kGiB)});
  CHECK(large.nodes[0].zones[0].spanned == Pages{256});
}

TEST_CASE("MemoryMap: impossible maps are refused", "[numa]") {
  const auto refused = [](const MemoryMapOptions& options) {
    const absl::StatusOr<MemoryMap> map = BuildMemoryMap(options);
    return !map.ok() && map.status().message().find('\n') == absl::string_view::npos;
  };
  CHECK(refused({.page_shift = PageShift{13}, .nodes = Nodes(1, kGiB)}));
  CHECK(refused({.page_shift = k4K, .nodes = Nodes(1, -1)}));
  CHECK(refused({.page_shift = k4K, .nodes = Nodes(17, 1024 * kGiB)}));
  CHECK_FALSE(refused({.page_shift = k4K, .nodes = Nodes(16, 1024 * kGiB)}));
  CHECK(refused({.page_shift = k4K,
                 .nodes = Nodes(1, kGiB),
                 .holes = {{Pfn{5}, Pages{5}, {}}, {Pfn{9}, Pages{1}, {}}}}));
  CHECK(refused({.page_shift = k4K, .nodes = Nodes(1, kGiB), .holes = {{Pfn{5}, Pages{0}, {}}}}));
  CHECK(refused({.page_shift = k4K, .nodes = {{NodeId{0}, kGiB, 2 * kGiB}}}));
  CHECK(refused({.page_shift = k4K, .nodes = Nodes(1, kGiB), .node_alignment = Pages{0}}));
}

// Mutations tried: subtracting the memmap unconditionally, rounding it down; both red.
TEST_CASE("ComputePresent: memmap is paid only by a zone it fits into", "[numa]") {
  ZoneSpan zone{.zone = 0, .name = "DMA", .start = {}, .spanned = Pages{4096}, .absent = Pages{0}};
  CHECK(ComputePresent(zone, k4K, {}).present == Pages{4040});
  CHECK(ComputePresent(zone, k4K, {.struct_page_bytes = 64, .dma_reserve = {}}).memmap ==
        Pages{64});
  CHECK(ComputePresent(zone, k4K, {.dma_reserve = Pages{40}}).present == Pages{4000});
  CHECK(ComputePresent(zone, k4K, {.dma_reserve = Pages{4040}}).present == Pages{4040});
  zone.spanned = Pages{100};  // 5600 bytes: 1.4 pages
  CHECK(ComputePresent(zone, k4K, {}).memmap == Pages{2});
  zone.spanned = Pages{4096};
  zone.absent = Pages{4040};
  CHECK(ComputePresent(zone, k4K, {}).present == Pages{0});
  zone.absent = Pages{4041};
  const PresentPages tiny = ComputePresent(zone, k4K, {});
  CHECK_FALSE(tiny.memmap_fits);
  CHECK(tiny.present == Pages{55});
  zone.zone = 1;
  zone.absent = Pages{0};
  CHECK(ComputePresent(zone, k4K, {.dma_reserve = Pages{40}}).present == Pages{4040});
}

TEST_CASE("ZoneLayout: names and indexes of each architecture", "[numa]") {
  const ZoneLayout& x86 = LayoutOf(Arch::kX86_64);
  CHECK(x86.count == 4);
  CHECK(x86.NormalIndex() == 2);
  CHECK(x86.MovableIndex() == 3);
  CHECK(x86.IndexOf(ZoneKind::kDma32) == 1);
  CHECK(x86.Name(3) == "Movable");
  const ZoneLayout& ia64 = LayoutOf(Arch::kIa64);
  CHECK(ia64.count == 3);
  CHECK(ia64.NormalIndex() == 1);
  CHECK(ia64.MovableIndex() == 2);
  CHECK_FALSE(ia64.IndexOf(ZoneKind::kDma32).has_value());
  CHECK(ia64.Name(0) == "DMA");
  CHECK(*ParseArch(ArchName(Arch::kIa64)) == Arch::kIa64);
  CHECK(*ParseArch("x86_64") == Arch::kX86_64);
  CHECK_FALSE(ParseArch("arm").ok());
}

}  // namespace pagestorm::numa
