// The part of PageAllocator that decides sizes: zonelists, watermarks and reserves.
#include <algorithm>
#include <mutex>

#include "mm/buddy.h"
#include "mm/page_alloc.h"
#include "numa/node_order.h"

namespace pagestorm::mm {
namespace {

// The nodes as the node order sees them: who has memory and CPUs, and how far apart they are.
numa::Topology OrderTopology(const MemoryManager& mm) {
  numa::Topology topology;
  const std::size_t count = mm.nodes.size();
  for (std::size_t i = 0; i < count; ++i) {
    numa::Node node;
    node.id = mm.nodes[i]->id;
    node.memory_bytes = mm.nodes[i]->zones.empty() ? 0 : 1;
    if (mm.config.node_has_cpus[i]) node.cpus.push_back(CpuId{static_cast<int>(i)});
    topology.nodes.push_back(node);
  }
  topology.distances = mm.config.distance;
  if (topology.distances.empty()) {
    for (std::size_t i = 0; i < count * count; ++i) {
      topology.distances.push_back(i % (count + 1) == 0 ? numa::kLocalDistance
                                                        : numa::kRemoteDistance);
    }
  }
  return topology;
}

ZonelistOrder OrderFor(const MemoryManager& mm) {
  if (const auto asked = ParseZonelistOrder(mm.policy.alloc.numa_zonelist_order)) return *asked;
  std::vector<std::int64_t> low(mm.nodes.size(), 0);
  std::vector<std::int64_t> total(mm.nodes.size(), 0);
  for (const auto& zone : mm.zones) {
    const auto node = static_cast<std::size_t>(zone->node_position);
    total[node] += zone->present.n;
    if (zone->index < mm.layout().NormalIndex()) low[node] += zone->present.n;
  }
  return ChooseZonelistOrder(low, total);
}

// lowmem_reserve_ratio by zone index: the sysctl has an entry for each kind of zone.
std::vector<std::int64_t> ReserveRatios(const MemoryManager& mm) {
  std::vector<std::int64_t> ratio;
  for (int i = 0; i < mm.layout().count - 1; ++i) {
    const auto kind = static_cast<std::size_t>(mm.layout().kinds[static_cast<std::size_t>(i)]);
    ratio.push_back(mm.policy.alloc.lowmem_reserve_ratio[kind]);
  }
  return ratio;
}

}  // namespace

void PageAllocator::BuildZonelists() {
  const numa::Topology topology = OrderTopology(mm_);
  const ZonelistOrder order = OrderFor(mm_);
  zone_order_ = order == ZonelistOrder::kZone;
  const auto node_orders = numa::BuildNodeOrders(topology);
  for (std::size_t i = 0; i < mm_.nodes.size(); ++i) {
    PgData& node = *mm_.nodes[i];
    std::vector<std::vector<Zone*>> visited;
    node.memory_node = -1;
    for (const NodeId id : node_orders[i]) {
      const auto position = *topology.NodePosition(id);
      visited.push_back(mm_.nodes[position]->zones);
      const bool first = node.memory_node < 0 && !visited.back().empty();
      if (first) node.memory_node = static_cast<int>(position);
    }
    node.zonelist = BuildZonelist(visited, order);
    const std::vector<std::vector<Zone*>> own{node.zones};
    node.own_list = BuildZonelist(own, order);
    zonelists_.push_back(FilterZonelists(node.zonelist, node.own_list));
  }
  for (std::size_t cpu = 0; cpu < mm_.engine.cpu_count(); ++cpu) {
    const NodeId node = mm_.engine.cpu({static_cast<int>(cpu)}).node;
    cpu_node_.push_back(static_cast<int>(*topology.NodePosition(node)));
  }
  zone_reclaim_mode_ = mm_.policy.alloc.zone_reclaim_mode;
  if (zone_reclaim_mode_ >= 0) return;
  const int limit = mm_.config.map.arch == numa::Arch::kIa64 ? 15 : numa::kReclaimDistance2626;
  zone_reclaim_mode_ = numa::ExceedsReclaimDistance(topology, limit) ? 1 : 0;
}

void PageAllocator::BootWatermarks() {
  const AllocPolicy& policy = mm_.policy.alloc;
  std::int64_t lowmem = 0;
  for (const auto& zone : mm_.zones) {
    if (zone->index <= mm_.layout().NormalIndex()) lowmem += zone->present.n;
    mm_.vmstat->SetThreshold(zone->ordinal, VmStat::ThresholdFor(mm_.engine.online_cpus(),
                                                                 zone->present, mm_.page_shift()));
    zone->min_unmapped_pages = zone->present.n * policy.min_unmapped_ratio / 100;
    zone->min_slab_pages = zone->present.n * policy.min_slab_ratio / 100;
  }
  std::int64_t kbytes = policy.min_free_kbytes;
  if (kbytes == 0) {
    const Pages pages{lowmem};
    kbytes =
        DefaultMinFreeKbytes(ToKiB(pages, mm_.page_shift()), policy.watermark.min_free_kbytes_cap);
    if (policy.watermark.huge_pages) {
      const auto zones = static_cast<std::int64_t>(mm_.zones.size());
      kbytes = std::max(
          kbytes, HugePageMinFreeKbytes(zones, pages, mm_.page_shift(), policy.pageblock_order));
    }
  }
  min_free_kbytes_ = kbytes;
  for (const auto& zone : mm_.zones) ComputeMarks(*zone);
  const std::vector<std::int64_t> ratio = ReserveRatios(mm_);
  for (const auto& node : mm_.nodes) {
    std::array<std::int64_t, numa::kMaxZones> sizes{};
    for (const Zone* zone : node->zones) {
      sizes[static_cast<std::size_t>(zone->index)] = zone->present.n;
    }
    const auto count = static_cast<std::size_t>(mm_.layout().count);
    const ReserveTable table = ComputeReserves({sizes.data(), count}, ratio);
    for (Zone* zone : node->zones) {
      std::ranges::copy(table[static_cast<std::size_t>(zone->index)], zone->lowmem_reserve.begin());
    }
  }
  SumReserves();
}

void PageAllocator::SetupWatermarks(std::int64_t min_free_kbytes) {
  min_free_kbytes_ = min_free_kbytes;
  for (const auto& zone : mm_.zones) {
    const SpinGuard lru(zone->lru_lock);
    ComputeMarks(*zone);
    const SpinGuard guard(zone->lock);
    SetupReserveLocked(*zone);
  }
  SumReserves();
}

std::int64_t PageAllocator::TotalPresent() const {
  std::int64_t total = 0;
  for (const auto& zone : mm_.zones) total += zone->present.n;
  return total;
}

void PageAllocator::ComputeMarks(Zone& zone) {
  const std::int64_t pages_min = min_free_kbytes_ >> (mm_.page_shift().n - 10);
  zone.watermark =
      ComputeWatermarks(mm_.policy.alloc.watermark, pages_min, zone.present.n, TotalPresent());
}

void PageAllocator::SumReserves() {
  std::int64_t total = 0;
  for (const auto& zone : mm_.zones) {
    std::array<std::int64_t, numa::kMaxZones> reserve{};
    std::ranges::copy(zone->lowmem_reserve, reserve.begin());
    total += ReservedShare(zone->present.n, zone->watermark.high, reserve);
  }
  totalreserve_pages_ = total;
}

}  // namespace pagestorm::mm
