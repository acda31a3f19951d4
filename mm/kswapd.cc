#include "mm/kswapd.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mm/page_alloc.h"
#include "mm/relaxed.h"
#include "mm/scan_balance.h"
#include "mm/slab.h"
#include "mm/swap.h"
#include "mm/throttle.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

// kswapd leaves a zone alone that is this many times above its high mark.
constexpr std::int64_t kPlentyFactor = 8;
// Scanned this many times over without success, with nothing from slab: all unreclaimable.
constexpr std::int64_t kHopelessFactor = 6;
// So long at most a kswapd that changes nothing does not look whether somebody else has.
constexpr std::int64_t kIdleNs = 100'000;

void Set(Zone& zone, ZoneFlag flag) { zone.flags.fetch_or(flag, std::memory_order_relaxed); }

}  // namespace

// One round of balance_pgdat, from priority 12 down.
struct Kswapd::Pass {
  int order = 0;
  ScanControl sc;
  std::int64_t total_scanned = 0;
  std::int64_t lru_pages = 0;
  bool all_ok = false;
  bool slab_shrunk = false;
  std::vector<int> temp_priority{};  // by position in PgData::zones
};

Kswapd::Kswapd(MemoryManager& mm, PgData& node)
    : mm_(mm), node_(node), queue_(mm.engine, "kswapd", node.id.n), accumulators_(Accumulators()) {}

void Kswapd::Start() {
  CpuMask allowed;
  const auto position = static_cast<std::size_t>(node_.position);
  if (position < mm_.config.kswapd_cpus.size()) allowed = mm_.config.kswapd_cpus[position];
  if (allowed.none()) {
    for (std::size_t i = 0; i < mm_.engine.online_cpus(); ++i) {
      if (mm_.engine.cpu({static_cast<std::int32_t>(i)}).node == node_.id) allowed.set(i);
    }
  }
  mm_.engine.Spawn({.name = absl::StrCat("kswapd", node_.id.n),
                    .allowed = allowed,
                    .daemon = true,
                    .flags = PF_MEMALLOC | PF_SWAPWRITE | PF_KSWAPD},
                   [this] { Run(); });
}

void Kswapd::Wake(Zone& zone, int order) {
  if (!zone.populated()) return;
  if (mm_.allocator->WatermarkOk(zone, order, zone.watermark.low, 0, 0)) return;
  RaiseTo(max_order_, order);
  WakeIfAsleep();
}

void Kswapd::WakeIfAsleep() {
  // A kswapd that is awake is not told: it does not sleep before all zones are fine.
  if (!sleeping_.load()) return;
  wakes_.fetch_add(1);
  queue_.WakeOne();
}

void Kswapd::Run() {
  int order = 0;
  for (;;) {
    sleeping_.store(true);  // before the look at max_order_: a request that comes later wakes us
    const std::uint64_t seen = wakes_.load();
    mm_.gate->BeforeKswapdSleeps(node_);
    const int wanted = max_order_.exchange(0);
    if (order < wanted) {
      order = wanted;
    } else {
      queue_.Wait([&] { return wakes_.load() != seen; });
      order = max_order_.load(std::memory_order_relaxed);
    }
    sleeping_.store(false);
    RunOnce(order);
  }
}

std::int64_t Kswapd::RunOnce(int order) {
  runs_.fetch_add(1, std::memory_order_relaxed);
  Pass pass{.order = order,
            .sc = {.gfp = GFP_KERNEL,
                   .order = order,
                   .caller = ReclaimCaller::kKswapd,
                   .swappiness = mm_.policy.reclaim.swappiness}};
  std::int64_t reclaimed = 0;
  std::int64_t idle_passes = 0;
  for (;;) {
    if (!mm_.gate->kswapd_accumulates()) {
      reclaimed += pass.sc.nr_reclaimed;
      pass.sc.nr_reclaimed = 0;
    }
    pass.total_scanned = 0;
    pass.slab_shrunk = false;
    pass.sc.may_writepage = !mm_.policy.reclaim.laptop_mode;
    pass.temp_priority.assign(node_.zones.size(), kDefPriority);
    mm_.vmstat->Count(VmEvent::kPageoutrun);
    const ScanState before = Look();
    const std::int64_t reclaimed_before = pass.sc.nr_reclaimed;
    const std::int64_t busy = Current().stime;
    DescendPriorities(pass);
    for (std::size_t i = 0; i < node_.zones.size(); ++i) {
      node_.zones[i]->prev_priority.store(pass.temp_priority[i], std::memory_order_relaxed);
    }
    if (pass.all_ok) return reclaimed + pass.sc.nr_reclaimed;
    const ScanState after = Look();
    if (pass.total_scanned == 0 && pass.sc.nr_reclaimed == reclaimed_before && !pass.slab_shrunk &&
        after.pages_scanned == before.pages_scanned) {
      SkipIdlePasses({Current().stime - busy}, before, after, idle_passes);
    } else {
      idle_passes = 0;
    }
    Yield();
  }
}

std::vector<std::atomic<std::int64_t>*> Kswapd::Accumulators() const {
  std::vector<std::atomic<std::int64_t>*> all;
  for (Zone* zone : node_.zones) {
    all.insert(all.end(), {&zone->nr_scan_active, &zone->nr_scan_inactive, &zone->nr_scan_file[0],
                           &zone->nr_scan_file[1]});
  }
  return all;
}

