#include <catch2/catch.hpp>
#include <string>

#include "mm/proc_files.h"
#include "tests/support/alloc_machine.h"

namespace pagestorm::mm {
namespace {

using testing::AllocMachine;
using testing::AllocMachineOptions;
using testing::Machine;

std::string BootError(const AllocMachineOptions& options, const MmConfig& config) {
  Machine machine(EngineKind::kVirtual, testing::CpusOf(options));
  const auto mm = MemoryManager::BootForTest(machine.engine, config);
  return mm.ok() ? "" : std::string(mm.status().message());
}

TEST_CASE("MemoryManager: a machine boots with every frame accounted for", "[mm][boot]") {
  const auto options = GENERATE(
      AllocMachineOptions{.node_mib = {64}}, AllocMachineOptions{.node_mib = {5, 3, 7}, .cpus = 3},
      AllocMachineOptions{.node_mib = {128, 0, 64}, .cpus = 2},
      AllocMachineOptions{.node_mib = {256}, .movable_mib = 64},
      AllocMachineOptions{.node_mib = {512}, .arch = numa::Arch::kIa64, .page_shift = 14},
      AllocMachineOptions{
          .node_mib = {64},
          .holes = {{.start = {0}, .pages = {1}, .kind = numa::Hole::Kind::kLost},
                    {.start = {6000}, .pages = {1000}, .kind = numa::Hole::Kind::kRelocated}}});
  AllocMachine machine(options);
  CHECK(machine.mm.CheckInvariants(true) == "");
  std::int64_t present = 0;
  for (const auto& zone : machine.mm.zones) {
    present += zone->present.n;
    CHECK(machine.Free(*zone) == zone->present.n);
  }
  CHECK(machine.mm.vm_total_pages() == present);
}

TEST_CASE("MemoryManager: memory taken at boot comes off the highest zones", "[mm][boot]") {
  const AllocMachineOptions options{.node_mib = {64}};
  MmConfig config = testing::MmConfigOf(options);
  config.boot_reserved = {Pages{13'000}};
  Machine machine(EngineKind::kVirtual, testing::CpusOf(options));
  const auto mm = MemoryManager::BootForTest(machine.engine, config).value();
  // DMA32 has 12288 - 168 pages and is gone whole; the other 880 come off DMA's 4040.
  CHECK(mm->zones.size() == 1);
  CHECK(mm->zones.front()->name == "DMA");
  CHECK(mm->zones.front()->present.n == 4040 - (13'000 - 12'120));
  CHECK(mm->CheckInvariants(true) == "");
}

TEST_CASE("MemoryManager: what cannot be booted is refused with one line", "[mm][boot]") {
  const AllocMachineOptions options{.node_mib = {64, 64}, .cpus = 2};
  MmConfig config = testing::MmConfigOf(options);
  SECTION("watermarks larger than a zone") {
    config.policy.alloc.min_free_kbytes = 1'000'000;
    CHECK_THAT(BootError(options, config), Catch::Contains("alloc.min_free_kbytes = 1000000") &&
                                               Catch::Contains("node 0 zone DMA"));
  }
  SECTION("distances of another machine") {
    config.distance = {10, 20, 10};
    CHECK_THAT(BootError(options, config),
               Catch::Contains("distance has 3 entries: 2 nodes need 4"));
  }
  SECTION("a CPU on an unknown node") {
    config.map.nodes[1].id = {7};
    CHECK_THAT(BootError(options, config), Catch::Contains("CPU 1 is on node 1"));
  }
  SECTION("no memory left") {
    config.boot_reserved = {Pages{1 << 20}, Pages{1 << 20}};
    CHECK_THAT(BootError(options, config), Catch::Contains("no node has memory left"));
  }
  SECTION("a bad toggle") {
    config.policy.reclaim.swappiness = 101;
    CHECK(BootError(options, config) == "reclaim.swappiness = 101: allowed are 0..100");
  }
}

TEST_CASE("MmPolicy: every range is checked", "[mm][policy]") {
  CHECK(MmPolicy{}.Validate().ok());
  const auto refused = [](auto change) {
    MmPolicy policy;
    change(policy);
    return !policy.Validate().ok();
  };
  CHECK(refused([](MmPolicy& p) { p.hz = 0; }));
  CHECK(refused([](MmPolicy& p) { p.hz = 300; }));
  CHECK(refused([](MmPolicy& p) { p.alloc.percpu_pagelist_fraction = 7; }));
  CHECK(refused([](MmPolicy& p) { p.alloc.pageblock_order = 11; }));
  CHECK(refused([](MmPolicy& p) { p.alloc.min_slab_ratio = 101; }));
  CHECK(refused([](MmPolicy& p) { p.alloc.watermark.scale_factor = 0; }));
  CHECK(refused([](MmPolicy& p) { p.dirty.dirty_ratio = -1; }));
  CHECK(refused([](MmPolicy& p) { p.oom.panic_on_oom = 3; }));
  CHECK(refused([](MmPolicy& p) {
    p.throttle.gate = "throttle";
    p.throttle.scope = ThrottleScope::kOff;
  }));
  CHECK_FALSE(refused([](MmPolicy& p) { p.throttle.limit = -1; }));
  CHECK_FALSE(refused([](MmPolicy& p) { p.alloc.percpu_pagelist_fraction = 8; }));
}

}  // namespace
}  // namespace pagestorm::mm
