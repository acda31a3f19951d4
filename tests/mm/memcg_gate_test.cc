// Limit reclaim at the gates in front of reclaim.
#include <catch2/catch.hpp>

#include "mm/memcg.h"
#include "mm/mm_struct.h"
#include "mm/reclaim.h"
#include "mm/throttle.h"
#include "mm/zone.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

SwapMachineOptions V7(int groups, Pages each) {
  SwapMachineOptions options;
  options.policy.throttle.gate = "throttle";
  options.policy.throttle.limit = 3;
  options.cpus = 4;
  for (int i = 0; i < groups; ++i) {
    options.cgroups.push_back({"g" + std::to_string(i), -1, each});
  }
  return options;
}

// 24 tasks over the groups, each with twice what its share of the limits allows.
void Press(SwapMachine& machine, std::int64_t pages) {
  for (int i = 0; i < 24; ++i) {
    machine.Spawn("press", [&machine, i, pages](TaskMm& self) {
      machine.mm.cgroups->Attach(*self.space, i);
      AddressSpaces& spaces = *machine.mm.spaces;
      const std::uint32_t first = spaces.MapAnon(*self.space, pages);
      for (std::uint32_t page = first; page < first + static_cast<std::uint32_t>(pages); ++page) {
        if (spaces.Write(*self.space, page, page) != AccessResult::kOk) return;
      }
      SleepFor(kSecond / 10);  // until all have theirs
    });
  }
}

// Mutations tried, red: gate_memcg ignored in Gated() (no difference between the two sections); a
// counter a group instead of a zone.
TEST_CASE("MemCgroups: limit reclaim of all groups shares the zone's tickets", "[mm][memcg]") {
  const bool gated = GENERATE(true, false);
  SwapMachineOptions options = V7(/*groups=*/4, {240});
  options.policy.throttle.gate_memcg = gated;
  SwapMachine machine(options);
  Press(machine, 80);
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  const auto zones = static_cast<std::int64_t>(machine.mm.zones.size());
  const std::int64_t most = machine.mm.reclaimer->PeaksNow().reclaimers_max;
  if (gated) {
    CHECK(machine.mm.gate->peak().tickets == 3);
    CHECK(most <= 3 * zones);
    CHECK(machine.mm.gate->peak().waiters > 3);
  } else {
    CHECK(machine.mm.gate->peak().tickets == 0);
    CHECK(most > 3 * zones);
  }
}

// Mutations tried, red: EnterDirect that allows every caller to be cut off; MayCutOff that never
// asks for memcg_cutoff (no cut-off).
TEST_CASE("ThrottleGate: limit reclaim is cut off only with memcg_cutoff",
          "[mm][memcg][spec:throttle-36]") {
  const bool cutoff = GENERATE(true, false);
  SwapMachineOptions options = V7(/*groups=*/1, {400});
  options.policy.throttle.memcg_cutoff = cutoff;
  SwapMachine machine(options);
  Zone& zone = *machine.mm.zones.back();
  machine.Spawn("task", [&](TaskMm&) {
    ScanControl sc{.caller = ReclaimCaller::kMemcg, .cgroup = &machine.mm.cgroups->all()[1]};
    Gate::Ticket direct;
    Zone* const list[] = {&zone};
    CHECK(machine.mm.gate->EnterDirect(list, sc, direct) == ShrinkResult::kOk);
    CHECK(sc.may_cut_off == cutoff);
    // Others free more than the threshold; the zone is far above its high mark.
    machine.mm.vmstat->Count(VmEvent::kPgfree, 4 * (1 + zone.watermark.high));
    Gate::Ticket ticket;
    const ShrinkResult result = machine.mm.gate->Enter(zone, sc, ticket);
    machine.mm.gate->Leave(zone, sc, ticket);
    machine.mm.gate->LeaveDirect(sc, direct);
    CHECK((result == ShrinkResult::kAgain) == cutoff);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.gate->peak().cut_offs == (cutoff ? 1 : 0));
}

// A cut-off says nothing about the group: the charge is tried again, and no limit gives way.
TEST_CASE("MemCgroups: with memcg_cutoff limits hold, too", "[mm][memcg]") {
  SwapMachineOptions options = V7(/*groups=*/2, {240});
  options.policy.throttle.memcg_cutoff = true;
  SwapMachine machine(options);
  Press(machine, 60);
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  CHECK(machine.mm.oom->kills() == 0);
  for (std::size_t i = 1; i <= 2; ++i) CHECK(machine.mm.cgroups->all()[i].max_usage == 240);
}

// Mutation tried, red: pfmemalloc without the test of global() (the charger waits).
TEST_CASE("MemCgroups: later gates let limit reclaim pass", "[mm][memcg]") {
  SwapMachineOptions options = V7(/*groups=*/2, {240});
  options.policy.throttle.gate = "too_many_isolated+pfmemalloc";
  SwapMachine machine(options);
  Press(machine, 60);
  machine.Spawn("charger", [&](TaskMm&) {
    SleepFor(kSecond / 20);  // now there are pages that could be reclaimed
    Zone* zone = machine.mm.zones.front().get();
    const std::int64_t min = zone->watermark.min;
    zone->watermark.min = std::int64_t{1} << 40;  // the node's reserves are used up
    ScanControl sc{.caller = ReclaimCaller::kMemcg, .cgroup = &machine.mm.cgroups->all()[1]};
    Gate::Ticket ticket;
    Zone* const list[] = {zone};
    CHECK(machine.mm.gate->EnterDirect(list, sc, ticket) == ShrinkResult::kOk);
    machine.mm.gate->LeaveDirect(sc, ticket);
    zone->watermark.min = min;
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Event(VmEvent::kPgscanDirectThrottle) == 0);
  for (const auto& [name, number] : machine.mm.gate->numbers()) {
    CAPTURE(name);
    CHECK(number == 0);
  }
}

}  // namespace
}  // namespace pagestorm::mm
