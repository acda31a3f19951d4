#include "mm/memory_manager.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/executor.h"
#include "mm/address_space.h"
#include "mm/block_device.h"
#include "mm/buddy.h"
#include "mm/kswapd.h"
#include "mm/lru.h"
#include "mm/memcg.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/page_cache.h"
#include "mm/page_lock.h"
#include "mm/pagevec.h"
#include "mm/reclaim.h"
#include "mm/rmap.h"
#include "mm/slab.h"
#include "mm/swap.h"
#include "mm/throttle.h"
#include "mm/writeback.h"

namespace pagestorm::mm {
namespace {

// Nodes with CPUs, where the configuration leaves that to the engine.
std::vector<bool> NodesWithCpus(const Engine& engine, const MmConfig& config) {
  std::vector<bool> has(config.map.nodes.size(), false);
  for (std::size_t cpu = 0; cpu < engine.online_cpus(); ++cpu) {
    const NodeId id = engine.cpu({static_cast<int>(cpu)}).node;
    for (std::size_t i = 0; i < has.size(); ++i) {
      if (config.map.nodes[i].id == id) has[i] = true;
    }
  }
  return has;
}

MmConfig Complete(const Engine& engine, MmConfig config) {
  if (config.node_has_cpus.empty()) config.node_has_cpus = NodesWithCpus(engine, config);
  config.boot_reserved.resize(config.map.nodes.size());
  return config;
}

// Frames of a node's zones that the allocator never gets, by zone index: holes, the struct pages of
// the zone, and what the kernel took at boot, from the highest zone down.
std::vector<Pages> AbsentPages(const MmConfig& config, std::size_t position) {
  const numa::NodeSpan& node = config.map.nodes[position];
  std::vector<Pages> absent(node.zones.size());
  Pages reserved = config.boot_reserved[position];
  for (std::size_t i = node.zones.size(); i-- > 0;) {
    const numa::ZoneSpan& span = node.zones[i];
    numa::PresentRule rule;
    rule.struct_page_bytes = config.policy.alloc.struct_page_bytes;
    const Pages present = numa::ComputePresent(span, config.map.page_shift, rule).present;
    const Pages taken = std::min(reserved, present);
    reserved -= taken;
    absent[i] = span.spanned - present + taken;
  }
  return absent;
}

}  // namespace

MemoryManager::MemoryManager(Engine& machine, MmConfig boot_config)
    : engine(machine),
      config(Complete(machine, std::move(boot_config))),
      policy(config.policy),
      costs(config.costs) {}

MemoryManager::~MemoryManager() = default;

absl::StatusOr<std::unique_ptr<MemoryManager>> MemoryManager::BootForTest(Engine& engine,
                                                                          MmConfig config) {
  std::unique_ptr<MemoryManager> mm(new MemoryManager(engine, std::move(config)));
  if (absl::Status status = mm->Check(); !status.ok()) return status;
  if (absl::Status status = mm->BuildMemory(); !status.ok()) return status;
  return mm;
}

absl::Status MemoryManager::Check() const {
  if (absl::Status status = policy.Validate(); !status.ok()) return status;
  const std::size_t count = config.map.nodes.size();
  if (count == 0) return absl::InvalidArgumentError("a machine needs a node");
  if (!config.distance.empty() && config.distance.size() != count * count) {
    return absl::InvalidArgumentError(absl::StrCat("distance has ", config.distance.size(),
                                                   " entries: ", count, " nodes need ",
                                                   count * count));
  }
  if (config.node_has_cpus.size() != count || config.boot_reserved.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "node_has_cpus and boot_reserved need an entry for each of ", count, " nodes"));
  }
  for (std::size_t cpu = 0; cpu < engine.cpu_count(); ++cpu) {
    const NodeId id = engine.cpu({static_cast<int>(cpu)}).node;
    const bool known =
        std::ranges::any_of(config.map.nodes, [id](const auto& node) { return node.id == id; });
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("CPU ", cpu, " is on node ", id.n,
                                                     ", which has no place in the memory map"));
    }
  }
  if (config.map.end.n >= kNoFrame) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the memory map ends at frame ", config.map.end.n, ": allowed are less than ", kNoFrame));
  }
  return MemCgroups::Check(config.cgroups);
}

