// 3.6: a direct reclaimer waits for kswapd while the free pages of a node are no more than half of
// what the min watermarks keep back, which are then what kswapd and those it depends on live from.
// Source: spec throttle-2.6.26 5.3 (4.11's text); kswapd-4.11 2.6, 3.4, 3.5.
#include <algorithm>
#include <atomic>
#include <deque>

#include "absl/strings/str_cat.h"
#include "core/wait_queue.h"
#include "mm/builtin_gates.h"
#include "mm/kswapd.h"
#include "mm/relaxed.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

constexpr char kPfmemalloc[] = "pfmemalloc";

class PfmemallocGateObject final : public Gate {
 public:
  explicit PfmemallocGateObject(MemoryManager& mm)
      : mm_(mm),
        skip_unreclaimable_(GateKnobOf(mm.policy, kPfmemalloc, "skip_unreclaimable") != 0) {
    for (const auto& node : mm.nodes) places_.emplace_back(mm.engine, node->id.n);
  }

  ShrinkResult EnterDirect(std::span<Zone* const> zonelist, ScanControl& sc, Ticket&) override {
    const auto killed = [] { return Current().fatal_signal.load(std::memory_order_acquire); };
    // A group's limit has nothing to do with the nodes' reserves.
    if (!sc.global() || IsKernelThread(Current()) || killed()) return ShrinkResult::kOk;
    const auto first = std::find_if(zonelist.begin(), zonelist.end(),
                                    [this](const Zone* zone) { return IsLow(*zone); });
    if (first == zonelist.end()) return ShrinkResult::kOk;
    PgData& node = mm_.NodeAt((*first)->node_position);
    if (ReservesOk(node)) return ShrinkResult::kOk;
    mm_.vmstat->Count(VmEvent::kPgscanDirectThrottle);
    // Without FS it may hold what kswapd needs: a second is enough.
    WaitForReserves(node, (sc.gfp & __GFP_FS) != 0 ? Ns{kNever} : kSecond);
    return killed() ? ShrinkResult::kAgain : ShrinkResult::kOk;
  }

  void AfterKswapdPass(PgData& node) override {
    if (PlaceOf(node).queue.WaitersRacy() > 0 && ReservesOk(node)) Wake(node);
  }
  // Whatever is free: those who wait must look for themselves.
  void BeforeKswapdSleeps(PgData& node) override {
    if (PlaceOf(node).queue.WaitersRacy() > 0) Wake(node);
  }

  [[nodiscard]] bool Shows(VmEvent event) const override {
    return event == VmEvent::kPgscanDirectThrottle;
  }
  [[nodiscard]] Peak peak() const override {
    return {.waiters = waiters_max_.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] std::string Describe() const override {
    std::string text;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::int64_t waiters = places_[i].queue.WaitersRacy();
      if (waiters == 0) continue;
      const Reserves reserves = ReservesOf(*mm_.nodes[i]);
      absl::StrAppend(&text, "pfmemalloc ", places_[i].queue.number(), ": ", waiters,
                      " tasks wait for kswapd; ", reserves.free, " pages free, more than ",
                      reserves.wanted / 2, " wanted\n");
    }
    return text;
  }

 private:
  struct Place {
    Place(Engine& engine, std::int64_t number) : queue(engine, "pfmemalloc", number) {}
    WaitQueue queue;
    std::atomic<std::uint64_t> wakes{0};
  };
  struct Reserves {
    std::int64_t free = 0;
    std::int64_t wanted = 0;  // sum of the min watermarks
  };

  [[nodiscard]] bool IsLow(const Zone& zone) const {
    return zone.index <= mm_.layout().NormalIndex();
  }
  Place& PlaceOf(const PgData& node) { return places_[static_cast<std::size_t>(node.position)]; }
  void Wake(const PgData& node) {
    PlaceOf(node).wakes.fetch_add(1);
    PlaceOf(node).queue.WakeAll();
  }

  // Until the reserves are in order, a fatal signal is pending or the time is over. Every look that
  // fails wakes a kswapd that has gone to sleep.
  void WaitForReserves(PgData& node, Ns timeout) {
    Place& place = PlaceOf(node);
    const std::int64_t deadline = timeout.n == kNever ? kNever : FreshNow().n + timeout.n;
    for (bool in_time = true; in_time && !ReservesOk(node);) {
      const std::uint64_t seen = place.wakes.load();
      if (node.kswapd != nullptr) node.kswapd->WakeIfAsleep();
      const auto look_again = [&] {
        RaiseTo(waiters_max_, place.queue.WaitersRacy());
        return place.wakes.load() != seen || ReservesOk(node);
      };
      if (deadline == kNever) {
        in_time = place.queue.WaitKillable(look_again);
      } else {
        in_time = place.queue.WaitFor({std::max<std::int64_t>(0, deadline - Now().n)}, look_again,
                                      {.killable = true});
      }
    }
  }

  [[nodiscard]] Reserves ReservesOf(const PgData& node) const {
    Reserves sum;
    std::int64_t reclaimable = 0;
    for (const Zone* zone : node.zones) {
      if (!zone->Has(kZoneAllUnreclaimable)) reclaimable += mm_.reclaimer->LruPages(*zone);
      if (!IsLow(*zone)) continue;
      sum.free += mm_.vmstat->Read(zone->ordinal, ZoneStat::kNrFreePages);
      sum.wanted += zone->watermark.min;
    }
    // Where there is nothing to reclaim, or kswapd has given up, it cannot help.
    return skip_unreclaimable_ && reclaimable == 0 ? Reserves{} : sum;
  }
  [[nodiscard]] bool ReservesOk(const PgData& node) const {
    const Reserves reserves = ReservesOf(node);
    return reserves.wanted == 0 || reserves.free > reserves.wanted / 2;
  }

  MemoryManager& mm_;
  const bool skip_unreclaimable_;
  std::deque<Place> places_;  // by node position
  std::atomic<std::int64_t> waiters_max_{0};
};

}  // namespace

GateType PfmemallocGate() {
  return {kPfmemalloc,
          [](MemoryManager& mm) { return std::make_unique<PfmemallocGateObject>(mm); },
          {{.name = "skip_unreclaimable",
            .value = 1,
            .is_switch = true,
            .doc = "nobody waits for a node without reclaimable pages (4.11)"}}};
}

}  // namespace pagestorm::mm
