#include "mm/scan_balance.h"

#include <algorithm>

#include "core/spin_lock.h"
#include "mm/memcg.h"
#include "mm/pagevec.h"
#include "mm/shrink_active.h"
#include "mm/shrink_list.h"
#include "mm/swap.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

std::int64_t NextPortion(std::int64_t& left, std::int64_t batch) {
  const std::int64_t portion = std::min(left, batch);
  left -= portion;
  return portion;
}

bool IsMapped(const PageFrame& frame) { return frame.mapcount.load(std::memory_order_relaxed) > 0; }

class ClassicBalance final : public ScanBalance {
 public:
  explicit ClassicBalance(MemoryManager& mm) : mm_(mm) {}

  std::int64_t Scan(Reclaimer& reclaimer, int priority, Zone& zone, ScanControl& sc) override {
    const std::int64_t batch = sc.swap_cluster_max;
    // A group gathers nothing from visit to visit: the priority's share of its list, at once.
    const auto quota = [&](std::atomic<std::int64_t>& accumulator, LruList list) {
      const std::int64_t share = reclaimer.ListSize(zone, list, sc) >> priority;
      return sc.cgroup != nullptr ? share : TakeScanQuota(accumulator, share + 1, batch);
    };
    std::int64_t active = quota(zone.nr_scan_active, LruList::kActiveAnon);
    std::int64_t inactive = quota(zone.nr_scan_inactive, LruList::kInactiveAnon);
    const std::int64_t enough = mm_.policy.reclaim.bail_out_pages;
    std::int64_t reclaimed = 0;
    while (active > 0 || inactive > 0) {
      if (active > 0) {
        reclaimer.ShrinkActive(NextPortion(active, batch), zone, LruList::kActiveAnon, sc,
                               priority);
      }
      if (inactive > 0) {
        reclaimed += reclaimer.ShrinkInactive(NextPortion(inactive, batch), zone,
                                              LruList::kInactiveAnon, sc, priority);
      }
      // The quota is finished however much was found, until 2.6.29.
      if (enough > 0 && reclaimed >= enough && priority < kDefPriority && !sc.is_kswapd()) break;
    }
    return reclaimed;
  }

  bool ReclaimMapped(const Zone& zone, const ScanControl& sc, int priority) override {
    if (!sc.may_swap) return false;
    if (!mm_.policy.reclaim.reclaim_mapped) return true;
    const VmStat& stat = *mm_.vmstat;
    if (sc.cgroup != nullptr) return OfGroup(*sc.cgroup, zone, sc, priority);
    return ReclaimMappedNow(
        {.priority = priority,
         .prev_priority = mm_.policy.reclaim.prev_priority
                              ? zone.prev_priority.load(std::memory_order_relaxed)
                              : priority,
         .active = stat.Read(zone.ordinal, ZoneStat::kNrActive),
         .inactive = stat.Read(zone.ordinal, ZoneStat::kNrInactive),
         .pages_scanned = zone.pages_scanned.load(std::memory_order_relaxed),
         .mapped = stat.Global(ZoneStat::kNrMapped) + stat.Global(ZoneStat::kNrAnonPages),
         .vm_total = mm_.vm_total_pages(),
         .swappiness = sc.swappiness});
  }

  // Unmapped pages go without any reference test.
  bool StaysActive(FrameNo n, PageOwners& owners, Zone&, const ScanControl&,
                   bool reclaim_mapped) override {
    const PageFrame& frame = mm_.frames[n];
    if (!IsMapped(frame)) return false;
    if (!reclaim_mapped) return true;
    if (frame.Test(kPageAnon) && mm_.swap->total_slots() == 0) return true;
    return owners.Referenced(n, /*page_locked=*/false) > 0;
  }

 private:
  // The same formula over the group's own pages; it is never taken for near its end (2.6.26).
  bool OfGroup(MemCgroup& group, const Zone& zone, const ScanControl& sc, int priority) const {
    const std::int64_t anon = group.anon.load(std::memory_order_relaxed);
    const std::int64_t active = mm_.cgroups->ListSize(group, zone, LruList::kActiveAnon);
    const std::int64_t inactive = mm_.cgroups->ListSize(group, zone, LruList::kInactiveAnon);
    return SwapTendency({.priority = priority,
                         .prev_priority = mm_.policy.reclaim.prev_priority
                                              ? group.prev_priority.load(std::memory_order_relaxed)
                                              : priority,
                         .active = active,
                         .inactive = inactive,
                         .mapped = anon,
                         .vm_total = anon + group.cache.load(std::memory_order_relaxed),
                         .swappiness = sc.swappiness}) >= 100;
  }

