// 5.16: a reclaimer that gets nowhere sleeps a short while, for one of four reasons, on a queue of
// its node; whoever makes progress wakes those who sleep for two of them.
// Source: spec throttle-2.6.26 5.6.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>

#include "core/wait_queue.h"
#include "mm/builtin_gates.h"
#include "mm/gate_too_many_isolated.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "mm/zone_reclaimable.h"

namespace pagestorm::mm {
namespace {

enum class Reason : std::uint8_t { kWriteback, kIsolated, kNoProgress, kCongested };
constexpr std::size_t kReasons = 4;
constexpr std::array<const char*, kReasons> kReasonNames{
    "throttled: writeback", "throttled: isolated", "throttled: no progress",
    "throttled: congested"};
// Written pages for each sleeper after which those who wait for writeback go on.
constexpr std::int64_t kWrittenPerSleeper = kSwapClusterMax;

class ReclaimThrottleGateObject final : public Gate {
 public:
  explicit ReclaimThrottleGateObject(MemoryManager& mm) : mm_(mm) {
    for (const auto& node : mm.nodes) places_.emplace_back(mm.engine, node->id.n);
  }

  std::optional<std::int64_t> BeforeIsolation(Zone& zone, LruList list, ScanControl& sc) override {
    if (sc.is_kswapd() || !sc.global()) return std::nullopt;
    const auto too_many = [&] {
      return TooManyIsolated(mm_, zone, list, sc.gfp, {.of_node = true, .divisor = 8});
    };
    if (too_many()) {
      Throttle(NodeOf(zone), Reason::kIsolated);
      if (Current().fatal_signal.load(std::memory_order_acquire)) return kSwapClusterMax;
      if (too_many()) return 0;  // one sleep a call
    }
    Wake(NodeOf(zone), Reason::kIsolated);
    return std::nullopt;
  }

  void AfterPages(Zone& zone, LruList, ScanControl& sc) override {
    PgData& node = NodeOf(zone);
    const PageCounts& pages = sc.pages;
    if (pages.writeback != 0 && pages.writeback == pages.taken) Set(node, kNodeWriteback);
    if (pages.dirty != 0 && pages.dirty == pages.congested) Set(node, kNodeCongested);
    // kswapd meets pages again whose write it has waited for: it is faster than the disk.
    if (sc.is_kswapd() && pages.immediate != 0 && Has(node, kNodeWriteback)) {
      Throttle(node, Reason::kWriteback);
    }
  }

  void AfterScan(Zone& zone, const ScanControl& sc, std::int64_t) override {
    PgData& node = NodeOf(zone);
    if (sc.nr_reclaimed > sc.nr_scanned / 8) Wake(node, Reason::kNoProgress);
    if (sc.caller == ReclaimCaller::kDirect && Has(node, kNodeCongested)) {
      Throttle(node, Reason::kCongested);
    }
  }

  // There is no other nap between priorities.
  bool Nap(std::span<Zone* const> zonelist, int priority, const ScanControl& sc) override {
    if (priority == 1 && sc.nr_reclaimed == 0 && sc.global()) {
      Throttle(NodeOf(*zonelist.front()), Reason::kNoProgress);
    }
    return true;
  }

  void BeforeKswapdSleeps(PgData& node) override {
    node.flags.fetch_and(~std::uint32_t{kNodeWriteback | kNodeCongested},
                         std::memory_order_relaxed);
  }

  void NoteWritten(Zone& zone) override {
    Place& place = PlaceOf(NodeOf(zone));
    const std::int64_t sleepers = place.writeback_sleepers.load();
    if (sleepers == 0) return;
    mm_.vmstat->Add(zone.ordinal, ZoneStat::kNrThrottledWritten, 1);
    if (place.written.fetch_add(1) + 1 > kWrittenPerSleeper * sleepers) {
      Wake(NodeOf(zone), Reason::kWriteback);
    }
  }

  [[nodiscard]] bool Shows(ZoneStat stat) const override {
    return stat == ZoneStat::kNrIsolatedAnon || stat == ZoneStat::kNrIsolatedFile ||
           stat == ZoneStat::kNrThrottledWritten;
  }
  [[nodiscard]] Numbers numbers() const override {
    const auto of = [this](Reason reason) {
      return stalls_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
    };
    return {{"throttled_writeback", of(Reason::kWriteback)},
            {"throttled_isolated", of(Reason::kIsolated)},
            {"throttled_noprogress", of(Reason::kNoProgress)},
            {"throttled_congested", of(Reason::kCongested)}};
  }

