// The gate "reclaim_throttle". Source: spec throttle-2.6.26 5.6.
#include <catch2/catch.hpp>

#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/throttle.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

constexpr std::int64_t kHz50 = 20'000'000;
constexpr std::int64_t kJiffy = 4'000'000;  // HZ is 250
constexpr std::int64_t kSlack = 100'000;    // what the way in and out takes

// The calls of reclaim that the gate answers, each from a user's task.
class Throttled : public ReclaimMachine {
 public:
  Throttled() : ReclaimMachine(Options()) {
    owners->unmap = UnmapResult::kAgain;
    owners->look = [this] {
      while (hold) SleepFor({100'000});
    };
  }
  // Runs `call` on a task of its own; took_ns is -1 until it returns.
  struct Caller {
    Task* task = nullptr;
    std::int64_t took_ns = -1;
    std::int64_t result = -1;
  };
  Caller& Start(std::function<std::int64_t()> call, std::uint32_t flags = 0) {
    Caller& one = callers.emplace_back();
    TaskMm* part = flags == 0 ? &parts.emplace_back() : nullptr;
    one.task = &engine->Spawn({.name = "reclaimer", .mm = part, .flags = flags},
                              [&one, call = std::move(call)] {
                                const std::int64_t start = Now().n;
                                one.result = call();
                                one.took_ns = Now().n - start;
                              });
    SleepFor({kSlack});
    return one;
  }
  Caller& StartIsolating() {
    return Start([this] {
      ScanControl sc;
      return mm->reclaimer->ShrinkInactive(32, zone(), LruList::kInactiveAnon, sc, 12);
    });
  }
  // Nothing reclaimed down to priority 1, or the end of a scan.
  Caller& StartNap(int priority = 1) {
    return Start([this, priority] {
      const auto zones = mm->allocator->ZonelistFor(GFP_KERNEL, 0);
      return mm->gate->Nap(zones, priority, ScanControl{}) ? 1 : 0;
    });
  }
  Caller& StartAfterScan(std::int64_t scanned = 100, std::int64_t reclaimed = 0) {
    return Start([this, scanned, reclaimed] {
      ScanControl sc;
      sc.nr_scanned = scanned;
      sc.nr_reclaimed = reclaimed;
      mm->gate->AfterScan(zone(), sc, reclaimed);
      return 0;
    });
  }
  // Much is being written: sleeping can help.
  void Write(std::int64_t pages) { mm->vmstat->AddGlobal(0, ZoneStat::kNrWriteback, pages); }

  bool hold = true;
  std::deque<Caller> callers;
  std::deque<TaskMm> parts;

 private:
  static ReclaimMachineOptions Options() {
    ReclaimMachineOptions options;
    options.policy.throttle.gate = "reclaim_throttle";
    options.policy.reclaim.vm_writeout_throttle = false;
    return options;
  }
};

// 96 pages, 32 of them isolated: more than 64 / 8. Mutations tried, red: a timeout of HZ/100, of
// HZ/10; the call goes on after its sleep; no wake by who finds room.
TEST_CASE("reclaim_throttle: ISOLATED ends after HZ/50 or with the first that finds room",
          "[mm][gate][spec:throttle-46]") {
  Throttled machine;
  machine.Run([&] {
    machine.AddPages(96, Kind::kAnon);
    machine.StartIsolating();
    CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 32);
    Throttled::Caller& late = machine.StartIsolating();
    SleepFor({kHz50 - 2 * kSlack});
    CHECK(late.took_ns == -1);
    SleepFor({2 * kSlack});
    CHECK(late.result == 0);  // once a call, then it reports nothing
    CHECK(late.took_ns >= kHz50);
    CHECK(late.took_ns <= kHz50 + kSlack);
    Throttled::Caller& early = machine.StartIsolating();
    SleepFor({3'000'000});
    machine.hold = false;
    SleepFor({1'000'000});
    CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 0);
    CHECK(early.took_ns == -1);  // there is room, and nobody has looked yet
    machine.StartIsolating();
    SleepFor({1'000'000});
    CHECK(early.took_ns >= 4'000'000);
    CHECK(early.took_ns < 6'000'000);
  });
  CHECK(machine.mm->gate->numbers()[1].second == 2);
}

// Mutations tried, red: progress wakes CONGESTED, too; a timeout of HZ/50.
TEST_CASE("reclaim_throttle: CONGESTED lasts a jiffy, whatever others reclaim",
          "[mm][gate][spec:throttle-46]") {
  Throttled machine;
  machine.Run([&] {
    machine.Write(1000);
    machine.mm->nodes[0]->flags |= kNodeCongested;
    Throttled::Caller& congested = machine.StartAfterScan();
    SleepFor({1'000'000});
    machine.mm->nodes[0]->flags = 0;
    CHECK(machine.StartAfterScan(100, 90).took_ns >= 0);  // progress
    machine.StartIsolating();                             // room
    CHECK(congested.took_ns == -1);
    SleepFor({kJiffy});
    CHECK(congested.took_ns >= kJiffy);
    CHECK(congested.took_ns <= kJiffy + kSlack);
    machine.hold = false;
    machine.Write(-1000);
  });
}