  MemoryManager& mm_;
};

class SplitBalance final : public ScanBalance {
 public:
  explicit SplitBalance(MemoryManager& mm) : mm_(mm) {}

  std::int64_t Scan(Reclaimer& reclaimer, int priority, Zone& zone, ScanControl& sc) override {
    std::array<std::int64_t, 4> quota = Quotas(reclaimer, zone, sc, priority);
    const std::int64_t enough = mm_.policy.reclaim.bail_out_pages;
    std::int64_t reclaimed = 0;
    while (quota[kInactiveAnonQuota] > 0 || quota[kActiveFileQuota] > 0 ||
           quota[kInactiveFileQuota] > 0) {
      for (std::size_t i = 0; i < quota.size(); ++i) {
        const std::int64_t portion = NextPortion(quota[i], sc.swap_cluster_max);
        if (portion == 0) continue;
        const auto list = static_cast<LruList>(i);
        reclaimed += ShrinkList(reclaimer, zone, list, portion, sc, priority);
      }
      if (enough > 0 && reclaimed >= enough && priority < kDefPriority && !sc.is_kswapd()) break;
    }
    AgeActive(reclaimer, zone, sc, priority);
    return reclaimed;
  }

  void AgeActive(Reclaimer& reclaimer, Zone& zone, ScanControl& sc, int priority) override {
    if (!InactiveAnonIsLow(reclaimer, zone, sc)) return;
    reclaimer.ShrinkActive(kSwapClusterMax, zone, LruList::kActiveAnon, sc, priority);
  }

  bool ReclaimMapped(const Zone&, const ScanControl&, int) override { return true; }

  // Every evictable page goes to the inactive list; one in use only counts as rotated.
  bool StaysActive(FrameNo n, PageOwners& owners, Zone& zone, const ScanControl& sc,
                   bool) override {
    const PageFrame& frame = mm_.frames[n];
    if (frame.Test(kPageUnevictable)) return true;
    if (IsMapped(frame) && owners.Referenced(n, /*page_locked=*/false) > 0) {
      NoteRotated(zone, sc, zone.lru->ListOf(frame), 1);
    }
    return false;
  }

