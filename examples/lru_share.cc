// A throttle of your own, in one file: copy it, change the name and the rule, build, run.
//
// Every file of this folder becomes a program of the name pagestorm-<file>: all of pagestorm, plus
// what the file registers. This one lets in as many reclaimers as may isolate a given share of the
// zone's LRU pages: where the throttle of 2008 counts to three, it counts to what the zone can
// bear.
//
//   build/release/bin/pagestorm-lru_share run configs/experiments/demo-virtual.toml
//     --kernel 2.6.26 --set throttle.gate=lru_share --set throttle.lru_share.percent=20
//
// docs/extend.md walks through it; mm/throttle.h has the other places where a gate can stand.
#include <algorithm>
#include <atomic>
#include <deque>
#include <string>

#include "core/wait_queue.h"
#include "mm/throttle.h"
#include "mm/zone.h"

namespace {

using namespace pagestorm;
using namespace pagestorm::mm;

class LruShare final : public Gate {
 public:
  // One at boot. What was set for this machine is read here, not later.
  explicit LruShare(MemoryManager& mm)
      : mm_(mm), percent_(GateKnobOf(mm.policy, "lru_share", "percent")) {
    for (const auto& zone : mm.zones) {
      places_.emplace_back(mm.engine, static_cast<std::int64_t>(zone->ordinal));
    }
  }

  // Before a task scans a zone. Many are in here at once.
  ShrinkResult Enter(Zone& zone, ScanControl& sc, Ticket& ticket) override {
    // kswapd never waits, nor does who holds a ticket already, nor who cannot do I/O or enter a
    // file system: somebody with a ticket may be waiting for what it holds.
    if (sc.is_kswapd() || !HasIoAndFs(sc.gfp)) return ShrinkResult::kOk;
    if ((Current().flags & PF_RECLAIMING) != 0) return ShrinkResult::kOk;
    Place& place = places_[zone.ordinal];
    // The condition may be asked any number of times: it takes no lock and no time, and when it
    // says yes the ticket is ours.
    place.queue.Wait([&] { return ticket.held = TryTake(place, zone); });
    Current().flags |= PF_RECLAIMING;
    return ShrinkResult::kOk;
  }

  // After the scan, and also when the task was cancelled: must not sleep.
  void Leave(Zone& zone, ScanControl&, Ticket& ticket) override {
    if (!ticket.held) return;
    ticket.held = false;
    Current().flags &= ~PF_RECLAIMING;
    Place& place = places_[zone.ordinal];
    // As many as there is room for: the zone's lists, and with them the limit, may have grown.
    for (std::int64_t inside = place.inside.fetch_sub(1) - 1; inside < LimitOf(zone); ++inside) {
      if (!place.queue.WakeOldest()) break;
    }
  }

  // For the report and result.json: the names are yours.
  [[nodiscard]] Peak peak() const override {
    Peak peak;
    for (const Place& place : places_) peak.tickets = std::max(peak.tickets, place.most.load());
    return peak;
  }
  [[nodiscard]] Numbers numbers() const override { return {{"lru_share_refusals", refusals_}}; }
  // For the report of a machine that stands still.
  [[nodiscard]] std::string Describe() const override {
    std::string text;
    for (const Place& place : places_) {
      if (place.queue.WaitersRacy() == 0) continue;
      text += "lru_share " + std::to_string(place.queue.number()) + ": " +
              std::to_string(place.inside) + " inside, " +
              std::to_string(place.queue.WaitersRacy()) + " wait\n";
    }
    return text;
  }

 private:
  struct Place {
    Place(Engine& engine, std::int64_t number) : queue(engine, "lru_share", number) {}
    std::atomic<std::int64_t> inside{0};
    std::atomic<std::int64_t> most{0};
    WaitQueue queue;
  };

  // --- the rule: the lines to change ---

  [[nodiscard]] std::int64_t LimitOf(const Zone& zone) const {
    const std::int64_t pages = mm_.reclaimer->LruPages(zone);
    return std::max<std::int64_t>(1, pages * percent_ / 100 / kSwapClusterMax);
  }

  // Adds 1 to those inside unless that is too many.
  bool TryTake(Place& place, const Zone& zone) {
    const std::int64_t limit = LimitOf(zone);
    std::int64_t count = place.inside.load();
    do {
      if (count >= limit) {
        refusals_.fetch_add(1);
        return false;
      }
    } while (!place.inside.compare_exchange_weak(count, count + 1));
    std::int64_t most = place.most.load();
    while (most <= count && !place.most.compare_exchange_weak(most, count + 1)) {
    }
    return true;
  }

  MemoryManager& mm_;
  const std::int64_t percent_;
  std::deque<Place> places_;  // by zone
  std::atomic<std::int64_t> refusals_{0};
};

// The name for throttle.gate, how to make one, and the knobs: throttle.lru_share.percent.
const bool registered = RegisterGate(
    {"lru_share",
     [](MemoryManager& mm) { return std::make_unique<LruShare>(mm); },
     {{.name = "percent",
       .value = 10,
       .low = 1,
       .high = 100,
       .doc = "share of a zone's LRU pages that reclaimers may isolate together, percent"}}});

}  // namespace
