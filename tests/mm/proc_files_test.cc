#include "mm/proc_files.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/alloc_machine.h"

namespace pagestorm::mm {
namespace {

using testing::AllocMachine;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("ProcFiles: zoneinfo has 2.6.26's layout", "[mm][proc]") {
  const AllocMachine machine({.node_mib = {1024}, .cpus = 2});
  const std::vector<std::string> lines = Lines(ProcZoneinfo(machine.mm));
  const std::vector<std::string> head{
      "Node 0, zone      DMA",
      "  pages free     4040",
      "        min      15",
      "        low      18",
      "        high     22",
      "        scanned  0 (a: 0 i: 0)",
      "        spanned  4096",
      "        present  4040",
      "    nr_free_pages 4040",
      "    nr_inactive  0",
      "    nr_active    0",
      "    nr_anon_pages 0",
      "    nr_mapped    0",
      "    nr_file_pages 0",
      "    nr_dirty     0",
      "    nr_writeback 0",
      "    nr_slab_reclaimable 0",
      "    nr_slab_unreclaimable 0",
      "    nr_page_table_pages 0",
      "    nr_unstable  0",
      "    nr_bounce    0",
      "    nr_vmscan_write 0",
      "    nr_writeback_temp 0",
      "    numa_hit     0",
      "    numa_miss    0",
      "    numa_foreign 0",
      "    numa_interleave 0",
      "    numa_local   0",
      "    numa_other   0",
      "        protection: (0, 994, 994, 994)",
      "  pagesets",
      "    cpu: 0",
      "              count: 0",
      "              high:  0",
      "              batch: 1",
      "  vm stats threshold: 4",
      "    cpu: 1",
      "              count: 0",
      "              high:  0",
      "              batch: 1",
      "  vm stats threshold: 4",
      "  all_unreclaimable: 0",
      "  prev_priority:     12",
      "  start_pfn:         0",
      "Node 0, zone    DMA32",
  };
  REQUIRE(lines.size() > head.size());
  for (std::size_t i = 0; i < head.size(); ++i) CHECK(lines[i] == head[i]);
}

TEST_CASE("ProcFiles: buddyinfo and pagetypeinfo count free blocks", "[mm][proc]") {
  const AllocMachine machine({.node_mib = {64}});
  const std::vector<std::string> buddy = Lines(ProcBuddyinfo(machine.mm));
  CHECK(
      buddy[0] ==
      "Node 0, zone      DMA      0      0      0      1      0      0      1      1      1      1 "
      "     3 ");
  const std::vector<std::string> types = Lines(ProcPagetypeinfo(machine.mm));
  CHECK(types[0] == "Page block order: 9");
  CHECK(types[1] == "Pages per block:  512");
  CHECK(types[2].empty());
  CHECK(types[3].rfind("Free pages count per migrate type at order       0      1 ", 0) == 0);
  CHECK(types[4].rfind("Node    0, zone      DMA, type    Unmovable      0 ", 0) == 0);
  CHECK(std::ranges::find(types,
                          "Number of blocks type     Unmovable  Reclaimable      Movable      "
                          "Reserve      Isolate ") != types.end());
  CHECK(std::ranges::find(types,
                          "Node 0, zone      DMA            0            0            7       "
                          "     1            0 ") != types.end());
}

TEST_CASE("ProcFiles: vmstat lists counters, then events, as 2.6.26 names them", "[mm][proc]") {
  AllocMachine machine({.node_mib = {64}});
  machine.Run([&] {
    for (int i = 0; i < 3; ++i) static_cast<void>(machine.mm.allocator->Alloc(GFP_KERNEL, 4));
    machine.Fold();
  });
  const std::vector<std::string> lines = Lines(ProcVmstat(machine.mm));
  CHECK(lines[0] == "nr_free_pages " + std::to_string(machine.mm.vm_total_pages() - 48));
  CHECK(lines[1] == "nr_inactive 0");
  CHECK(std::ranges::find(lines, "numa_hit 3") != lines.end());
  CHECK(std::ranges::find(lines, "pgalloc_dma32 48") != lines.end());
  CHECK(lines.back() == "pgrotated 0");
  CHECK(lines.size() == 21 + 36);
}

TEST_CASE("ProcFiles: meminfo is in kB and in columns", "[mm][proc]") {
  const AllocMachine machine({.node_mib = {64}});
  const std::vector<std::string> lines = Lines(ProcMeminfo(machine.mm));
  // 16 MiB - 56 pages + 48 MiB - 168 pages
  CHECK(lines[0] == "MemTotal:        64640 kB");
  CHECK(lines[1] == "MemFree:         64640 kB");
  CHECK(lines[5] == "Active:              0 kB");
  CHECK(lines.back() == "Hugepagesize:     2048 kB");
  CHECK(lines.size() == 30);
  const std::vector<std::string> node = Lines(NodeMeminfo(machine.mm, 0));
  CHECK(node[0].empty());
  CHECK(node[1] == "Node 0 MemTotal:        64640 kB");
  CHECK(node[3] == "Node 0 MemUsed:             0 kB");
  CHECK(node.back() == "Node 0 HugePages_Surp:      0");
}

TEST_CASE("ProcFiles: node files say who is where", "[mm][proc]") {
  const AllocMachine machine(
      {.node_mib = {64, 0, 64}, .cpus = 6, .distance = {10, 20, 30, 20, 10, 20, 30, 20, 10}});
  CHECK(NodeDistance(machine.mm, 0) == "10 20 30\n");
  CHECK(NodeCpulist(machine.mm, 1) == "2-3\n");
  CHECK(NodeCpumap(machine.mm, 1) == "0000000c\n");
  CHECK(NodeNumastat(machine.mm, 2) ==
        "numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 0\nother_node 0\n");
  const ProcFiles files = AllProcFiles(machine.mm);
  CHECK(std::ranges::is_sorted(files));
  CHECK(files.size() == 10 + 3 * 5);
  const auto text = [&files](const std::string& path) {
    for (const auto& [name, content] : files) {
      if (name == path) return content;
    }
    return std::string("missing");
  };
  CHECK(text("sys/devices/system/node/online") == "0-2\n");
  CHECK(text("sys/devices/system/node/has_memory") == "0,2\n");
  CHECK(text("sys/devices/system/node/has_cpu") == "0-2\n");
  CHECK(text("sys/devices/system/node/node1/cpulist") == "2-3\n");
}

TEST_CASE("ProcFiles: lists and masks of numbers", "[mm][proc]") {
  CHECK(RangeList({}).empty());
  CHECK(RangeList({5}) == "5");
  CHECK(RangeList({0, 1, 2, 8, 10, 11}) == "0-2,8,10-11");
  CHECK(HexMask({0, 1, 2, 3}, 4) == "0000000f");
  CHECK(HexMask({0, 32, 63}, 96) == "00000000,80000001,00000001");
}

}  // namespace
}  // namespace pagestorm::mm