  void NoteScanned(Zone& zone, const ScanControl& sc, LruList list, std::int64_t scanned) override {
    Scanned(zone, sc)[IsFile(list) ? 1 : 0].fetch_add(scanned, std::memory_order_relaxed);
  }
  void NoteRotated(Zone& zone, const ScanControl& sc, LruList list, std::int64_t rotated) override {
    Rotated(zone, sc)[IsFile(list) ? 1 : 0].fetch_add(rotated, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kInactiveAnonQuota = 0;
  static constexpr std::size_t kInactiveFileQuota = 2;
  static constexpr std::size_t kActiveFileQuota = 3;

  using Counts = std::array<std::atomic<std::int64_t>, 2>;
  static Counts& Scanned(Zone& zone, const ScanControl& sc) {
    return sc.cgroup != nullptr ? sc.cgroup->In(zone).recent_scanned : zone.recent_scanned;
  }
  static Counts& Rotated(Zone& zone, const ScanControl& sc) {
    return sc.cgroup != nullptr ? sc.cgroup->In(zone).recent_rotated : zone.recent_rotated;
  }

  static bool InactiveAnonIsLow(Reclaimer& reclaimer, Zone& zone, const ScanControl& sc) {
    return reclaimer.ListSize(zone, LruList::kInactiveAnon, sc) * zone.inactive_ratio <
           reclaimer.ListSize(zone, LruList::kActiveAnon, sc);
  }

  static std::atomic<std::int64_t>& Accumulator(Zone& zone, std::size_t list) {
    switch (list) {
      case 0:
        return zone.nr_scan_inactive;
      case 1:
        return zone.nr_scan_active;
      default:
        return zone.nr_scan_file[list - 2];
    }
  }

  std::int64_t ShrinkList(Reclaimer& reclaimer, Zone& zone, LruList list, std::int64_t portion,
                          ScanControl& sc, int priority) {
    const bool deactivate =
        list == LruList::kActiveFile ||
        (list == LruList::kActiveAnon && InactiveAnonIsLow(reclaimer, zone, sc));
    if (!deactivate) return reclaimer.ShrinkInactive(portion, zone, list, sc, priority);
    reclaimer.ShrinkActive(portion, zone, list, sc, priority);
    return 0;
  }

  std::array<std::int64_t, 4> Quotas(Reclaimer& reclaimer, Zone& zone, const ScanControl& sc,
                                     int priority) {
    const ScanRatio ratio = Ratio(reclaimer, zone, sc);
    std::array<std::int64_t, 4> quota{};
    for (std::size_t i = 0; i < quota.size(); ++i) {
      std::int64_t step = reclaimer.ListSize(zone, static_cast<LruList>(i), sc);
      if (priority > 0) {
        step >>= priority;
        step = step * (i < 2 ? ratio.anon : ratio.file) / 100;
      }
      if (sc.cgroup != nullptr) {
        quota[i] = step;
        continue;
      }
      if (mm_.policy.reclaim.split_quota_plus_one) ++step;
      quota[i] = TakeScanQuota(Accumulator(zone, i), step, sc.swap_cluster_max);
    }
    return quota;
  }

  ScanRatio Ratio(Reclaimer& reclaimer, Zone& zone, const ScanControl& sc) {
    const auto both = [&](LruList inactive, LruList active) {
      return reclaimer.ListSize(zone, inactive, sc) + reclaimer.ListSize(zone, active, sc);
    };
    const std::array<std::int64_t, 2> size{both(LruList::kInactiveAnon, LruList::kActiveAnon),
                                           both(LruList::kInactiveFile, LruList::kActiveFile)};
    Counts& scanned = Scanned(zone, sc);
    Counts& rotated = Rotated(zone, sc);
    for (std::size_t i = 0; i < 2; ++i) {
      if (scanned[i].load(std::memory_order_relaxed) <= size[i] / 4) continue;
      SpinGuard guard(zone.lru_lock);
      Halve(scanned[i]);
      Halve(rotated[i]);
    }
    return ComputeScanRatio({.free_swap = mm_.swap->free_slots(),
                             .file = size[1],
                             .free = sc.global()
                                         ? mm_.vmstat->Read(zone.ordinal, ZoneStat::kNrFreePages)
                                         : zone.watermark.high.get(),
                             .pages_high = zone.watermark.high,
                             .swappiness = sc.swappiness,
                             .scanned = {scanned[0].load(std::memory_order_relaxed),
                                         scanned[1].load(std::memory_order_relaxed)},
                             .rotated = {rotated[0].load(std::memory_order_relaxed),
                                         rotated[1].load(std::memory_order_relaxed)}});
  }
  static void Halve(std::atomic<std::int64_t>& number) {
    number.store(number.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
  }

  MemoryManager& mm_;
};

}  // namespace

std::int64_t TakeScanQuota(std::atomic<std::int64_t>& accumulator, std::int64_t step,
                           std::int64_t batch) {
  const std::int64_t gathered = accumulator.load(std::memory_order_relaxed) + step;
  const bool enough = gathered >= batch;
  accumulator.store(enough ? 0 : gathered, std::memory_order_relaxed);
  return enough ? gathered : 0;
}

ScanRatio ComputeScanRatio(const ScanRatioInputs& in) {
  if (in.free_swap <= 0) return {.anon = 0, .file = 100};
  if (in.file + in.free <= in.pages_high) return {.anon = 100, .file = 0};
  const std::int64_t anon = (in.swappiness + 1) * (in.scanned[0] + 1) / (in.rotated[0] + 1);
  const std::int64_t file = (200 - in.swappiness + 1) * (in.scanned[1] + 1) / (in.rotated[1] + 1);
  const std::int64_t percent = 100 * anon / (anon + file + 1);
  return {.anon = percent, .file = 100 - percent};
}

std::unique_ptr<ScanBalance> MakeScanBalance(MemoryManager& mm) {
  if (mm.policy.reclaim.split_lru) return std::make_unique<SplitBalance>(mm);
  return std::make_unique<ClassicBalance>(mm);
}

}  // namespace pagestorm::mm
