#include "mm/page_alloc.h"

#include "mm/buddy.h"
#include "mm/memcg.h"
#include "mm/pcp.h"
#include "mm/reclaim.h"

namespace pagestorm::mm {

PageAllocator::PageAllocator(MemoryManager& mm) : mm_(mm), retry_(MakeRetryRule(mm)) {}

int PageAllocator::GfpZone(Gfp gfp) const {
  const numa::ZoneLayout& layout = mm_.layout();
  if ((gfp & __GFP_DMA) != 0) return 0;
  if ((gfp & __GFP_DMA32) != 0) {
    return layout.IndexOf(numa::ZoneKind::kDma32).value_or(0);  // ia64: its DMA zone ends at 4 GiB
  }
  constexpr Gfp kMovableUser = __GFP_HIGHMEM | __GFP_MOVABLE;
  return (gfp & kMovableUser) == kMovableUser ? layout.MovableIndex() : layout.NormalIndex();
}

MigrateType PageAllocator::MigrateTypeOf(Gfp gfp) {
  const bool movable = (gfp & __GFP_MOVABLE) != 0;
  const bool reclaimable = (gfp & __GFP_RECLAIMABLE) != 0;
  PS_CHECK(!(movable && reclaimable), "__GFP_MOVABLE and __GFP_RECLAIMABLE exclude each other");
  return movable       ? MigrateType::kMovable
         : reclaimable ? MigrateType::kReclaimable
                       : MigrateType::kUnmovable;
}

std::span<Zone* const> PageAllocator::ZonelistFor(Gfp gfp, int node) const {
  const Zonelists& lists = zonelists_[static_cast<std::size_t>(node)];
  const auto highest = static_cast<std::size_t>(GfpZone(gfp));
  return (gfp & __GFP_THISNODE) != 0 ? lists.own[highest] : lists.all[highest];
}

Zone* PageAllocator::PreferredZone(Gfp gfp, int node) const {
  const auto list = ZonelistFor(gfp, node);
  return list.empty() ? nullptr : list.front();
}

int PageAllocator::effective_pageblock_order() const { return mm_.policy.alloc.pageblock_order; }

bool PageAllocator::WatermarkOk(const Zone& zone, int order, std::int64_t mark, int classzone,
                                std::uint32_t alloc_flags) const {
  return WatermarkOkWith(mm_.vmstat->Read(zone.ordinal, ZoneStat::kNrFreePages), zone, order, mark,
                         classzone, alloc_flags);
}

bool PageAllocator::WatermarkOkWith(std::int64_t free, const Zone& zone, int order,
                                    std::int64_t mark, int classzone,
                                    std::uint32_t alloc_flags) const {
  std::int64_t min = mark;
  if ((alloc_flags & kAllocHigh) != 0) min -= min / 2;
  if ((alloc_flags & kAllocHarder) != 0) min -= min / 4;
  free -= (std::int64_t{1} << order) - 1;
  if (free <= min + zone.lowmem_reserve[static_cast<std::size_t>(classzone)]) return false;
  // Blocks too small to serve the request do not count, and the larger the order the less must
  // remain.
  for (int k = 0; k < order; ++k) {
    free -= zone.free_area[static_cast<std::size_t>(k)].nr_free << k;
    min >>= 1;
    if (free <= min) return false;
  }
  return true;
}

std::optional<FrameNo> PageAllocator::Alloc(Gfp gfp, int order, int node) {
  PS_CHECK(order >= 0 && order <= kMaxOrder);
  Request request{gfp, order, node >= 0 ? node : PositionOf(CurrentCpu())};
  request.zonelist = ZonelistFor(gfp, request.node);
  if (request.zonelist.empty())
    return std::nullopt;  // __GFP_THISNODE on a node without such memory
  const std::optional<FrameNo> n = Walk(request, Mark::kLow, 0);
  if (n) [[likely]]
    return n;
  return SlowPath(request);
}

std::optional<FrameNo> PageAllocator::WalkFreeLists(Gfp gfp, int order, int node, Mark mark,
                                                    std::uint32_t alloc_flags) {
  Request request{gfp, order, node >= 0 ? node : PositionOf(CurrentCpu())};
  request.zonelist = ZonelistFor(gfp, request.node);
  return Walk(request, mark, alloc_flags);
}

std::optional<FrameNo> PageAllocator::Walk(const Request& request, Mark mark, std::uint32_t flags) {
  const bool numa = mm_.nodes.size() > 1 && (request.gfp & __GFP_THISNODE) == 0;
  FullZones* full = numa ? zonelists_[static_cast<std::size_t>(request.node)].full.get() : nullptr;
  bool skip = numa;
  std::optional<FrameNo> n = WalkOnce(request, mark, flags, full, skip);
  if (!n && skip) {
    skip = false;
    n = WalkOnce(request, mark, flags, full, skip);
  }
  return n;
}

std::optional<FrameNo> PageAllocator::WalkOnce(const Request& request, Mark mark,
                                               std::uint32_t flags, FullZones* full, bool& skip) {
  if (request.zonelist.empty()) return std::nullopt;
  Zone& preferred = *request.zonelist.front();
  for (Zone* zone : request.zonelist) {
    if (zone != &preferred && skip && full->Has(*zone)) continue;
    if (Acceptable(*zone, request, mark, preferred.index, flags)) {
      if (const auto n = TakeFrom(*zone, request)) {
        CountAlloc(preferred, *zone, request);
        Prepare(*n, request);
        return n;
      }
    }
    if (full == nullptr) continue;
    // The bitmap comes into play with the first zone that has nothing, and not before: the usual
    // walk ends there.
    if (zone == &preferred && skip) full->Refresh(Now().n);
    full->Mark(*zone);
  }
  return std::nullopt;
}

bool PageAllocator::Acceptable(Zone& zone, const Request& request, Mark mark, int classzone,
                               std::uint32_t flags) {
  if ((flags & kAllocNoWatermarks) != 0) return true;
  Charge({mm_.costs.watermark_ns});
  if (WatermarkOk(zone, request.order, zone.MarkOf(mark), classzone, flags)) return true;
  return zone_reclaim_mode_ != 0 && mm_.reclaimer != nullptr &&
         mm_.reclaimer->ZoneReclaim(zone, request.gfp, request.order);
}

std::optional<FrameNo> PageAllocator::TakeFrom(Zone& zone, const Request& request) {
  const MigrateType type = MigrateTypeOf(request.gfp);
  FrameNo n = kNoFrame;
  if (request.order == 0) {
    Charge({mm_.costs.pcp_op_ns});
    n = TakeFromPcp(zone, type, (request.gfp & __GFP_COLD) != 0);
    if (n != kNoFrame) mm_.frames[n].ResetState(FrameState::kInUse);
  } else {
    BuddyWork work;
    SpinGuard guard(zone.lock);
    n = TakeBlockLocked(zone, request.order, type, FrameState::kInUse, work);
    Charge({work.steps * mm_.costs.buddy_op_ns});
  }
  if (n == kNoFrame) return std::nullopt;
  return n;
}

void PageAllocator::CountAlloc(const Zone& preferred, const Zone& zone, const Request& request) {
  VmStat& vmstat = *mm_.vmstat;
  vmstat.Count(ForZone(VmEvent::kPgallocDma, zone.kind), std::int64_t{1} << request.order);
  if (zone.node == preferred.node) {
    vmstat.Add(zone.ordinal, ZoneStat::kNumaHit, 1);
  } else {
    vmstat.Add(zone.ordinal, ZoneStat::kNumaMiss, 1);
    vmstat.Add(preferred.ordinal, ZoneStat::kNumaForeign, 1);
  }
  const bool local = PositionOf(CurrentCpu()) == zone.node_position;
  vmstat.Add(zone.ordinal, local ? ZoneStat::kNumaLocal : ZoneStat::kNumaOther, 1);
}

void PageAllocator::Prepare(FrameNo n, const Request& request) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.refcount.load(std::memory_order_relaxed) == 0, "a free frame was referenced");
  frame.owner = frame.index = frame.mapper = frame.priv = 0;
  if (request.order > 0 && (request.gfp & __GFP_COMP) != 0) {
    frame.priv = static_cast<std::uint32_t>(request.order);
    frame.Set(kPageHead);
  }
  // release: who takes a further reference by frame number sees the fields above.
  frame.refcount.store(1, std::memory_order_release);
  if ((request.gfp & __GFP_ZERO) != 0) {
    const FrameNo count = FrameNo{1} << request.order;
    for (FrameNo i = n; i < n + count; ++i) mm_.frames.SetStamp(i, 0);
    Charge({mm_.costs.page_zero_ns << request.order});
  }
}