// Mutations tried, red: at every priority; no wake on progress; the test of what is being written
// left out.
TEST_CASE("reclaim_throttle: NOPROGRESS at priority 1, until somebody reclaims", "[mm][gate]") {
  Throttled machine;
  machine.Run([&] {
    machine.AddPages(500, Kind::kAnon);
    CHECK(machine.StartNap(1).took_ns >= 0);  // little is being written: waiting is useless
    machine.Write(251);
    CHECK(machine.StartNap(2).took_ns >= 0);
    Throttled::Caller& one = machine.StartNap();
    CHECK(one.took_ns == -1);
    CHECK(machine.StartAfterScan(800, 100).took_ns >= 0);  // an eighth: too little
    CHECK(one.took_ns == -1);
    machine.StartAfterScan(800, 101);
    CHECK(one.took_ns >= 0);
    CHECK(one.took_ns < kJiffy);
    Throttled::Caller& other = machine.StartNap();
    SleepFor({kJiffy + kSlack});
    CHECK(other.took_ns >= kJiffy);
    machine.zone().flags |= kZoneAllUnreclaimable;
    CHECK(machine.StartNap().took_ns >= 0);
    machine.zone().flags = 0;
    machine.Write(-251);
  });
  CHECK(machine.mm->gate->numbers()[2].second == 2);
}

// Mutations tried, red: 32 pages for all sleepers together; other tasks of the kernel sleep, too;
// the node's flag not asked.
TEST_CASE("reclaim_throttle: kswapd waits for writes, 32 a sleeper or HZ/10", "[mm][gate]") {
  Throttled machine;
  const auto after_pages = [&] {
    ScanControl sc{.caller = ReclaimCaller::kKswapd};
    sc.pages = {.taken = 32, .writeback = 20, .immediate = 5};
    machine.mm->gate->AfterPages(machine.zone(), LruList::kInactiveAnon, sc);
    return std::int64_t{0};
  };
  machine.Run([&] {
    const auto written = [&](int pages) {
      for (int i = 0; i < pages; ++i) machine.mm->gate->NoteWritten(machine.zone());
      SleepFor({kSlack});
    };
    CHECK(machine.Start(after_pages, PF_KSWAPD).took_ns >= 0);  // not all are being written
    machine.mm->nodes[0]->flags |= kNodeWriteback;
    CHECK(machine.Start(after_pages, PF_MEMALLOC).took_ns >= 0);  // a daemon, not kswapd
    Throttled::Caller& one = machine.Start(after_pages, PF_KSWAPD);
    Throttled::Caller& two = machine.Start(after_pages, PF_KSWAPD);
    written(64);
    CHECK(one.took_ns == -1);
    written(1);
    CHECK(one.took_ns >= 0);
    CHECK(two.took_ns >= 0);
    Throttled::Caller& alone = machine.Start(after_pages, PF_KSWAPD);
    written(20);
    CHECK(alone.took_ns == -1);
    SleepFor({kSecond.n / 10});
    CHECK(alone.took_ns >= kSecond.n / 10);
    machine.mm->gate->BeforeKswapdSleeps(*machine.mm->nodes[0]);
    CHECK(machine.mm->nodes[0]->flags == 0);
  });
  CHECK(machine.Stat(ZoneStat::kNrThrottledWritten) == 85);
}

TEST_CASE("reclaim_throttle: what a batch was decides about the node's flags", "[mm][gate]") {
  Throttled machine;
  machine.Run([&] {
    PgData& node = *machine.mm->nodes[0];
    const auto look = [&](const PageCounts& pages) {
      node.flags = 0;
      ScanControl sc;
      sc.pages = pages;
      machine.mm->gate->AfterPages(machine.zone(), LruList::kInactiveAnon, sc);
      return node.flags.load();
    };
    CHECK(look({.taken = 32}) == 0);
    CHECK(look({.taken = 32, .writeback = 31}) == 0);
    CHECK(look({.taken = 32, .writeback = 32}) == kNodeWriteback);
    CHECK(look({.taken = 32, .dirty = 10, .congested = 9}) == 0);
    CHECK(look({.taken = 32, .dirty = 10, .congested = 10}) == kNodeCongested);
    node.flags = 0;
  });
}

}  // namespace
}  // namespace pagestorm::mm