Kswapd::ScanState Kswapd::Look() const {
  ScanState state;
  for (const Zone* zone : node_.zones) {
    state.pages_scanned += zone->pages_scanned.load(std::memory_order_relaxed);
  }
  for (const auto* quota : accumulators_) {
    state.gathered.push_back(quota->load(std::memory_order_relaxed));
  }
  return state;
}

// The next pass would do the same, and so on until a quota is full or another CPU has changed
// something (ADR 0012).
void Kswapd::SkipIdlePasses(Ns cost, const ScanState& before, const ScanState& after,
                            std::int64_t& passes) {
  std::int64_t most = std::max<std::int64_t>(1, kIdleNs / std::max<std::int64_t>(1, cost.n));
  bool gathering = false;
  for (std::size_t i = 0; i < after.gathered.size(); ++i) {
    const std::int64_t step = after.gathered[i] - before.gathered[i];
    // What somebody else has taken, or is about to be full: the next pass is another one.
    if (step < 0) most = 0;
    if (step <= 0) continue;
    most = std::min(most, (kSwapClusterMax - 1 - after.gathered[i]) / step);
    gathering = true;
  }
  if (most <= 0) {
    passes = 0;
    return;
  }
  passes = gathering ? most : std::clamp<std::int64_t>(2 * passes, 1, most);
  mm_.vmstat->Count(VmEvent::kPageoutrun, passes);
  for (std::size_t i = 0; i < after.gathered.size(); ++i) {
    const std::int64_t step = after.gathered[i] - before.gathered[i];
    if (step > 0) accumulators_[i]->fetch_add(step * passes, std::memory_order_relaxed);
  }
  Charge(cost * passes);
}

int Kswapd::HighestShortZone(int priority, int order, ScanControl& sc) {
  for (auto i = static_cast<int>(node_.zones.size()) - 1; i >= 0; --i) {
    Zone& zone = *node_.zones[static_cast<std::size_t>(i)];
    if (zone.Has(kZoneAllUnreclaimable) && priority != kDefPriority) continue;
    mm_.reclaimer->AgeActive(zone, sc, priority);
    Charge({mm_.costs.watermark_ns});
    if (!mm_.allocator->WatermarkOk(zone, order, zone.watermark.high, 0, 0)) return i;
  }
  return -1;
}

void Kswapd::DescendPriorities(Pass& pass) {
  for (int priority = kDefPriority; priority >= 0; --priority) {
    if (priority == 0) mm_.swap->DropToken();
    pass.all_ok = true;
    const int end = HighestShortZone(priority, pass.order, pass.sc);
    if (end < 0) return;
    pass.lru_pages = 0;
    for (int i = 0; i <= end; ++i) {
      pass.lru_pages += mm_.reclaimer->LruPages(*node_.zones[static_cast<std::size_t>(i)]);
    }
    for (int i = 0; i <= end; ++i) BalanceZone(i, end, priority, pass);
    mm_.gate->AfterKswapdPass(node_);
    if (pass.all_ok) return;
    if (pass.total_scanned != 0 && priority < kNapBelowPriority) {
      mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
    }
    if (pass.sc.nr_reclaimed >= kSwapClusterMax) return;
  }
}

void Kswapd::BalanceZone(int position, int end, int priority, Pass& pass) {
  Zone& zone = *node_.zones[static_cast<std::size_t>(position)];
  ScanControl& sc = pass.sc;
  if (zone.Has(kZoneAllUnreclaimable) && priority != kDefPriority) return;
  const int classzone = node_.zones[static_cast<std::size_t>(end)]->index;
  const auto fine = [&](std::int64_t mark) {
    Charge({mm_.costs.watermark_ns});
    return mm_.allocator->WatermarkOk(zone, pass.order, mark, classzone, 0);
  };
  if (!fine(zone.watermark.high)) pass.all_ok = false;
  pass.temp_priority[static_cast<std::size_t>(position)] = priority;
  sc.nr_scanned = 0;
  if (zone.prev_priority.load(std::memory_order_relaxed) > priority) {
    zone.prev_priority.store(priority, std::memory_order_relaxed);
  }
  if (!fine(kPlentyFactor * zone.watermark.high)) mm_.reclaimer->ShrinkZone(priority, zone, sc);
  const SlabProgress slab = mm_.slab->Shrink(sc.nr_scanned, GFP_KERNEL, pass.lru_pages);
  sc.nr_reclaimed += slab.pages;
  if (slab.objects > 0) pass.slab_shrunk = true;
  pass.total_scanned += sc.nr_scanned;
  if (zone.Has(kZoneAllUnreclaimable)) return;
  if (mm_.policy.reclaim.all_unreclaimable && slab.objects == 0 &&
      zone.pages_scanned.load(std::memory_order_relaxed) >=
          kHopelessFactor * mm_.reclaimer->LruPages(zone)) {
    Set(zone, kZoneAllUnreclaimable);
  }
  if (pass.total_scanned > 2 * kSwapClusterMax &&
      pass.total_scanned > sc.nr_reclaimed + sc.nr_reclaimed / 2) {
    sc.may_writepage = true;
  }
}

}  // namespace pagestorm::mm
