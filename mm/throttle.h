// The gate in front of the zone shrinker: how many tasks may reclaim at once, who has to wait for
// what, and who may leave early.
//
// A policy object chosen once at boot by name (ThrottlePolicy::gate); several names joined by "+"
// stand one behind the other ("too_many_isolated+pfmemalloc"). A user's own is registered beside
// the built-in ones (docs/extend.md). Every function of a gate is called by many tasks at once, and
// by default does nothing. Source: spec throttle-2.6.26 1; 5 for the hooks of later kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mm/memory_manager.h"
#include "mm/reclaim.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {

class Gate {
 public:
  virtual ~Gate() = default;

  // What a task took at the gate and has to give back.
  struct Ticket {
    bool held = false;          // counted among the reclaimers of `place`
    bool marked = false;        // PF_RECLAIMING was set for it
    std::size_t place = 0;      // the gate's own: which counter
    std::vector<Ticket> parts;  // of a chain: one a gate that was entered
  };

  // --- one visit to a zone ---

  // Before a zone is scanned; may sleep. kAgain: leave the zone without scanning. Whatever comes of
  // it, and also when Cancelled is thrown, Leave() is called with the same ticket. Leave() must not
  // sleep.
  virtual ShrinkResult Enter(Zone&, ScanControl&, Ticket&) { return ShrinkResult::kOk; }
  virtual void Leave(Zone&, ScanControl&, Ticket&) {}
  // Before an inactive list is scanned; may sleep. A value: report that many pages reclaimed
  // instead.
  virtual std::optional<std::int64_t> BeforeIsolation(Zone&, LruList, ScanControl&) {
    return std::nullopt;
  }
  // After the pages of an inactive list were judged and put back, 32 at a time; sc.pages says what
  // they were. May sleep; the caller holds no page then, but may hold a ticket.
  virtual void AfterPages(Zone&, LruList, ScanControl&) {}
  // After the scan of a zone, the ticket returned; may sleep.
  virtual void AfterScan(Zone&, const ScanControl&, std::int64_t /*reclaimed*/) {}

  // --- one direct reclaim ---

  // Around a whole direct reclaim; may sleep. kAgain: do not reclaim at all, report one page.
  // LeaveDirect() follows in any case, as above.
  virtual ShrinkResult EnterDirect(std::span<Zone* const>, ScanControl&, Ticket&) {
    return ShrinkResult::kOk;
  }
  virtual void LeaveDirect(ScanControl&, Ticket&) {}
  // Between two priorities of a direct reclaim. True: leave it, report one page.
  virtual bool MayLeaveEarly(std::span<Zone* const>, ScanControl&) { return false; }
  // Instead of the nap between two priorities that found too little, and of the nap before an
  // allocation tries again. True: it was dealt with, by a nap of the gate's own or by none.
  virtual bool Nap(std::span<Zone* const>, int /*priority*/, const ScanControl&) { return false; }
  virtual bool RetryNap(Zone& /*preferred*/) { return false; }

  // --- others ---

  // kswapd has been through the zones of its node at one priority; it is about to sleep.
  virtual void AfterKswapdPass(PgData&) {}
  virtual void BeforeKswapdSleeps(PgData&) {}
  // kswapd adds up what it reclaimed over the whole balance run instead of starting again (1.9).
  [[nodiscard]] virtual bool kswapd_accumulates() const { return false; }
  // A write that reclaim has started is done. On the disk's task: must not sleep.
  virtual void NoteWritten(Zone&) {}

  // For a sysctl written while the machine runs, by its file name ("max_nr_task_per_zone", with or
  // without "vm." in front); false: no such knob.
  virtual bool SetKnob(std::string_view /*name*/, std::int64_t /*value*/) { return false; }
  // Whether /proc shows a counter that came with this gate and that 2.6.26 does not have.
  [[nodiscard]] virtual bool Shows(ZoneStat) const { return false; }
  [[nodiscard]] virtual bool Shows(VmEvent) const { return false; }

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
  // The gate's own counts, for result.json and the report: name and number.
  using Numbers = std::vector<std::pair<std::string, std::int64_t>>;
  [[nodiscard]] virtual Numbers numbers() const { return {}; }
};

using GateFactory = std::function<std::unique_ptr<Gate>(MemoryManager&)>;
// A number or switch of a gate: becomes the knob throttle.<gate>.<name> of files and --set.
struct GateKnob {
  std::string name{};
  std::int64_t value = 0;  // the default; of a switch 0 or 1
  std::int64_t low = 0;
  std::int64_t high = 1;
  bool is_switch = false;  // written true, false
  std::string doc{};       // one line, with the unit
  // Its file in /proc/sys/vm, for Gate::SetKnob while the machine runs; empty: none.
  std::string sysctl{};
};
struct GateType {
  std::string name;  // letters, digits and _
  GateFactory make;
  std::vector<GateKnob> knobs = {};
};
// Makes a gate known to ThrottlePolicy::gate, before main() or at its start: the table of knobs is
// built once. Returns true, so that a constant of namespace scope can do it.
bool RegisterGate(GateType type);

// The gates that a text names, "none" included.
[[nodiscard]] std::vector<std::string> GateNames(std::string_view text);
// Whether one of them is called `name`.
[[nodiscard]] bool HasGate(std::string_view text, std::string_view name);
// InvalidArgument with one line: what is wrong with it as a value of throttle.gate.
[[nodiscard]] absl::Status CheckGates(std::string_view text);
// The gate, or chain of gates, of a text that CheckGates() accepts.
std::unique_ptr<Gate> MakeGate(std::string_view text, MemoryManager& mm);
// Registered types, by name.
[[nodiscard]] std::vector<const GateType*> KnownGates();
// What a machine's policy says about a registered gate's knob.
[[nodiscard]] std::int64_t GateKnobOf(const MmPolicy& policy, std::string_view gate,
                                      std::string_view knob);

// A task without an address space: kswapd, a daemon of the kernel.
[[nodiscard]] inline bool IsKernelThread(const Task& task) { return task.mm == nullptr; }

}  // namespace pagestorm::mm
