#include "mm/reclaim.h"

#include <algorithm>

#include "mm/flusher.h"
#include "mm/memcg.h"
#include "mm/page_alloc.h"
#include "mm/page_cache.h"
#include "mm/pagevec.h"
#include "mm/relaxed.h"
#include "mm/scan_balance.h"
#include "mm/shrink_list.h"
#include "mm/slab.h"
#include "mm/swap.h"
#include "mm/throttle.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

// A direct reclaim that has scanned more than this wakes the flusher and may write pages itself.
constexpr std::int64_t kScannedBeforeWriting = kSwapClusterMax + kSwapClusterMax / 2;

// What a task holds at the gate, given back on every way out.
class AtGate {
 public:
  AtGate(Gate& gate, Zone& zone, ScanControl& sc) : gate_(gate), zone_(zone), sc_(sc) {}
  ~AtGate() { Leave(); }
  AtGate(const AtGate&) = delete;
  AtGate& operator=(const AtGate&) = delete;
  ShrinkResult Enter() { return gate_.Enter(zone_, sc_, ticket_); }
  void Leave() {
    if (left_) return;
    left_ = true;
    gate_.Leave(zone_, sc_, ticket_);
  }

 private:
  Gate& gate_;
  Zone& zone_;
  ScanControl& sc_;
  Gate::Ticket ticket_;
  bool left_ = false;
};

class AtDirectGate {
 public:
  AtDirectGate(Gate& gate, ScanControl& sc) : gate_(gate), sc_(sc) {}
  ~AtDirectGate() { gate_.LeaveDirect(sc_, ticket_); }
  AtDirectGate(const AtDirectGate&) = delete;
  AtDirectGate& operator=(const AtDirectGate&) = delete;
  ShrinkResult Enter(std::span<Zone* const> zonelist) {
    return gate_.EnterDirect(zonelist, sc_, ticket_);
  }

 private:
  Gate& gate_;
  ScanControl& sc_;
  Gate::Ticket ticket_;
};

}  // namespace

// Counts the tasks that scan, and the CPU time they take for it.
class Reclaimer::InsideShrinker {
 public:
  explicit InsideShrinker(Reclaimer& reclaimer) : reclaimer_(reclaimer) {
    RaiseTo(reclaimer.reclaimers_max_, reclaimer.reclaimers_.fetch_add(1) + 1);
    static_cast<void>(FreshNow());  // what it did before is charged before
    entered_at_ = task_.stime;
    task_.in_window = true;
  }
  ~InsideShrinker() {
    static_cast<void>(FreshNow());
    task_.in_window = false;
    reclaimer_.shrinker_cpu_ns_.fetch_add(task_.stime - entered_at_, std::memory_order_relaxed);
    reclaimer_.reclaimers_.fetch_sub(1);
  }
  InsideShrinker(const InsideShrinker&) = delete;
  InsideShrinker& operator=(const InsideShrinker&) = delete;

 private:
  Reclaimer& reclaimer_;
  Task& task_ = Current();
  std::int64_t entered_at_ = 0;
};

Reclaimer::Reclaimer(MemoryManager& mm)
    : mm_(mm), balance_(MakeScanBalance(mm)), owners_(MakePageOwners(mm)) {}
Reclaimer::~Reclaimer() = default;

void Reclaimer::set_owners(std::unique_ptr<PageOwners> owners) { owners_ = std::move(owners); }

std::int64_t Reclaimer::LruPages(const Zone& zone) const {
  const auto size = [&](LruList list) { return mm_.vmstat->Read(zone.ordinal, StatOf(list)); };
  return size(LruList::kInactiveAnon) + size(LruList::kActiveAnon) + size(LruList::kInactiveFile) +
         size(LruList::kActiveFile);
}

std::int64_t Reclaimer::TryToFreePages(std::span<Zone* const> zonelist, int order, Gfp gfp) {
  mm_.vmstat->Count(VmEvent::kAllocstall);
  ScanControl sc{.gfp = gfp,
                 .order = order,
                 .may_writepage = !mm_.policy.reclaim.laptop_mode,
                 .swappiness = mm_.policy.reclaim.swappiness};
  AtDirectGate gate(*mm_.gate, sc);
  if (gate.Enter(zonelist) == ShrinkResult::kAgain) return 1;
  int priority = kDefPriority;
  const std::int64_t progress = DescendPriorities(zonelist, sc, priority);
  for (Zone* zone : zonelist) zone->prev_priority.store(priority, std::memory_order_relaxed);
  if (progress == 0) failed_calls_.fetch_add(1, std::memory_order_relaxed);
  return progress;
}

