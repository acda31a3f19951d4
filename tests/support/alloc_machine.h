// A machine for tests of the page allocator: memory and CPUs, without reclaim and what hangs from
// it.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "mm/buddy.h"
#include "mm/memory_manager.h"
#include "mm/page_alloc.h"
#include "tests/support/machine.h"

namespace pagestorm::testing {

struct AllocMachineOptions {
  EngineKind kind = EngineKind::kVirtual;
  std::vector<std::int64_t> node_mib{64};
  int cpus = 1;  // dealt out over the nodes in equal runs
  int service_cpus = 0;
  numa::Arch arch = numa::Arch::kX86_64;
  int page_shift = 12;
  std::vector<int> distance{};
  mm::MmPolicy policy{};
  bool stamps = false;
  bool sync_in_cs = false;
  std::uint64_t seed = 1;
  std::vector<numa::Hole> holes{};
  mm::MmCosts costs{};
  std::int64_t movable_mib = 0;  // of the last node
};

inline numa::MemoryMap MapOf(const AllocMachineOptions& options) {
  numa::MemoryMapOptions map;
  map.arch = options.arch;
  map.page_shift = {options.page_shift};
  map.holes = options.holes;
  for (std::size_t i = 0; i < options.node_mib.size(); ++i) {
    map.nodes.push_back({.id = {static_cast<int>(i)}, .bytes = options.node_mib[i] << 20});
  }
  map.nodes.back().movable_bytes = options.movable_mib << 20;
  return numa::BuildMemoryMap(map).value();
}

inline EngineConfig CpusOf(const AllocMachineOptions& options) {
  EngineConfig config;
  const auto nodes = static_cast<int>(options.node_mib.size());
  for (int i = 0; i < options.cpus; ++i) {
    config.cpus.push_back({.node = {i * nodes / options.cpus}});
  }
  for (int i = 0; i < options.service_cpus; ++i) {
    config.cpus.push_back({.node = {i % nodes}, .kind = CpuKind::kService});
  }
  config.seed = options.seed;
  config.sync_in_cs = options.sync_in_cs;
  config.bind = false;
  return config;
}

inline mm::MmConfig MmConfigOf(const AllocMachineOptions& options) {
  mm::MmConfig config;
  config.map = MapOf(options);
  config.distance = options.distance;
  config.policy = options.policy;
  config.costs = options.costs;
  config.stamps = options.stamps;
  return config;
}

struct AllocMachine {
  explicit AllocMachine(const AllocMachineOptions& options)
      : base(options.kind, CpusOf(options)),
        engine(base.engine),
        owned(mm::MemoryManager::BootForTest(engine, MmConfigOf(options)).value()),
        mm(*owned) {}

  // Runs `body` as the machine's only task, on CPU 0. Once a machine.
  RunResult Run(std::function<void()> body) {
    CpuMask first;
    first.set(0);
    engine.Spawn({.name = "test", .allowed = first}, std::move(body));
    return engine.Run();
  }

  // From a task: takes blocks off a zone until exactly `left` pages are free, with all counters
  // folded. Returns what was taken, as {first frame, order}.
  using Blocks = std::vector<std::pair<mm::FrameNo, int>>;
  Blocks LeaveFree(mm::Zone& zone, std::int64_t left) {
    Blocks taken;
    mm::BuddyWork work;
    std::int64_t free = mm.vmstat->Exact(zone.ordinal, mm::ZoneStat::kNrFreePages);
    for (int order = mm::kMaxOrder; order >= 0; --order) {
      while (free - (std::int64_t{1} << order) >= left) {
        const SpinGuard guard(zone.lock);
        const mm::FrameNo n = mm::TakeBlockLocked(zone, order, mm::MigrateType::kMovable,
                                                  mm::FrameState::kInUse, work);
        if (n == mm::kNoFrame) break;
        taken.emplace_back(n, order);
        free -= std::int64_t{1} << order;
      }
    }
    Fold();
    return taken;
  }
  void PutBlock(mm::FrameNo n, int order) {
    mm::BuddyWork work;
    mm::Zone& zone = mm.ZoneOf(n);
    const SpinGuard guard(zone.lock);
    mm::PutBlockLocked(zone, n, order, work);
  }
  void Fold() { mm.vmstat->FoldCpu(CurrentCpu().id); }
  [[nodiscard]] std::int64_t Free(const mm::Zone& zone) const {
    return mm.vmstat->Exact(zone.ordinal, mm::ZoneStat::kNrFreePages);
  }
  // The zone of that name on a node.
  [[nodiscard]] mm::Zone& ZoneAt(int node, std::string_view name) const {
    for (const auto& zone : mm.zones) {
      if (zone->node_position == node && zone->name == name) return *zone;
    }
    PS_CHECK(false, "no such zone");
    return *mm.zones.front();
  }

  Machine base;
  Engine& engine;
  std::unique_ptr<mm::MemoryManager> owned;
  mm::MemoryManager& mm;
};

}  // namespace pagestorm::testing
