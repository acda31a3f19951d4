// The deadlocks and inversions of the throttle's versions, constructed on a small machine with the
// policy of each preset. Source: spec throttle-2.6.26 1.11 (D1 to D7).
#include <array>
#include <map>
#include <string>
#include <vector>

#include "mm/kswapd.h"
#include "mm/page_alloc.h"
#include "mm/throttle.h"
#include "mm/throttle_gate.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/bench/bench_support.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::bench {
namespace {

using mm::Gate;
using mm::GFP_KERNEL;
using mm::GFP_NOFS;
using mm::GFP_NOIO;
using mm::ReclaimCaller;
using mm::ReclaimMachine;
using mm::ReclaimMachineOptions;
using mm::ScanControl;
using mm::ShrinkResult;

mm::MmPolicy PolicyOf(const std::string& version) {
  RunConfig config;
  REQUIRE(ApplyKernelFile(config, "2.6.26-throttle-" + version, TreeContext()).ok());
  return config.policy;
}

ReclaimMachineOptions OptionsOf(const std::string& version, int nodes = 1) {
  ReclaimMachineOptions options;
  options.nodes = nodes;
  options.policy = PolicyOf(version);
  return options;
}

const std::vector<std::string> kVersions{"v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"};

// What a file system does inside reclaim, the first time a task is asked about a page.
class InReclaim {
 public:
  InReclaim(ReclaimMachine& machine, std::function<void()> act) {
    machine.owners->look = [this, act = std::move(act)] {
      if (done_[Current().id.n]) return;
      done_[Current().id.n] = true;
      act();
    };
  }

