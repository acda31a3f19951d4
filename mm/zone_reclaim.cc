// Local reclaim before a node is left: Reclaimer::ZoneReclaim.
#include <algorithm>

#include "mm/page_alloc.h"
#include "mm/reclaim.h"
#include "mm/slab.h"
#include "mm/swap.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

constexpr int kZoneReclaimPriority = 4;
constexpr std::int64_t kModeWrite = 2;
constexpr std::int64_t kModeSwap = 4;

// Task flags for a scope.
class FlagScope {
 public:
  explicit FlagScope(std::uint32_t flags) : added_(flags & ~Current().flags) {
    Current().flags |= added_;
  }
  ~FlagScope() { Current().flags &= ~added_; }
  FlagScope(const FlagScope&) = delete;
  FlagScope& operator=(const FlagScope&) = delete;

 private:
  const std::uint32_t added_;
};

class ReclaimLock {
 public:
  explicit ReclaimLock(Zone& zone)
      : zone_(zone), taken_((zone.flags.fetch_or(kZoneReclaimLocked) & kZoneReclaimLocked) == 0) {}
  ~ReclaimLock() {
    if (taken_) zone_.flags.fetch_and(~static_cast<std::uint32_t>(kZoneReclaimLocked));
  }
  ReclaimLock(const ReclaimLock&) = delete;
  ReclaimLock& operator=(const ReclaimLock&) = delete;
  [[nodiscard]] bool taken() const { return taken_; }

 private:
  Zone& zone_;
  const bool taken_;
};

std::int64_t UnmappedFilePages(const MemoryManager& mm, const Zone& zone) {
  return mm.vmstat->Read(zone.ordinal, ZoneStat::kNrFilePages) -
         mm.vmstat->Read(zone.ordinal, ZoneStat::kNrMapped);
}
std::int64_t SlabPages(const MemoryManager& mm, const Zone& zone) {
  return mm.vmstat->Read(zone.ordinal, ZoneStat::kNrSlabReclaimable);
}

}  // namespace

bool Reclaimer::ZoneReclaim(Zone& zone, Gfp gfp, int order) {
  if (UnmappedFilePages(mm_, zone) <= zone.min_unmapped_pages &&
      SlabPages(mm_, zone) <= zone.min_slab_pages) {
    return false;
  }
  if (zone.Has(kZoneAllUnreclaimable)) return false;
  const Task& task = Current();
  if ((gfp & __GFP_WAIT) == 0 || (task.flags & PF_MEMALLOC) != 0) return false;
  const auto position = static_cast<std::size_t>(zone.node_position);
  if (mm_.config.node_has_cpus[position] && task.cpu->node != zone.node) return false;
  ReclaimLock lock(zone);
  return lock.taken() && ZoneReclaimLocked(zone, gfp, order);
}

bool Reclaimer::ZoneReclaimLocked(Zone& zone, Gfp gfp, int order) {
  const std::int64_t mode = mm_.allocator->zone_reclaim_mode();
  const std::int64_t wanted = std::int64_t{1} << order;
  ScanControl sc{.gfp = gfp,
                 .caller = ReclaimCaller::kZoneReclaim,
                 .swap_cluster_max = std::max(wanted, std::int64_t{kSwapClusterMax}),
                 .may_writepage = (mode & kModeWrite) != 0,
                 .may_swap = (mode & kModeSwap) != 0,
                 .swappiness = mm_.policy.reclaim.swappiness};
  mm_.swap->DropToken();
  CondResched();
  FlagScope flags(PF_MEMALLOC | PF_SWAPWRITE);
  if (UnmappedFilePages(mm_, zone) > zone.min_unmapped_pages) {
    for (int priority = kZoneReclaimPriority; priority >= 0 && sc.nr_reclaimed < wanted;
         --priority) {
      if (zone.prev_priority.load(std::memory_order_relaxed) > priority) {
        zone.prev_priority.store(priority, std::memory_order_relaxed);
      }
      ShrinkZone(priority, zone, sc);  // a cut-off is ignored
    }
  }
  const std::int64_t slab = SlabPages(mm_, zone);
  if (slab > zone.min_slab_pages) {
    // Presses all slabs, of this zone or not, until this one has shrunk.
    while (mm_.slab->Shrink(sc.nr_scanned, gfp, order).objects > 0 &&
           SlabPages(mm_, zone) > zone.min_slab_pages && SlabPages(mm_, zone) > slab - wanted) {
    }
    sc.nr_reclaimed += slab - SlabPages(mm_, zone);
  }
  return sc.nr_reclaimed >= wanted;
}

}  // namespace pagestorm::mm
