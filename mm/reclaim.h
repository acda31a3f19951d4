// Reclaim: direct reclaim, the gated zone shrinker, zone reclaim, and what all of them share.
//
// How much of which list is scanned is a policy (mm/scan_balance.h); what happens to a page is the
// decision table (mm/shrink_list.h); who may scan is the gate (mm/throttle.h). All functions run in
// tasks and may sleep with isolated frames on their batches, which is what the false OOM is made
// of. Source: spec throttle-2.6.26 2.11-2.20, 2.24.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "mm/gfp.h"
#include "mm/lru.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

struct MemCgroup;
class PageOwners;
class ScanBalance;

enum class ReclaimCaller : std::uint8_t { kDirect, kKswapd, kZoneReclaim, kMemcg };

// What the pages of the last isolated batch were, while they were judged.
struct PageCounts {
  std::int64_t taken = 0;
  std::int64_t dirty = 0;  // dirty ones met at row 8 or later (2.15)
  std::int64_t congested =
      0;  // of these, not written since the device or a reference was in the way
  std::int64_t writeback = 0;  // already being written
  std::int64_t immediate = 0;  // of these, for reclaim: somebody has waited for this write before
};

// What one reclaim is about (struct scan_control) plus what the gate needs.
struct ScanControl {
  Gfp gfp = GFP_KERNEL;
  int order = 0;
  ReclaimCaller caller = ReclaimCaller::kDirect;
  MemCgroup* cgroup = nullptr;  // the group whose lists are scanned; nullptr: the zone's
  std::int64_t swap_cluster_max = kSwapClusterMax;
  bool may_writepage = true;
  bool may_swap = true;
  std::int64_t swappiness = 60;
  bool all_unreclaimable = false;
  std::int64_t nr_scanned = 0;
  std::int64_t nr_reclaimed = 0;
  std::int64_t nr_io_pages = 0;  // writes started
  PageCounts pages{};
  // throttle
  bool may_cut_off = false;
  std::uint64_t was_freed = 0;  // PGFREE when last looked at
  Ns started{};                 // emulated time at which direct reclaim began
  Ns last_checked{};            // v2, v3: the check between priorities

  [[nodiscard]] bool is_kswapd() const { return caller == ReclaimCaller::kKswapd; }
  [[nodiscard]] bool global() const { return caller != ReclaimCaller::kMemcg; }
};

enum class ShrinkResult : std::uint8_t { kOk, kAgain };  // kAgain: cut off by the gate (-EAGAIN)

class Reclaimer {
 public:
  explicit Reclaimer(MemoryManager& mm);
  ~Reclaimer();

  // try_to_free_pages (2.11): did_some_progress in pages; 0 leads towards the OOM killer. The
  // caller has PF_MEMALLOC. May sleep.
  std::int64_t TryToFreePages(std::span<Zone* const> zonelist, int order, Gfp gfp);
  // try_to_free_mem_cgroup_pages: the same over the zones' lists of one group, for a limit that is
  // reached there or above; counts neither as an allocstall nor in the zones' scan state. Pages
  // reclaimed, 0 if that were fewer than 32 in all priorities; 1 if the gate sent it away.
  std::int64_t TryToFreeMemcgPages(MemCgroup& group, Gfp gfp);
  // kswapd looks at every zone in turn (ScanBalance::AgeActive).
  void AgeActive(Zone& zone, ScanControl& sc, int priority);
  // The gated zone shrinker (2.12). Adds to sc.nr_reclaimed and sc.nr_scanned.
  ShrinkResult ShrinkZone(int priority, Zone& zone, ScanControl& sc);
  // 2.14 for one list and 2.16. Return pages freed, and pages moved to the inactive list.
  std::int64_t ShrinkInactive(std::int64_t want, Zone& zone, LruList list, ScanControl& sc,
                              int priority);
  std::int64_t ShrinkActive(std::int64_t want, Zone& zone, LruList list, ScanControl& sc,
                            int priority);
  // 2.15: survivors stay in the batch, marked with where they go. Returns freed pages.
  std::int64_t ShrinkPageList(IsolatedBatch& batch, Zone& zone, ScanControl& sc, bool sync);
  // zone_reclaim (2.24). True: 2^order pages were reclaimed, so the zone may be tried again.
  bool ZoneReclaim(Zone& zone, Gfp gfp, int order);