std::int64_t Reclaimer::TryToFreeMemcgPages(MemCgroup& group, Gfp gfp) {
  const std::span<Zone* const> zonelist =
      mm_.allocator->ZonelistFor(gfp, mm_.MemoryNodeOf(CurrentCpu()));
  ScanControl sc{.gfp = gfp,
                 .caller = ReclaimCaller::kMemcg,
                 .cgroup = &group,
                 .may_writepage = !mm_.policy.reclaim.laptop_mode,
                 .swappiness = mm_.policy.reclaim.swappiness};
  AtDirectGate gate(*mm_.gate, sc);
  if (gate.Enter(zonelist) == ShrinkResult::kAgain) return 1;
  int priority = kDefPriority;
  const std::int64_t progress = DescendPriorities(zonelist, sc, priority);
  group.prev_priority.store(priority, std::memory_order_relaxed);
  return progress;
}

std::int64_t Reclaimer::DescendPriorities(std::span<Zone* const> zonelist, ScanControl& sc,
                                          int& priority) {
  std::int64_t lru_pages = 0;
  for (const Zone* zone : zonelist) lru_pages += LruPages(*zone);
  std::int64_t total_scanned = 0;
  for (priority = kDefPriority; priority >= 0; --priority) {
    sc.nr_scanned = 0;
    if (priority == 0) mm_.swap->DropToken();
    if (ShrinkZones(priority, zonelist, sc) == ShrinkResult::kAgain) return 1;
    if (sc.global()) sc.nr_reclaimed += mm_.slab->Shrink(sc.nr_scanned, sc.gfp, lru_pages).pages;
    total_scanned += sc.nr_scanned;
    if (sc.nr_reclaimed >= sc.swap_cluster_max) return sc.nr_reclaimed;
    if (total_scanned > kScannedBeforeWriting) {
      if (mm_.page_cache != nullptr) {
        // The laptop's disk spins up for everything that is dirty or not at all.
        PageCache& cache = *mm_.page_cache;
        const bool laptop = mm_.policy.reclaim.laptop_mode;
        cache.flusher().WakeBackground(laptop ? cache.dirty_pages() : total_scanned);
      }
      sc.may_writepage = true;
    }
    if (!mm_.gate->Nap(zonelist, priority, sc)) NapIfFruitless(priority, sc);
    if (priority > 0 && mm_.gate->MayLeaveEarly(zonelist, sc)) return 1;
  }
  priority = 0;
  // A limit's caller looks whether there is room now; what little was reclaimed does not count.
  if (!sc.global()) return 0;
  // What was reclaimed does not count when every zone was given up in the last round.
  return sc.all_unreclaimable ? 0 : sc.nr_reclaimed;
}

// A caller that scanned nothing does not nap, so on empty lists all priorities pass in
// microseconds.
void Reclaimer::NapIfFruitless(int priority, const ScanControl& sc) {
  const ReclaimPolicy& policy = mm_.policy.reclaim;
  if (priority >= kNapBelowPriority) return;
  if (sc.nr_scanned == 0 && !policy.nap_when_nothing_scanned) return;
  if (policy.nap_min_io_pages > 0 && sc.nr_io_pages <= policy.nap_min_io_pages) return;
  mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
}

// A group has no say in the zones' state.
ShrinkResult Reclaimer::ShrinkZonesForGroup(int priority, std::span<Zone* const> zonelist,
                                            ScanControl& sc) {
  std::atomic<int>& prev = sc.cgroup->prev_priority;
  if (prev.load(std::memory_order_relaxed) > priority) {
    prev.store(priority, std::memory_order_relaxed);
  }
  for (Zone* zone : zonelist) {
    if (ShrinkZone(priority, *zone, sc) == ShrinkResult::kAgain) return ShrinkResult::kAgain;
  }
  return ShrinkResult::kOk;
}

ShrinkResult Reclaimer::ShrinkZones(int priority, std::span<Zone* const> zonelist,
                                    ScanControl& sc) {
  if (!sc.global()) return ShrinkZonesForGroup(priority, zonelist, sc);
  sc.all_unreclaimable = true;
  for (Zone* zone : zonelist) {
    if (zone->prev_priority.load(std::memory_order_relaxed) > priority) {
      zone->prev_priority.store(priority, std::memory_order_relaxed);
    }
    if (zone->Has(kZoneAllUnreclaimable) && priority != kDefPriority) continue;
    sc.all_unreclaimable = false;
    if (ShrinkZone(priority, *zone, sc) == ShrinkResult::kAgain) return ShrinkResult::kAgain;
  }
  return ShrinkResult::kOk;
}