 private:
  struct Place {
    Place(Engine& engine, std::int64_t number)
        : queues{WaitQueue(engine, kReasonNames[0], number),
                 WaitQueue(engine, kReasonNames[1], number),
                 WaitQueue(engine, kReasonNames[2], number),
                 WaitQueue(engine, kReasonNames[3], number)} {}
    std::array<WaitQueue, kReasons> queues;
    std::atomic<std::int64_t> writeback_sleepers{0};
    std::atomic<std::int64_t> written{0};  // since the first of them went to sleep
  };

  // Counts a task among those that wait for writeback.
  class WritebackSleeper {
   public:
    explicit WritebackSleeper(Place* place) : place_(place) {
      if (place_ != nullptr && place_->writeback_sleepers.fetch_add(1) == 0) place_->written = 0;
    }
    ~WritebackSleeper() {
      if (place_ != nullptr) place_->writeback_sleepers.fetch_sub(1);
    }
    WritebackSleeper(const WritebackSleeper&) = delete;
    WritebackSleeper& operator=(const WritebackSleeper&) = delete;

   private:
    Place* place_;
  };

  PgData& NodeOf(const Zone& zone) { return mm_.NodeAt(zone.node_position); }
  Place& PlaceOf(const PgData& node) { return places_[static_cast<std::size_t>(node.position)]; }
  static void Set(PgData& node, NodeFlag flag) {
    node.flags.fetch_or(flag, std::memory_order_relaxed);
  }
  static bool Has(const PgData& node, NodeFlag flag) {
    return (node.flags.load(std::memory_order_relaxed) & flag) != 0;
  }

  void Wake(const PgData& node, Reason reason) {
    WaitQueue& queue = PlaceOf(node).queues[static_cast<std::size_t>(reason)];
    if (queue.WaitersRacy() > 0) queue.WakeAll();
  }

  [[nodiscard]] Ns TimeoutOf(Reason reason) const {
    switch (reason) {
      case Reason::kWriteback:
        return {kSecond.n / 10};
      case Reason::kIsolated:
        return {kSecond.n / 50};
      case Reason::kNoProgress:
      case Reason::kCongested:
        break;
    }
    return mm_.policy.Jiffy();
  }

  // Sleeping helps only if the disk is what reclaim waits for. A kswapd that has failed 16 times is
  // here one that has given up every zone.
  [[nodiscard]] bool Useless(const PgData& node) const {
    std::int64_t reclaimable = 0;
    std::int64_t pending = 0;
    for (const Zone* zone : node.zones) {
      reclaimable += ReclaimablePages(mm_, *zone);
      pending += WritePending(mm_, *zone);
    }
    return 2 * pending <= reclaimable ||
           std::all_of(node.zones.begin(), node.zones.end(),
                       [](const Zone* zone) { return zone->Has(kZoneAllUnreclaimable); });
  }

  void Throttle(const PgData& node, Reason reason) {
    const Task& self = Current();
    const bool bystander = IsKernelThread(self) && (self.flags & PF_KSWAPD) == 0;
    const bool may_be_useless = reason == Reason::kNoProgress || reason == Reason::kCongested;
    if (bystander || (may_be_useless && Useless(node))) return CondResched();
    stalls_[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    Place& place = PlaceOf(node);
    const WritebackSleeper sleeper(reason == Reason::kWriteback ? &place : nullptr);
    static_cast<void>(
        place.queues[static_cast<std::size_t>(reason)].WaitForWake(TimeoutOf(reason)));
  }

  MemoryManager& mm_;
  std::deque<Place> places_;  // by node position
  std::array<std::atomic<std::int64_t>, kReasons> stalls_{};
};

}  // namespace

GateType ReclaimThrottleGate() {
  return {"reclaim_throttle",
          [](MemoryManager& mm) { return std::make_unique<ReclaimThrottleGateObject>(mm); }};
}

}  // namespace pagestorm::mm