absl::Status MemoryManager::BuildMemory() {
  BuildZones();
  if (zones.empty()) return absl::InvalidArgumentError("no node has memory left after boot");
  if (zones.size() > kMaxZoneOrdinals) {
    return absl::InvalidArgumentError(
        absl::StrCat(zones.size(), " populated zones: allowed are ", kMaxZoneOrdinals));
  }
  const FrameTable::Extras extras{.stamps = config.stamps, .groups = !config.cgroups.empty()};
  if (!frames.Map(static_cast<FrameNo>(config.map.end.n), extras)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host refuses ", FrameTable::BytesFor(config.map.end.n, extras) >> 20,
                     " MiB for the page frames of this machine"));
  }
  vmstat = std::make_unique<VmStat>(engine, zones.size());
  FillZones();
  allocator = std::make_unique<PageAllocator>(*this);
  allocator->BuildZonelists();
  allocator->BootWatermarks();
  for (const auto& zone : zones) {
    if (zone->watermark.high > zone->present.n) {
      return absl::InvalidArgumentError(absl::StrCat(
          "alloc.min_free_kbytes = ", allocator->min_free_kbytes(), ": the high watermark of node ",
          zone->node.n, " zone ", zone->name, " would be ", zone->watermark.high.get(),
          " pages, and it has ", zone->present.n));
    }
    SetupReserveAtBoot(*zone);
  }
  return absl::OkStatus();
}

void MemoryManager::BuildZones() {
  std::vector<std::vector<Pages>> absent;
  for (std::size_t i = 0; i < config.map.nodes.size(); ++i) {
    absent.push_back(AbsentPages(config, i));
    for (const numa::ZoneSpan& span : config.map.nodes[i].zones) {
      vm_total_pages_ += (span.spanned - absent[i][static_cast<std::size_t>(span.zone)]).n;
    }
  }
  // With so little memory grouping would only spread it thinly.
  const bool grouped = vm_total_pages_ >= std::int64_t{5} << policy.alloc.pageblock_order;
  for (std::size_t i = 0; i < config.map.nodes.size(); ++i) {
    auto node = std::make_unique<PgData>();
    node->id = config.map.nodes[i].id;
    node->position = static_cast<int>(i);
    for (const numa::ZoneSpan& span : config.map.nodes[i].zones) {
      const Pages gone = absent[i][static_cast<std::size_t>(span.zone)];
      if (span.spanned <= gone) continue;
      zones.push_back(
          std::make_unique<Zone>(*this, zones.size(), node->position, span, gone, grouped));
      node->zones.push_back(zones.back().get());
    }
    nodes.push_back(std::move(node));
  }
}

void MemoryManager::FillZones() {
  // Chunks of 2^18 frames, 8 MiB of table: whole blocks of the highest order.
  constexpr FrameNo kChunk = FrameNo{1} << 18;
  struct Chunk {
    Zone* zone;
    FrameNo begin, end;
  };
  std::vector<Chunk> chunks;
  for (const auto& zone : zones) {
    for (auto begin = static_cast<FrameNo>(zone->start.n); begin < zone->end;) {
      const FrameNo end = std::min((begin / kChunk + 1) * kChunk, zone->end);
      chunks.push_back({zone.get(), begin, end});
      if (end == zone->end) break;
      begin = end;
    }
  }
  const auto init = [&chunks](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      InitFrames(*chunks[i].zone, chunks[i].begin, chunks[i].end);
    }
  };
  // Below 8 GiB of 4 KiB pages the threads would cost more than they save.
  if (chunks.size() < 8) {
    init(0, chunks.size());
  } else {
    Executor().ParallelFor(chunks.size(), 1, init);
  }
  for (const auto& zone : zones) LinkFreeBlocks(*zone);
}

int MemoryManager::MemoryNodeOf(const Cpu& cpu) const {
  for (const auto& node : nodes) {
    if (node->id == cpu.node) return node->memory_node;
  }
  return nodes.front()->memory_node;
}

}  // namespace pagestorm::mm
