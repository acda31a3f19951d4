#include "mm/watermarks.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/alloc_machine.h"
#include "tests/support/source_root.h"

namespace pagestorm::mm {
namespace {

using testing::AllocMachine;
using testing::AllocMachineOptions;

// One row of a worked example: every column of the specification's table.
struct ZoneRow {
  int node;
  std::string name;
  std::int64_t spanned, present;
  std::array<std::int64_t, 3> marks;  // min, low, high
  std::array<std::int64_t, 4> reserve;
  std::int64_t batch, pcp_high;
  std::int64_t blocks;                 // RESERVE pageblocks
  std::array<std::int64_t, 3> cutoff;  // thr(0), thr(1), thr(3)
  std::int64_t inactive_ratio;
  int threshold;
};
struct Example {
  AllocMachineOptions machine;
  std::int64_t vm_total, min_free_kbytes, pages_min, totalreserve;
  bool zone_order;
  std::vector<ZoneRow> zones;
};

Example Uma() {
  return {
      .machine = {.node_mib = {1024}, .cpus = 2},
      .vm_total = 258560,
      .min_free_kbytes = 4067,
      .pages_min = 1016,
      .totalreserve = 2516,
      .zone_order = false,
      .zones = {
          {0, "DMA", 4096, 4040, {15, 18, 22}, {0, 994, 994, 994}, 1, 0, 1, {92, 96, 120}, 1, 4},
          {0,
           "DMA32",
           258048,
           254520,
           {1000, 1250, 1500},
           {0, 0, 0, 0},
           31,
           186,
           2,
           {6004, 6008, 6032},
           1,
           16}}};
}

Example TwoTimes8GiB() {
  return {.machine = {.node_mib = {8192, 8192}, .cpus = 8},
          .vm_total = 4136960,
          .min_free_kbytes = 16271,
          .pages_min = 4067,
          .totalreserve = 14171,
          .zone_order = true,
          .zones = {
              {0, "DMA", 4096, 4040, {3, 3, 4}, {0, 4024, 8064, 8064}, 1, 0, 1, {20, 24, 48}, 1, 8},
              {0,
               "DMA32",
               1044480,
               1030200,
               {1012, 1265, 1518},
               {0, 0, 4040, 4040},
               31,
               186,
               2,
               {6076, 6080, 6104},
               5,
               48},
              {0,
               "Normal",
               1048576,
               1034240,
               {1016, 1270, 1524},
               {0, 0, 0, 0},
               31,
               186,
               2,
               {6100, 6104, 6128},
               5,
               48},
              {1,
               "Normal",
               2097152,
               2068480,
               {2033, 2541, 3049},
               {0, 0, 0, 0},
               31,
               186,
               4,
               {12200, 12204, 12228},
               8,
               56}}};
}

Example FourTimes64GiB() {
  Example example{
      .machine = {.node_mib = {65536, 65536, 65536, 65536}, .cpus = 16},
      .vm_total = 66191360,
      .min_free_kbytes = 65086,
      .pages_min = 16271,
      .totalreserve = 89038,
      .zone_order = true,
      .zones = {
          {0, "DMA", 4096, 4040, {0, 0, 0}, {0, 4024, 64624, 64624}, 1, 0, 0, {4, 8, 32}, 1, 10},
          {0,
           "DMA32",
           1044480,
           1030200,
           {253, 316, 379},
           {0, 0, 60600, 60600},
           31,
           186,
           1,
           {1520, 1524, 1548},
           5,
           60},
          {0,
           "Normal",
           15728640,
           15513600,
           {3813, 4766, 5719},
           {0, 0, 0, 0},
           31,
           186,
           8,
           {22880, 22884, 22908},
           24,
           100}}};
  for (int node = 1; node < 4; ++node) {
    example.zones.push_back({node,
                             "Normal",
                             16777216,
                             16547840,
                             {4067, 5083, 6100},
                             {0, 0, 0, 0},
                             31,
                             186,
                             8,
                             {24404, 24408, 24432},
                             25,
                             100});
  }
  return example;
}

// ia64: 64 KiB pages, three zones, so the last column of lowmem_reserve does not exist.
Example Ia64() {
  const std::array<std::int64_t, 4> none{0, 0, 0, 0};
  return {
      .machine = {.node_mib = {4096, 4096}, .cpus = 8, .arch = numa::Arch::kIa64, .page_shift = 16},
      .vm_total = 2 * 65480,
      .min_free_kbytes = 11580,
      .pages_min = 180,
      .totalreserve = 270,
      .zone_order = false,
      .zones = {
          {0, "DMA", 65536, 65480, {90, 112, 135}, none, 1, 6, 1, {544, 548, 572}, 5, 48},
          {1, "Normal", 65536, 65480, {90, 112, 135}, none, 1, 6, 1, {544, 548, 572}, 5, 48}}};
}

// Columns the specification leaves out for (e) follow from its rules: worked here by hand.
Example TwoTimes2GiB() {
  return {
      .machine = {.node_mib = {2048, 2048}, .cpus = 8},
      .vm_total = 4040 + 513080 + 517120,
      .min_free_kbytes = 8135,
      .pages_min = 2033,
      .totalreserve = (10 + 2004) + 1512 + 1524,
      .zone_order = false,
      .zones = {
          {0, "DMA", 4096, 4040, {7, 8, 10}, {0, 2004, 2004, 2004}, 1, 0, 1, {44, 48, 72}, 1, 8},
          {0,
           "DMA32",
           520192,
           513080,
           {1008, 1260, 1512},
           {0, 0, 0, 0},
           31,
           186,
           2,
           {6052, 6056, 6080},
           3,
           40},
          {1,
           "DMA32",
           524288,
           517120,
           {1016, 1270, 1524},
           {0, 0, 0, 0},
           31,
           186,
           2,
           {6100, 6104, 6128},
           3,
           40}}};
}

std::int64_t ReservedBlocksOf(const Zone& zone) {
  std::int64_t blocks = 0;
  for (const auto& type : zone.pageblock) blocks += type == MigrateType::kReserve ? 1 : 0;
  return blocks;
}

std::int64_t CutoffThreshold(const Zone& zone, int order) {
  return ((std::int64_t{1} << order) + zone.watermark.high) * 4;
}

void CheckExample(const Example& example) {
  AllocMachine machine(example.machine);
  const PageAllocator& allocator = *machine.mm.allocator;
  CHECK(machine.mm.vm_total_pages() == example.vm_total);
  CHECK(allocator.min_free_kbytes() == example.min_free_kbytes);
  CHECK(allocator.min_free_kbytes() >> (example.machine.page_shift - 10) == example.pages_min);
  CHECK(allocator.totalreserve_pages() == example.totalreserve);
  CHECK(allocator.zone_order() == example.zone_order);
  REQUIRE(machine.mm.zones.size() == example.zones.size());
  for (std::size_t i = 0; i < example.zones.size(); ++i) {
    const ZoneRow& row = example.zones[i];
    const Zone& zone = *machine.mm.zones[i];
    CAPTURE(row.node, row.name);
    CHECK(zone.node_position == row.node);
    CHECK(zone.name == row.name);
    CHECK(zone.spanned.n == row.spanned);
    CHECK(zone.present.n == row.present);
    CHECK(zone.watermark.min == row.marks[0]);
    CHECK(zone.watermark.low == row.marks[1]);
    CHECK(zone.watermark.high == row.marks[2]);
    for (std::size_t j = 0; j < 4; ++j) CHECK(zone.lowmem_reserve[j] == row.reserve[j]);
    CHECK(zone.pcp.front()->batch() == row.batch);
    CHECK(zone.pcp.front()->high() == row.pcp_high);
    CHECK(ReserveBlocks(zone.watermark.min, zone.pageblock_order) == row.blocks);
    CHECK(ReservedBlocksOf(zone) == row.blocks);
    CHECK(CutoffThreshold(zone, 0) == row.cutoff[0]);
    CHECK(CutoffThreshold(zone, 1) == row.cutoff[1]);
    CHECK(CutoffThreshold(zone, 3) == row.cutoff[2]);
    CHECK(zone.inactive_ratio == row.inactive_ratio);
    CHECK(machine.mm.vmstat->threshold(zone.ordinal) == row.threshold);
    CHECK(zone.min_unmapped_pages == row.present / 100);
    CHECK(zone.min_slab_pages == row.present * 5 / 100);
  }
}

// Mutations tried, each turning these red: memmap not subtracted; high as min and twice a quarter;
// reserve without the zones between; batch without the minus one; reserve ratios of other zones; a
// threshold for twice the CPUs.
TEST_CASE("Watermarks: worked examples (a), (b), (d) and (e) in every column",
          "[mm][watermarks][spec:throttle-1]") {
  SECTION("(a) 1 GiB UMA") { CheckExample(Uma()); }
  SECTION("(b) 2 nodes x 8 GiB") { CheckExample(TwoTimes8GiB()); }
  SECTION("(d) ia64, 64 KiB pages") { CheckExample(Ia64()); }
  SECTION("(e) 2 nodes x 2 GiB") { CheckExample(TwoTimes2GiB()); }
}

// 64 Mi frames, 2 GiB of them: not for every day.
TEST_CASE("Watermarks: worked example (c) in every column",
          "[mm][watermarks][spec:throttle-1][long]") {
  CheckExample(FourTimes64GiB());
}

// The same numbers as (c) without its frames, so that the everyday tests notice too.
TEST_CASE("Watermarks: example (c) by arithmetic alone", "[mm][watermarks]") {
  const Example example = FourTimes64GiB();
  std::int64_t total = 0;
  for (const ZoneRow& row : example.zones) total += row.present;
  CHECK(total == example.vm_total);
  CHECK(DefaultMinFreeKbytes(total * 4) == example.min_free_kbytes);
  for (const ZoneRow& row : example.zones) {
    const Watermarks marks = ComputeWatermarks({}, example.pages_min, row.present, total);
    CHECK(marks.min == row.marks[0]);
    CHECK(marks.low == row.marks[1]);
    CHECK(marks.high == row.marks[2]);
    CHECK(InactiveRatio({row.present}, {12}) == row.inactive_ratio);
    CHECK(VmStat::ThresholdFor(16, {row.present}, {12}) == row.threshold);
    CHECK(ComputePcpSize({row.present}, {12}).batch == row.batch);
  }
}

// Mutations tried: isqrt of 4 * lowmem; a floor of 600.
TEST_CASE("Watermarks: min_free_kbytes grows with the square root of memory, within bounds",
          "[mm][watermarks][spec:throttle-2]") {
  constexpr std::int64_t kMiB = 1024;  // in KiB
  CHECK(DefaultMinFreeKbytes(16 * kMiB) == 512);
  CHECK(DefaultMinFreeKbytes(1024 * kMiB) == 4096);
  CHECK(DefaultMinFreeKbytes(16 * 1024 * kMiB) == 16384);
  CHECK(DefaultMinFreeKbytes(1024 * 1024 * kMiB) == 65536);
  CHECK(DefaultMinFreeKbytes(100) == 128);
  CHECK(DefaultMinFreeKbytes(1024 * 1024 * kMiB, 262144) == 131072);
}

TEST_CASE("Watermarks: IntSqrt rounds down", "[mm][watermarks]") {
  CHECK(IntSqrt(0) == 0);
  CHECK(IntSqrt(1) == 1);
  for (const std::int64_t root : std::vector<std::int64_t>{2, 3, 1000, 65536, 3'000'000'000}) {
    CHECK(IntSqrt(root * root - 1) == root - 1);
    CHECK(IntSqrt(root * root) == root);
    CHECK(IntSqrt(root * root + 1) == root);
  }
}

TEST_CASE("Watermarks: transparent huge pages ask for 22528 kB a zone, within 5 % of memory",
          "[mm][watermarks]") {
  CHECK(HugePageMinFreeKbytes(4, Pages{32'000'000}, {12}) == 90112);
  CHECK(HugePageMinFreeKbytes(6, Pages{48'000'000}, {12}) == 135168);
  CHECK(HugePageMinFreeKbytes(2, Pages{200'000}, {12}) == 40'000);
}

TEST_CASE("Watermarks: percpu_pagelist_fraction sizes the per-CPU lists", "[mm][pcp]") {
  CHECK(ComputePcpSize({100'000}, {12}, 8).high == 12'500);
  CHECK(ComputePcpSize({100'000}, {12}, 8).batch == 96);
  CHECK(ComputePcpSize({100'000}, {12}, 1000).batch == 25);
  CHECK(ComputePcpSize({100}, {12}, 1000).batch == 1);
}

// --- real machines ---

struct RealZone {
  int node;
  std::string name;
  std::int64_t min, low, high;
  std::int64_t size_min, size_max;  // the size that the kernel computed with lies in between
  std::vector<std::int64_t> protection;
  std::int64_t printed_size;
};

std::size_t IndexOf(const std::string& name, bool has_dma32) {
  if (name == "DMA") return 0;
  if (name == "DMA32") return 1;
  const std::size_t normal = has_dma32 ? 2 : 1;
  return name == "Normal" ? normal : normal + 1;
}

std::vector<RealZone> ZonesOf(const nlohmann::json& machine) {
  const std::string base = machine["check"]["base"];
  std::vector<RealZone> zones;
  for (const auto& zone : machine["zones"]) {
    const std::int64_t size = zone[base];
    RealZone real{zone["node"], zone["name"], zone["min"], zone["low"], zone["high"],
                  size,         size,         {},          size};
    for (const auto& window : machine["check"]["derived"]) {
      if (window[0][0] == real.node && window[0][1] == real.name) {
        real.size_min = window[1];
        real.size_max = window[2];
      }
    }
    for (const auto& value : zone["prot"]) real.protection.push_back(value);
    zones.push_back(real);
  }
  return zones;
}

WatermarkPolicy RuleOf(const nlohmann::json& machine) {
  WatermarkPolicy rule;
  const auto& factor = machine["watermark_scale_factor"];
  if (factor.is_null()) return rule;
  rule.steps = WatermarkSteps::kScaleFactor;
  rule.scale_factor = factor;
  return rule;
}

void CheckMin(const nlohmann::json& machine, const std::vector<RealZone>& zones) {
  std::int64_t total_min = 0;
  std::int64_t total_max = 0;
  std::int64_t total_printed = 0;
  for (const RealZone& zone : zones) {
    total_min += zone.size_min;
    total_max += zone.size_max;
    total_printed += zone.printed_size;
  }
  for (const std::int64_t pages_min : machine["check"]["pages_min"]) {
    for (const RealZone& zone : zones) {
      CAPTURE(zone.node, zone.name);
      const WatermarkPolicy rule = RuleOf(machine);
      CHECK(ComputeWatermarks(rule, pages_min, zone.size_min, total_max).min <= zone.min);
      CHECK(ComputeWatermarks(rule, pages_min, zone.size_max, total_min).min >= zone.min);
    }
  }
  // Where sizes changed after the marks were set, the dump's index says what the rule gives with
  // today's.
  const auto& known = machine["check"]["rule_with_printed_sizes_vs_dump"];
  for (const auto& entry : known) {
    for (const RealZone& zone : zones) {
      if (entry[0] != zone.node || entry[1] != zone.name) continue;
      CAPTURE(zone.node, zone.name);
      const std::int64_t pages_min = machine["min_free_kbytes"].get<std::int64_t>() / 4;
      CHECK(ComputeWatermarks(RuleOf(machine), pages_min, zone.printed_size, total_printed).min ==
            entry[2].get<std::int64_t>());
    }
  }
}

void CheckSteps(const nlohmann::json& machine, const RealZone& zone) {
  // Fed with its min as pages_min of a machine of this zone alone, the rule must give low and high.
  const WatermarkPolicy rule = RuleOf(machine);
  const Watermarks least = ComputeWatermarks(rule, zone.min, zone.size_min, zone.size_min);
  const Watermarks most = ComputeWatermarks(rule, zone.min, zone.size_max, zone.size_max);
  CHECK(least.min == zone.min);
  CHECK(least.low <= zone.low);
  CHECK(least.high <= zone.high);
  CHECK(most.low >= zone.low);
  CHECK(most.high >= zone.high);
  CHECK(zone.high - zone.low - (zone.low - zone.min) <=
        1);  // the same step twice, but for rounding
}

void CheckProtection(const std::vector<RealZone>& zones, const RealZone& zone) {
  const bool has_dma32 =
      zone.protection.size() > 3;  // three zones: DMA, Normal, HighMem or Movable
  std::array<std::int64_t, numa::kMaxZones> low{};
  std::array<std::int64_t, numa::kMaxZones> high{};
  for (const RealZone& other : zones) {
    if (other.node != zone.node) continue;
    low[IndexOf(other.name, has_dma32)] = other.size_min;
    high[IndexOf(other.name, has_dma32)] = other.size_max;
  }
  const std::array<std::int64_t, 3> ratio = has_dma32 ? std::array<std::int64_t, 3>{256, 256, 32}
                                                      : std::array<std::int64_t, 3>{256, 32, 1};
  const std::size_t i = IndexOf(zone.name, has_dma32);
  const std::size_t classes = std::min<std::size_t>(zone.protection.size(), numa::kMaxZones);
  const ReserveTable at_least = ComputeReserves({low.data(), classes}, ratio);
  const ReserveTable at_most = ComputeReserves({high.data(), classes}, ratio);
  for (std::size_t j = 0; j < classes; ++j) {
    CAPTURE(j);
    CHECK(at_least[i][j] <= zone.protection[j]);
    CHECK(at_most[i][j] >= zone.protection[j]);
  }
}

// Mutations tried: the step of 4.6 everywhere; protection without the zones between.
TEST_CASE("Watermarks: dumps of real machines come out of the rules of their kernels",
          "[mm][watermarks]") {
  std::ifstream file(SourceRoot() + "/../shared/data/zoneinfo/facts.json");
  if (!file) {
    WARN("no dumps of real machines beside this tree: ../shared/data/zoneinfo/facts.json");
    return;
  }
  const nlohmann::json facts = nlohmann::json::parse(file);
  CHECK(facts.size() >= 13);
  for (const auto& [name, machine] : facts.items()) {
    CAPTURE(name);
    const std::vector<RealZone> zones = ZonesOf(machine);
    CheckMin(machine, zones);
    for (const RealZone& zone : zones) {
      CAPTURE(zone.node, zone.name);
      CheckSteps(machine, zone);
      CheckProtection(zones, zone);
    }
  }
}

}  // namespace
}  // namespace pagestorm::mm