void PageAllocator::PutPage(FrameNo n, int order, bool cold) {
  const std::uint16_t before = mm_.frames[n].refcount.fetch_sub(1, std::memory_order_acq_rel);
  PS_CHECK(before > 0, "a reference too many was dropped");
  if (before == 1) FreeUnreferenced(n, order, cold);
}

void PageAllocator::Free(FrameNo n, int order, bool cold) {
  PS_CHECK(mm_.frames[n].refcount.load(std::memory_order_relaxed) == 1);
  mm_.frames[n].refcount.store(0, std::memory_order_relaxed);
  FreeUnreferenced(n, order, cold);
}

void PageAllocator::FreeUnreferenced(FrameNo n, int order, bool cold) {
  const PageFrame& frame = mm_.frames[n];
  PS_CHECK(!frame.Test(kPageLocked | kPageWriteback | kPageSwapCache), "freed while in use");
  PS_CHECK(frame.mapcount.load(std::memory_order_relaxed) == 0, "freed while mapped");
  PS_CHECK(frame.state() == FrameState::kInUse);
  if (mm_.cgroups != nullptr) [[unlikely]]
    mm_.cgroups->Uncharge(n);
  Zone& zone = mm_.ZoneOf(n);
  if (order == 0) {
    Charge({mm_.costs.pcp_op_ns});
    mm_.vmstat->Count(VmEvent::kPgfree);
    return PutToPcp(zone, n, cold);
  }
  mm_.vmstat->Count(VmEvent::kPgfree, std::int64_t{1} << order);
  BuddyWork work;
  SpinGuard guard(zone.lock);
  NoteBuddyFree(zone);
  PutBlockLocked(zone, n, order, work);
  Charge({work.steps * mm_.costs.buddy_op_ns});
}