 private:
  std::map<std::int32_t, bool> done_;
};

std::int64_t DirectReclaim(ReclaimMachine& machine, mm::Gfp gfp) {
  return machine.mm->reclaimer->TryToFreePages(machine.mm->allocator->ZonelistFor(gfp, 0), 0, gfp);
}

// D1. As many tasks as there are tickets hold one and each comes to free_more_memory(), which
// reclaims with GFP_NOFS past the allocator. Mutation tried, red: PF_RECLAIMING never looked at (v4
// to v6 deadlock).
TEST_CASE("Deadlock D1: a ticket holder that reclaims again hangs up to v3, not from v4 on",
          "[bench][deadlock][spec:throttle-31]") {
  for (const std::string& version : kVersions) {
    CAPTURE(version);
    ReclaimMachine machine(OptionsOf(version));
    InReclaim buffers(machine, [&] {
      SleepFor({1'000'000});  // until all are inside
      DirectReclaim(machine, GFP_NOFS);
    });
    const std::int64_t limit = dynamic_cast<mm::ThrottleGate&>(*machine.mm->gate).limit();
    const RunResult result = machine.Run([&] {
      machine.AddPages(2000, ReclaimMachine::Kind::kCleanFile, false, false);
      machine.zone().nr_scan_inactive.store(1000);
      for (int i = 0; i < limit; ++i) {
        machine.Spawn("writer", [&] {
          machine.zone().nr_scan_inactive.store(1000);
          DirectReclaim(machine, GFP_KERNEL);
        });
      }
    });
    const bool hangs = version == "v1" || version == "v2" || version == "v3";
    CHECK((result.end == RunEnd::kStalled) == hangs);
    if (!hangs) continue;
    CHECK(result.stall_report.find(std::to_string(limit) + " tickets out, limit " +
                                   std::to_string(limit) + ", " + std::to_string(limit) +
                                   " tasks wait; held by task") != std::string::npos);
    CHECK(result.stall_report.find("writer") != std::string::npos);
  }
}

// D2. A task without IO and FS has a file system's lock and waits for a ticket; the ticket holders
// wait for that lock. Mutation tried, red: gfp_exempt ignored (v7 and v8 hang).
TEST_CASE("Deadlock D2: who lacks FS waits for who has it up to v6, and never from v7 on",
          "[bench][deadlock][spec:throttle-31]") {
  for (const std::string& version : kVersions) {
    CAPTURE(version);
    ReclaimMachine machine(OptionsOf(version));
    SleepMutex inode(*machine.engine, "inode");
    InReclaim writepage(machine, [&] {
      if (Current().name == "writer") SleepGuard guard(inode);
    });
    const std::int64_t limit = dynamic_cast<mm::ThrottleGate&>(*machine.mm->gate).limit();
    const RunResult result = machine.Run([&] {
      machine.AddPages(2000, ReclaimMachine::Kind::kCleanFile, false, false);
      machine.Spawn("filesystem", [&] {
        SleepGuard guard(inode);
        SleepFor({1'000'000});  // until the others are inside
        machine.zone().nr_scan_inactive.store(1000);
        DirectReclaim(machine, GFP_NOFS);
      });
      for (int i = 0; i < limit; ++i) {
        machine.Spawn("writer", [&] {
          SleepFor({100'000});
          machine.zone().nr_scan_inactive.store(1000);
          DirectReclaim(machine, GFP_KERNEL);
        });
      }
    });
    const bool hangs = version != "v7" && version != "v8";
    CHECK((result.end == RunEnd::kStalled) == hangs);
    if (!hangs) continue;
    // The report names the ticket and who holds it, the lock and who holds that, and the tasks.
    for (const char* name :
         {"reclaim throttle", "tickets out", "held by task", "inode", "writer", "filesystem"}) {
      CAPTURE(name, result.stall_report);
      CHECK(result.stall_report.find(name) != std::string::npos);
    }
  }
}

// Holds every ticket of zone 0 for so long, on tasks of its own.
void HoldTickets(ReclaimMachine& machine, Ns duration) {
  const std::int64_t limit = dynamic_cast<mm::ThrottleGate&>(*machine.mm->gate).limit();
  for (int i = 0; i < limit; ++i) {
    machine.Spawn("holder", [&machine, duration] {
      ScanControl sc;
      Gate::Ticket zone_ticket;
      Gate::Ticket direct_ticket;
      const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
      machine.mm->gate->EnterDirect(zones, sc, direct_ticket);
      machine.mm->gate->Enter(machine.zone(), sc, zone_ticket);
      SleepFor(duration);
      machine.mm->gate->Leave(machine.zone(), sc, zone_ticket);
      machine.mm->gate->LeaveDirect(sc, direct_ticket);
    });
  }
  SleepFor({100'000});
}

constexpr Ns kHeld{50'000'000};

// D3, not fixed. Mutation tried, red: gate_zone_reclaim ignored.
TEST_CASE("Inversion D3: zone reclaim waits for a ticket with the zone's fast path shut, v3 on",
          "[bench][deadlock]") {
  for (const std::string& version : kVersions) {
    CAPTURE(version);
    ReclaimMachine machine(OptionsOf(version));
    machine.Run([&] {
      mm::Zone& zone = machine.zone();
      machine.AddPages(2000, ReclaimMachine::Kind::kCleanFile, false, false);
      machine.mm->vmstat->AddGlobal(0, mm::ZoneStat::kNrFilePages, 2000);
      REQUIRE(zone.min_unmapped_pages < 2000);
      HoldTickets(machine, kHeld);
      std::int64_t took = 0;
      machine.Spawn("allocator", [&] {
        const std::int64_t start = Now().n;
        zone.nr_scan_inactive.store(1000);
        CHECK(machine.mm->reclaimer->ZoneReclaim(zone, GFP_KERNEL, 0));
        took = Now().n - start;
      });
      SleepFor({20'000'000});
      const bool waits = version != "v1" && version != "v2";
      CHECK(zone.Has(mm::kZoneReclaimLocked) == waits);
      // Meanwhile nobody else gets anything there.
      if (waits) CHECK_FALSE(machine.mm->reclaimer->ZoneReclaim(zone, GFP_KERNEL, 0));
      SleepFor(kHeld);
      CHECK((took >= kHeld.n / 2) == waits);
      machine.mm->vmstat->AddGlobal(0, mm::ZoneStat::kNrFilePages, -2000);
    });
  }
}

// D4, not fixed. Mutation tried, red: the wait for a ticket made killable.
TEST_CASE("Inversion D4: a victim in the queue cannot exit before it has had a ticket",
          "[bench][deadlock]") {
  for (const std::string& version : kVersions) {
    CAPTURE(version);
    ReclaimMachine machine(OptionsOf(version));
    machine.Run([&] {
      HoldTickets(machine, kHeld);
      std::int64_t left_at = 0;
      const std::int64_t start = Now().n;
      Task& victim = machine.Spawn("victim", [&] {
        static_cast<void>(DirectReclaim(machine, GFP_KERNEL));
        left_at = Now().n;
      });
      SleepFor({1'000'000});
      machine.engine->Kill(victim, /*memdie=*/true);
      SleepFor({20'000'000});
      CHECK(left_at == 0);
      SleepFor(kSecond);
      CHECK(left_at >= start + kHeld.n - 1'000'000);
    });
  }
}

// D5, not fixed: declared intent of v8. Mutation tried, red: kswapd let through, whatever
// gate_kswapd says.
TEST_CASE("Inversion D5: from v2 on kswapd stands in the queue like anyone else",
          "[bench][deadlock]") {
  for (const std::string& version : kVersions) {
    CAPTURE(version);
    ReclaimMachine machine(OptionsOf(version));
    machine.Run([&] {
      machine.AddPages(500, ReclaimMachine::Kind::kCleanFile, false, false);
      HoldTickets(machine, kHeld);
      std::int64_t reclaimed = 0;
      machine.Spawn(
          "kswapd",
          [&] {
            ScanControl sc{.caller = ReclaimCaller::kKswapd};
            machine.zone().nr_scan_inactive.store(100);
            machine.mm->reclaimer->ShrinkZone(12, machine.zone(), sc);
            reclaimed = sc.nr_reclaimed;
          },
          PF_KSWAPD | PF_MEMALLOC);
      SleepFor({20'000'000});
      CHECK((reclaimed == 0) == (version != "v1"));
      SleepFor(kHeld);
      CHECK(reclaimed > 0);
    });
  }
}

// D6, not fixed. Somebody brings a CPU up or down, allocates under the lock and reclaims. Mutation
// tried, red: PGFREE read without the lock.
TEST_CASE("Deadlock D6: from v7 on every direct reclaim, GFP_NOIO too, takes the hotplug lock",
          "[bench][deadlock]") {
  for (const std::string& version : std::vector<std::string>{"v6", "v7", "v8"}) {
    CAPTURE(version);
    ReclaimMachine machine(OptionsOf(version));
    RwSem& hotplug = dynamic_cast<mm::ThrottleGate&>(*machine.mm->gate).cpu_hotplug();
    const RunResult result = machine.Run([&] {
      hotplug.lock();
      DirectReclaim(machine, GFP_NOIO);
      hotplug.unlock();
    });
    CHECK((result.end == RunEnd::kStalled) == (version != std::string("v6")));
    if (result.end == RunEnd::kStalled) {
      CHECK(result.stall_report.find("cpu hotplug") != std::string::npos);
    }
  }
}

// D7, accepted. Three tasks inside zone 0 and three inside zone 1; each of the former comes to
// reclaim zone 1 as well. Mutation tried, red: the guard kept a zone (they wait: three).
TEST_CASE("Inversion D7: nested reclaim of another zone runs beside those who have its tickets",
          "[bench][deadlock]") {
  for (const std::string& version : std::vector<std::string>{"v4", "v5", "v6", "v7", "v8"}) {
    CAPTURE(version);
    ReclaimMachine machine(OptionsOf(version, /*nodes=*/2));
    int inside = 0;
    int most = 0;
    const auto visit = [&](std::size_t zone, const std::function<void()>& act) {
      ScanControl sc;
      Gate::Ticket ticket;
      CHECK(machine.mm->gate->Enter(machine.zone(zone), sc, ticket) == ShrinkResult::kOk);
      act();
      machine.mm->gate->Leave(machine.zone(zone), sc, ticket);
    };
    const auto scan_other = [&] {
      most = std::max(most, ++inside);
      SleepFor({10'000'000});
      --inside;
    };
    machine.Run([&] {
      for (int i = 0; i < 3; ++i) {
        machine.Spawn("nested", [&] {
          visit(0, [&] {
            SleepFor({1'000'000});
            visit(1, scan_other);
          });
        });
        machine.Spawn("other", [&] { visit(1, scan_other); });
      }
    });
    CHECK(most == 6);
    CHECK(machine.mm->gate->peak().tickets == 3);
  }
}

}  // namespace
}  // namespace pagestorm::bench