ShrinkResult Reclaimer::ShrinkZone(int priority, Zone& zone, ScanControl& sc) {
  Charge({mm_.costs.watermark_ns});  // a look at the zone's counters, if nothing more comes of it
  AtGate gate(*mm_.gate, zone, sc);
  const ShrinkResult result = gate.Enter();
  std::int64_t reclaimed = 0;
  if (result == ShrinkResult::kOk) {
    InsideShrinker inside(*this);
    reclaimed = ScanLists(priority, zone, sc);
  }
  gate.Leave();
  sc.nr_reclaimed += reclaimed;
  if (result == ShrinkResult::kOk) mm_.gate->AfterScan(zone, sc, reclaimed);
  if (mm_.policy.reclaim.vm_writeout_throttle) mm_.writeback->ThrottleVmWriteout(sc.gfp);
  return result;
}

std::int64_t Reclaimer::ScanLists(int priority, Zone& zone, ScanControl& sc) {
  const bool each = mm_.cgroups != nullptr && mm_.cgroups->owns_lists() && sc.cgroup == nullptr;
  if (!each) [[likely]]
    return balance_->Scan(*this, priority, zone, sc);
  std::int64_t reclaimed = 0;
  for (MemCgroup& group : mm_.cgroups->all()) {
    sc.cgroup = &group;
    reclaimed += balance_->Scan(*this, priority, zone, sc);
  }
  sc.cgroup = nullptr;
  return reclaimed;
}

void Reclaimer::AgeActive(Zone& zone, ScanControl& sc, int priority) {
  if (mm_.cgroups == nullptr || !mm_.cgroups->owns_lists()) [[likely]]
    return balance_->AgeActive(*this, zone, sc, priority);
  for (MemCgroup& group : mm_.cgroups->all()) {
    sc.cgroup = &group;
    balance_->AgeActive(*this, zone, sc, priority);
  }
  sc.cgroup = nullptr;
}

std::int64_t Reclaimer::ListSize(const Zone& zone, LruList list, const ScanControl& sc) const {
  if (sc.cgroup != nullptr) return mm_.cgroups->ListSize(*sc.cgroup, zone, list);
  return mm_.vmstat->Read(zone.ordinal, StatOf(list));
}

Isolated Reclaimer::Isolate(std::int64_t want, Zone& zone, LruList list, const ScanControl& sc,
                            IsolateMode mode, BatchEntries& batch) {
  if (sc.cgroup == nullptr) return zone.lru->Isolate(want, list, sc.order, mode, batch);
  return mm_.cgroups->Isolate(*sc.cgroup, zone, {want, list, sc.order, mode}, batch);
}

std::int64_t Reclaimer::ShrinkPageList(IsolatedBatch& batch, Zone& zone, ScanControl& sc,
                                       bool sync) {
  const std::int64_t freed = PageListPass(mm_, *owners_, zone, sc, sync).Run(batch.entries);
  batch.ForgetFreed();
  return freed;
}

std::int64_t Reclaimer::ShrinkInactive(std::int64_t want, Zone& zone, LruList list, ScanControl& sc,
                                       int priority) {
  if (const auto instead = mm_.gate->BeforeIsolation(zone, list, sc)) return *instead;
  mm_.pagevecs->DrainLocal();
  const bool split = mm_.policy.reclaim.split_lru;
  const bool both =
      sc.order > kPageAllocCostlyOrder || (split && sc.order > 0 && priority < kNapBelowPriority);
  const IsolateMode mode = both             ? IsolateMode::kBoth
                           : IsActive(list) ? IsolateMode::kActive
                                            : IsolateMode::kInactive;
  std::int64_t scanned = 0;
  std::int64_t reclaimed = 0;
  while (scanned < want) {
    IsolatedBatch batch(mm_, zone);
    const Isolated isolated = Isolate(sc.swap_cluster_max, zone, list, sc, mode, batch.entries);
    if (sc.global()) zone.pages_scanned.fetch_add(isolated.scanned, std::memory_order_relaxed);
    balance_->NoteScanned(zone, sc, list, isolated.taken);
    scanned += isolated.scanned;
    const std::int64_t freed = ReclaimBatch(batch, zone, sc);
    CountScans(zone, sc, isolated.scanned, freed);
    reclaimed += freed;
    if (isolated.taken == 0) break;
    balance_->NoteRotated(zone, sc, list, batch.PutBack());
    mm_.gate->AfterPages(zone, list, sc);
  }
  return reclaimed;
}

