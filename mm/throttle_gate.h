// The page-reclaim throttle of 2008, versions 1 to 8: one gate whose versions differ in toggles.
//
// At most `limit` tasks hold a ticket of one counter (of the machine, a zone or a node). The rest
// sleep, uninterruptibly, until the atomic "add 1 unless equal to the limit" succeeds; so a limit
// of 0 lets nobody in, a negative one everybody, and one lowered below the counter everybody until
// the counter meets it again. With scope kGlobal the gate stands around the whole direct reclaim
// (v1), else around the scan of a zone. Source: spec throttle-2.6.26 1.2-1.8.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/raw_lock.h"
#include "core/sleep_lock.h"
#include "core/wait_queue.h"
#include "mm/mm_policy.h"
#include "mm/throttle.h"

namespace pagestorm::mm {

class ThrottleGate final : public Gate {
 public:
  // By MmPolicy::throttle. The machine's zones and nodes may be added until the first task enters.
  explicit ThrottleGate(MemoryManager& mm);

  ShrinkResult Enter(Zone& zone, ScanControl& sc, Ticket& ticket) override;
  void Leave(Zone& zone, ScanControl& sc, Ticket& ticket) override;
  ShrinkResult EnterDirect(std::span<Zone* const> zonelist, ScanControl& sc,
                           Ticket& ticket) override;
  void LeaveDirect(ScanControl& sc, Ticket& ticket) override;
  bool MayLeaveEarly(std::span<Zone* const> zonelist, ScanControl& sc) override;
  bool kswapd_accumulates() const override { return !policy_.kswapd_reset_nr_reclaimed; }
  bool SetKnob(std::string_view name, std::int64_t value) override;
  std::string Describe() const override;
  Peak peak() const override;

  // What v7's sum of PGFREE reads under. Only a test writes: no CPU comes or goes here.
  [[nodiscard]] RwSem& cpu_hotplug() { return hotplug_; }
  [[nodiscard]] std::int64_t limit() const { return limit_.load(std::memory_order_relaxed); }

 private:
  // One counter with its queue; for the report also who holds its tickets.
  struct Place {
    Place(Engine& engine, std::int64_t number)
        : queue(engine, "reclaim throttle", number), mu(engine.kind()) {}
    std::atomic<std::int64_t> reclaimers{0};
    std::atomic<std::int64_t> reclaimers_max{0};
    std::atomic<std::int64_t> waiters_max{0};
    std::atomic<std::int64_t> last_checked{0};  // ns: LastChecked::kPerZone
    WaitQueue queue;
    mutable RawLock mu;
    std::vector<TaskId> holders;  // mu
  };

  [[nodiscard]] bool Gated(const ScanControl& sc) const;
  [[nodiscard]] std::size_t PlaceOf(const Zone& zone) const;
  // Sleeps until a ticket is ours. Returns how long it took.
  Ns TakeTicket(std::size_t place, Ticket& ticket);
  bool TryTake(Place& place);
  void GiveBack(Ticket& ticket);
  [[nodiscard]] bool MayCutOff(const ScanControl& sc) const;
  bool CutOff(Zone& zone, ScanControl& sc, Ns waited, Place& place);
  bool PgfreeReached(Zone& zone, ScanControl& sc, std::uint64_t& freed);
  bool WatermarkPasses(const Zone& zone, const ScanControl& sc, int classzone);
  [[nodiscard]] int CutoffClassOf(const ScanControl& sc, int first_zone) const;
  std::uint64_t ReadPgfree();

  MemoryManager& mm_;
  const ThrottlePolicy& policy_;
  std::atomic<std::int64_t> limit_;
  std::deque<Place> places_;
  RwSem hotplug_;  // CPU hotplug read lock; nobody writes it, but it orders (deadlock D6)
  std::atomic<std::int64_t> cut_offs_{0};
  std::atomic<std::int64_t> checks_{0};
};

// The cut-off threshold in freed pages (v6 on).
[[nodiscard]] constexpr std::uint64_t CutoffThreshold(int order, std::int64_t pages_high,
                                                      std::int64_t mult) {
  return static_cast<std::uint64_t>(((std::int64_t{1} << order) + pages_high) * mult);
}

}  // namespace pagestorm::mm
