#include "mm/zonelist.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/alloc_machine.h"

namespace pagestorm::mm {
namespace {

using testing::AllocMachine;
using testing::AllocMachineOptions;

std::string Names(std::span<Zone* const> list) {
  std::string out;
  for (const Zone* zone : list) {
    out += (out.empty() ? "" : " ") + ("N" + std::to_string(zone->node.n) + ":" + zone->name);
  }
  return out;
}

// Mutations tried: ascending zones within a node; node order for (b); an average over nodes instead
// of nodes + 1.
TEST_CASE("Zonelist: the kernel picks zone order for (b) and node order for (e)",
          "[mm][zonelist][spec:throttle-7]") {
  SECTION("(b) 2 nodes x 8 GiB") {
    const AllocMachine machine({.node_mib = {8192, 8192}, .cpus = 8});
    CHECK(Names(machine.mm.nodes[0]->zonelist) == "N0:Normal N1:Normal N0:DMA32 N0:DMA");
    CHECK(Names(machine.mm.nodes[1]->zonelist) == "N1:Normal N0:Normal N0:DMA32 N0:DMA");
    CHECK(Names(machine.mm.nodes[1]->own_list) == "N1:Normal");
    // A request is given what its zone index allows.
    const PageAllocator& allocator = *machine.mm.allocator;
    CHECK(Names(allocator.ZonelistFor(GFP_KERNEL | __GFP_DMA32, 1)) == "N0:DMA32 N0:DMA");
    CHECK(Names(allocator.ZonelistFor(GFP_KERNEL | __GFP_DMA, 1)) == "N0:DMA");
    CHECK(allocator.ZonelistFor(GFP_THISNODE | __GFP_DMA, 1).empty());
    CHECK(allocator.PreferredZone(GFP_KERNEL, 0) == &machine.ZoneAt(0, "Normal"));
  }
  SECTION("(e) 2 nodes x 2 GiB") {
    const AllocMachine machine({.node_mib = {2048, 2048}, .cpus = 8});
    CHECK(Names(machine.mm.nodes[0]->zonelist) == "N0:DMA32 N0:DMA N1:DMA32");
    CHECK(Names(machine.mm.nodes[1]->zonelist) == "N1:DMA32 N0:DMA32 N0:DMA");
  }
}

TEST_CASE("Zonelist: the automatic order follows low memory", "[mm][zonelist]") {
  using V = std::vector<std::int64_t>;
  const auto choose = [](const V& low, const V& total) { return ChooseZonelistOrder(low, total); };
  CHECK(choose(V{0, 0}, V{100, 100}) == ZonelistOrder::kNode);    // nothing to protect
  CHECK(choose(V{60, 50}, V{100, 100}) == ZonelistOrder::kNode);  // hardly anything else
  CHECK(choose(V{40, 0}, V{200, 200}) == ZonelistOrder::kZone);
  CHECK(choose(V{100, 0}, V{140, 140}) ==
        ZonelistOrder::kNode);  // 71 % of a node above average is low
  CHECK(choose(V{98, 0}, V{140, 140}) == ZonelistOrder::kZone);  // 70 % is not more than 70 %
  CHECK(choose(V{60, 0}, V{60, 140}) == ZonelistOrder::kZone);   // all low, but a small node
}

TEST_CASE("Zonelist: the order can be asked for by its first letter", "[mm][zonelist]") {
  CHECK(ParseZonelistOrder("node") == ZonelistOrder::kNode);
  CHECK(ParseZonelistOrder("Zone") == ZonelistOrder::kZone);
  CHECK_FALSE(ParseZonelistOrder("default"));
  AllocMachineOptions options{.node_mib = {2048, 2048}, .cpus = 2};
  options.policy.alloc.numa_zonelist_order = "zone";
  const AllocMachine machine(options);
  CHECK(Names(machine.mm.nodes[0]->zonelist) == "N0:DMA32 N1:DMA32 N0:DMA");
  CHECK(machine.mm.allocator->zone_order());
}

// Mutation tried: >= instead of >.
TEST_CASE("Zonelist: a distance above 20 switches zone reclaim on",
          "[mm][zonelist][spec:throttle-8]") {
  const int remote = GENERATE(20, 21);
  const AllocMachine machine({.node_mib = {256, 256}, .cpus = 2, .distance = {10, 20, remote, 10}});
  CHECK(machine.mm.allocator->zone_reclaim_mode() == (remote == 21 ? 1 : 0));
}

TEST_CASE("Zonelist: zone reclaim can be set whatever the distances", "[mm][zonelist]") {
  AllocMachineOptions options{.node_mib = {256, 256}, .cpus = 2, .distance = {10, 40, 40, 10}};
  options.policy.alloc.zone_reclaim_mode = 0;
  CHECK(AllocMachine(options).mm.allocator->zone_reclaim_mode() == 0);
}

TEST_CASE("Zonelist: a node without memory borrows its neighbour's list", "[mm][zonelist]") {
  AllocMachine machine(
      {.node_mib = {512, 0, 512}, .cpus = 3, .distance = {10, 30, 40, 30, 10, 20, 40, 20, 10}});
  CHECK(Names(machine.mm.nodes[1]->zonelist) == "N2:DMA32 N0:DMA32 N0:DMA");
  CHECK(machine.mm.nodes[1]->own_list.empty());
  CHECK(machine.mm.MemoryNodeOf(machine.engine.cpu({1})) == 2);
  CHECK(machine.mm.MemoryNodeOf(machine.engine.cpu({0})) == 0);
}

TEST_CASE("FullZones: what was full is forgotten after a second", "[mm][zonelist]") {
  const AllocMachine machine({.node_mib = {64}});
  const Zone& zone = *machine.mm.zones.front();
  FullZones full;
  full.Mark(zone);
  full.Refresh(kSecond.n);
  CHECK(full.Has(zone));
  CHECK_FALSE(full.Has(*machine.mm.zones.back()));
  full.Refresh(kSecond.n + 1);
  CHECK_FALSE(full.Has(zone));
  full.Mark(zone);
  full.Refresh(2 * kSecond.n);
  CHECK(full.Has(zone));
}

}  // namespace
}  // namespace pagestorm::mm