// One asynchronous pass; a caller that wants contiguous memory waits and makes a synchronous one as
// well.
std::int64_t Reclaimer::ReclaimBatch(IsolatedBatch& batch, Zone& zone, ScanControl& sc) {
  const auto taken = static_cast<std::int64_t>(batch.entries.size());
  const auto deactivate = [&] {
    std::int64_t active = 0;
    for (BatchEntry& entry : batch.entries) {
      if (entry.activate) ++active;
      entry.activate = false;
    }
    if (active > 0) mm_.vmstat->Count(VmEvent::kPgdeactivate, active);
  };
  deactivate();
  sc.pages = {.taken = taken};
  std::int64_t freed = ShrinkPageList(batch, zone, sc, /*sync=*/false);
  if (freed < taken && !sc.is_kswapd() && sc.order > kPageAllocCostlyOrder) {
    mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
    deactivate();
    freed += ShrinkPageList(batch, zone, sc, /*sync=*/true);
  }
  return freed;
}

void Reclaimer::CountScans(const Zone& zone, const ScanControl& sc, std::int64_t scanned,
                           std::int64_t freed) {
  VmStat& stat = *mm_.vmstat;
  if (sc.is_kswapd()) {
    stat.Count(ForZone(VmEvent::kPgscanKswapdDma, zone.kind), scanned);
    stat.Count(VmEvent::kKswapdSteal, freed);
  } else if (sc.global()) {
    stat.Count(ForZone(VmEvent::kPgscanDirectDma, zone.kind), scanned);
  }
  stat.Count(ForZone(VmEvent::kPgstealDma, zone.kind), freed);
  if (sc.global()) return;
  sc.cgroup->pages_scanned.fetch_add(scanned, std::memory_order_relaxed);
  sc.cgroup->pages_reclaimed.fetch_add(freed, std::memory_order_relaxed);
}

std::int64_t Reclaimer::ShrinkActive(std::int64_t want, Zone& zone, LruList list, ScanControl& sc,
                                     int priority) {
  const bool reclaim_mapped = balance_->ReclaimMapped(zone, sc, priority);
  mm_.pagevecs->DrainLocal();
  IsolatedBatch batch(mm_, zone);
  const Isolated isolated = Isolate(want, zone, list, sc, IsolateMode::kActive, batch.entries);
  if (sc.global()) zone.pages_scanned.fetch_add(isolated.scanned, std::memory_order_relaxed);
  balance_->NoteScanned(zone, sc, list, isolated.taken);
  for (BatchEntry& entry : batch.entries) {
    if (mm_.policy.reclaim.resched_while_isolating) CondResched();
    Charge({mm_.costs.pte_ns});
    const VisiblePin pin(mm_, entry.frame);
    if (!pin.usable()) continue;
    entry.activate = balance_->StaysActive(entry.frame, *owners_, zone, sc, reclaim_mapped);
  }
  const std::int64_t stayed = batch.PutBack();
  mm_.vmstat->Count(ForZone(VmEvent::kPgrefillDma, zone.kind), isolated.scanned);
  mm_.vmstat->Count(VmEvent::kPgdeactivate, isolated.taken - stayed);
  return isolated.taken - stayed;
}

Reclaimer::Peaks Reclaimer::PeaksNow() const {
  return {.reclaimers = reclaimers_.load(std::memory_order_relaxed),
          .reclaimers_max = reclaimers_max_.load(std::memory_order_relaxed),
          .isolated = isolated_.load(std::memory_order_relaxed),
          .isolated_max = isolated_max_.load(std::memory_order_relaxed),
          .isolated_share_at_max_permille = isolated_share_at_max_.load(std::memory_order_relaxed),
          .isolated_share_max_permille = isolated_share_max_.load(std::memory_order_relaxed),
          .failed_calls = failed_calls_.load(std::memory_order_relaxed),
          .shrinker_cpu_ns = shrinker_cpu_ns_.load(std::memory_order_relaxed)};
}

void Reclaimer::NoteIsolated(std::int64_t change) {
  const std::int64_t now = isolated_.fetch_add(change, std::memory_order_relaxed) + change;
  if (change <= 0 || now <= isolated_max_.load(std::memory_order_relaxed)) return;
  RaiseTo(isolated_max_, now);
  std::int64_t on_lists = 0;
  for (const auto& zone : mm_.zones) on_lists += LruPages(*zone);
  isolated_share_at_max_.store(1000 * now / (now + on_lists), std::memory_order_relaxed);
}

void Reclaimer::NoteIsolatedPeak(std::int64_t isolated_of_zone, std::int64_t on_lists) {
  const std::int64_t all = isolated_of_zone + on_lists;
  if (all > 0) RaiseTo(isolated_share_max_, 1000 * isolated_of_zone / all);
}

}  // namespace pagestorm::mm
