#include "mm/scan_balance.h"

#include <algorithm>

#include "core/spin_lock.h"
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
    const auto size = [&](ZoneStat stat) { return mm_.vmstat->Read(zone.ordinal, stat); };
    const std::int64_t batch = sc.swap_cluster_max;
    std::int64_t active =
        TakeScanQuota(zone.nr_scan_active, (size(ZoneStat::kNrActive) >> priority) + 1, batch);
    std::int64_t inactive =
        TakeScanQuota(zone.nr_scan_inactive, (size(ZoneStat::kNrInactive) >> priority) + 1, batch);
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
  bool StaysActive(FrameNo n, PageOwners& owners, Zone&, bool reclaim_mapped) override {
    const PageFrame& frame = mm_.frames[n];
    if (!IsMapped(frame)) return false;
    if (!reclaim_mapped) return true;
    if (frame.Test(kPageAnon) && mm_.swap->total_slots() == 0) return true;
    return owners.Referenced(n, /*page_locked=*/false) > 0;
  }

 private:
  MemoryManager& mm_;
};

class SplitBalance final : public ScanBalance {
 public:
  explicit SplitBalance(MemoryManager& mm) : mm_(mm) {}

  std::int64_t Scan(Reclaimer& reclaimer, int priority, Zone& zone, ScanControl& sc) override {
    std::array<std::int64_t, 4> quota = Quotas(zone, sc, priority);
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
    if (!InactiveAnonIsLow(zone)) return;
    reclaimer.ShrinkActive(kSwapClusterMax, zone, LruList::kActiveAnon, sc, priority);
  }

  bool ReclaimMapped(const Zone&, const ScanControl&, int) override { return true; }

  // Every evictable page goes to the inactive list; one in use only counts as rotated.
  bool StaysActive(FrameNo n, PageOwners& owners, Zone& zone, bool) override {
    const PageFrame& frame = mm_.frames[n];
    if (frame.Test(kPageUnevictable)) return true;
    if (IsMapped(frame) && owners.Referenced(n, /*page_locked=*/false) > 0) {
      NoteRotated(zone, zone.lru->ListOf(frame), 1);
    }
    return false;
  }

  void NoteScanned(Zone& zone, LruList list, std::int64_t scanned) override {
    zone.recent_scanned[IsFile(list) ? 1 : 0].fetch_add(scanned, std::memory_order_relaxed);
  }
  void NoteRotated(Zone& zone, LruList list, std::int64_t rotated) override {
    zone.recent_rotated[IsFile(list) ? 1 : 0].fetch_add(rotated, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kInactiveAnonQuota = 0;
  static constexpr std::size_t kInactiveFileQuota = 2;
  static constexpr std::size_t kActiveFileQuota = 3;

  std::int64_t Size(const Zone& zone, LruList list) const {
    return mm_.vmstat->Read(zone.ordinal, StatOf(list));
  }
  bool InactiveAnonIsLow(const Zone& zone) const {
    return Size(zone, LruList::kInactiveAnon) * zone.inactive_ratio <
           Size(zone, LruList::kActiveAnon);
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
        list == LruList::kActiveFile || (list == LruList::kActiveAnon && InactiveAnonIsLow(zone));
    if (!deactivate) return reclaimer.ShrinkInactive(portion, zone, list, sc, priority);
    reclaimer.ShrinkActive(portion, zone, list, sc, priority);
    return 0;
  }

  std::array<std::int64_t, 4> Quotas(Zone& zone, const ScanControl& sc, int priority) {
    const ScanRatio ratio = Ratio(zone, sc);
    std::array<std::int64_t, 4> quota{};
    for (std::size_t i = 0; i < quota.size(); ++i) {
      std::int64_t step = Size(zone, static_cast<LruList>(i));
      if (priority > 0) {
        step >>= priority;
        step = step * (i < 2 ? ratio.anon : ratio.file) / 100;
      }
      if (mm_.policy.reclaim.split_quota_plus_one) ++step;
      quota[i] = TakeScanQuota(Accumulator(zone, i), step, sc.swap_cluster_max);
    }
    return quota;
  }

  ScanRatio Ratio(Zone& zone, const ScanControl& sc) {
    const std::array<std::int64_t, 2> size{
        Size(zone, LruList::kInactiveAnon) + Size(zone, LruList::kActiveAnon),
        Size(zone, LruList::kInactiveFile) + Size(zone, LruList::kActiveFile)};
    for (std::size_t i = 0; i < 2; ++i) {
      if (zone.recent_scanned[i].load(std::memory_order_relaxed) <= size[i] / 4) continue;
      SpinGuard guard(zone.lru_lock);
      Halve(zone.recent_scanned[i]);
      Halve(zone.recent_rotated[i]);
    }
    return ComputeScanRatio({.free_swap = mm_.swap->free_slots(),
                             .file = size[1],
                             .free = mm_.vmstat->Read(zone.ordinal, ZoneStat::kNrFreePages),
                             .pages_high = zone.watermark.high,
                             .swappiness = sc.swappiness,
                             .scanned = {zone.recent_scanned[0].load(std::memory_order_relaxed),
                                         zone.recent_scanned[1].load(std::memory_order_relaxed)},
                             .rotated = {zone.recent_rotated[0].load(std::memory_order_relaxed),
                                         zone.recent_rotated[1].load(std::memory_order_relaxed)}});
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