  // Pages on the list that sc scans, as the counters say.
  [[nodiscard]] std::int64_t ListSize(const Zone& zone, LruList list, const ScanControl& sc) const;
  // Pages on the lists that reclaim scans, as the counters say.
  [[nodiscard]] std::int64_t LruPages(const Zone& zone) const;
  [[nodiscard]] ScanBalance& balance() { return *balance_; }
  [[nodiscard]] PageOwners& owners() { return *owners_; }
  // For tests: another stand-in for swap, files and reverse mapping.
  void set_owners(std::unique_ptr<PageOwners> owners);

  // For reports: tasks scanning inside the zone shrinker now and at most; pages isolated now and at
  // most.
  struct Peaks {
    std::int64_t reclaimers = 0;
    std::int64_t reclaimers_max = 0;
    std::int64_t isolated = 0;
    std::int64_t isolated_max = 0;
    std::int64_t isolated_share_at_max_permille =
        0;  // of the machine's LRU, when isolated was largest
    std::int64_t isolated_share_max_permille = 0;  // of isolated + LRU, worst zone
    std::int64_t failed_calls = 0;                 // direct reclaims without progress
    // CPU time of tasks inside the zone shrinker, naps and waits for disks apart. What of it went
    // into waiting for a lock is that lock's LockStats::window_wait_ns.
    std::int64_t shrinker_cpu_ns = 0;
  };
  [[nodiscard]] Peaks PeaksNow() const;
  // By the LRU, on isolation and the end of it.
  void NoteIsolated(std::int64_t change);
  void NoteIsolatedPeak(std::int64_t isolated_of_zone, std::int64_t on_lists);

 private:
  class InsideShrinker;
  // The lists of the zone, or of every group in it where those have them (MemcgLru::kPerCgroup).
  std::int64_t ScanLists(int priority, Zone& zone, ScanControl& sc);
  ShrinkResult ShrinkZonesForGroup(int priority, std::span<Zone* const> zonelist, ScanControl& sc);
  Isolated Isolate(std::int64_t want, Zone& zone, LruList list, const ScanControl& sc,
                   IsolateMode mode, BatchEntries& batch);
  ShrinkResult ShrinkZones(int priority, std::span<Zone* const> zonelist, ScanControl& sc);
  // Priorities 12..0. Returns did_some_progress; `priority` is where it ended.
  std::int64_t DescendPriorities(std::span<Zone* const> zonelist, ScanControl& sc, int& priority);
  void NapIfFruitless(int priority, const ScanControl& sc);
  std::int64_t ReclaimBatch(IsolatedBatch& batch, Zone& zone, ScanControl& sc);
  void CountScans(const Zone& zone, const ScanControl& sc, std::int64_t scanned,
                  std::int64_t freed);
  bool ZoneReclaimLocked(Zone& zone, Gfp gfp, int order);

  MemoryManager& mm_;
  std::unique_ptr<ScanBalance> balance_;
  std::unique_ptr<PageOwners> owners_;
  std::atomic<std::int64_t> reclaimers_{0};
  std::atomic<std::int64_t> reclaimers_max_{0};
  std::atomic<std::int64_t> isolated_{0};
  std::atomic<std::int64_t> isolated_max_{0};
  std::atomic<std::int64_t> isolated_share_at_max_{0};
  std::atomic<std::int64_t> isolated_share_max_{0};
  std::atomic<std::int64_t> failed_calls_{0};
  std::atomic<std::int64_t> shrinker_cpu_ns_{0};
};

}  // namespace pagestorm::mm