void PageAllocator::DrainLocal() {
  const Cpu& cpu = CurrentCpu();
  if (cpu.kind == CpuKind::kService) return;
  for (const auto& zone : mm_.zones) {
    DrainPcp(*zone, *zone->pcp[static_cast<std::size_t>(cpu.id.n)]);
  }
}

void PageAllocator::DrainAll() {
  for (const auto& zone : mm_.zones) {
    for (const auto& pcp : zone->pcp) {
      if (pcp->count() == 0) continue;
      Charge({mm_.costs.pcp_op_ns});
      DrainPcp(*zone, *pcp);
    }
  }
}

void PageAllocator::TickCpu() {
  constexpr int kIdleTicks = 3;
  const CpuId id = CurrentCpu().id;
  const int own_node = PositionOf(CurrentCpu());
  for (const auto& zone : mm_.zones) {
    Pcp& pcp = *zone->pcp[static_cast<std::size_t>(id.n)];
    if (mm_.vmstat->FoldZone(zone->ordinal, id)) pcp.expire = kIdleTicks;
    if (zone->node_position == own_node) pcp.expire = 0;
    if (pcp.expire == 0 || pcp.count() == 0 || --pcp.expire > 0) continue;
    DrainPcp(*zone, pcp);
  }
}

}  // namespace pagestorm::mm
