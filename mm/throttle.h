// The gate in front of the zone shrinker: how many tasks may reclaim a zone at once, and who may
// leave early.
//
// A policy object chosen once at boot by name (ThrottlePolicy::gate); a user's own is registered
// beside the built-in ones "none" and "throttle". A gate is called by many tasks at once. Source:
// spec throttle-2.6.26 1; 5 for the hooks of later kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mm/memory_manager.h"
#include "mm/reclaim.h"

namespace pagestorm::mm {

class Gate {
 public:
  virtual ~Gate() = default;

  // What a task took at the gate and has to give back.
  struct Ticket {
    bool held = false;      // counted among the reclaimers of `place`
    bool marked = false;    // PF_RECLAIMING was set for it
    std::size_t place = 0;  // the gate's own: which counter
  };

  // Before a zone is scanned; may sleep. kAgain: leave the zone without scanning. Whatever comes of
  // it, and also when Cancelled is thrown, Leave() is called with the same ticket. Leave() must not
  // sleep.
  virtual ShrinkResult Enter(Zone& zone, ScanControl& sc, Ticket& ticket) = 0;
  virtual void Leave(Zone& zone, ScanControl& sc, Ticket& ticket) = 0;

  // Around one whole direct reclaim. kAgain: do not reclaim at all, report one page.
  virtual ShrinkResult EnterDirect(std::span<Zone* const>, ScanControl&, Ticket&) {
    return ShrinkResult::kOk;
  }
  virtual void LeaveDirect(ScanControl&, Ticket&) {}
  // Between two priorities of a direct reclaim. True: leave it, report one page.
  virtual bool MayLeaveEarly(std::span<Zone* const>, ScanControl&) { return false; }
  // Before an inactive list is scanned; may sleep. A value: report that many pages reclaimed
  // instead.
  virtual std::optional<std::int64_t> BeforeIsolation(Zone&, LruList, ScanControl&) {
    return std::nullopt;
  }
  // After the scan of a zone, and instead of the nap between priorities (true: it was dealt with).
  virtual void AfterScan(Zone&, const ScanControl&, std::int64_t /*reclaimed*/) {}
  virtual bool Nap(std::span<Zone* const>, int /*priority*/, const ScanControl&) { return false; }
  // kswapd adds up what it reclaimed over the whole balance run instead of starting again (1.9).
  [[nodiscard]] virtual bool kswapd_accumulates() const { return false; }

  // For a sysctl written while the machine runs, by its file name ("max_nr_task_per_zone", with or
  // without "vm." in front); false: no such knob.
  virtual bool SetKnob(std::string_view /*name*/, std::int64_t /*value*/) { return false; }
  // Lines for stall reports: tickets out, who holds them, how many wait. Empty: nothing to say.
  [[nodiscard]] virtual std::string Describe() const { return {}; }
  // Most tickets out at once at one counter, and most tasks asleep there.
  struct Peak {
    std::int64_t tickets = 0;
    std::int64_t waiters = 0;
    std::int64_t cut_offs = 0;
    std::int64_t checks = 0;  // watermark checks for a cut-off
  };
  [[nodiscard]] virtual Peak peak() const { return {}; }
};

using GateFactory = std::function<std::unique_ptr<Gate>(MemoryManager&)>;
// Registers a gate under ThrottlePolicy::gate's name. Call before machines boot.
void RegisterGate(std::string name, GateFactory factory);
// nullptr: no gate of that name. KnownGates() lists the names, sorted.
std::unique_ptr<Gate> MakeGate(std::string_view name, MemoryManager& mm);
std::vector<std::string> KnownGates();

}  // namespace pagestorm::mm
