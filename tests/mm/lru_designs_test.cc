// What all designs of the LRU promise, and what each of them does with order. The kernel's own
// order is tested in lru_test.cc.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <set>
#include <vector>

#include "core/rng.h"
#include "core/wait_queue.h"
#include "mm/lru.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

ReclaimMachineOptions With(LruDesign design) {
  ReclaimMachineOptions options;
  options.policy.lru = design;
  return options;
}

Isolated Isolate(ReclaimMachine& machine, IsolatedBatch& batch, std::int64_t want, LruList list,
                 int order = 0, IsolateMode mode = IsolateMode::kInactive) {
  return machine.zone().lru->Isolate(want, list, order, mode, batch.entries);
}

// Whatever is left on a list, in the order in which isolation finds it; back afterwards.
std::vector<FrameNo> Order(ReclaimMachine& machine, LruList list) {
  std::vector<FrameNo> order;
  IsolatedBatch batch(*machine.mm, machine.zone());
  while (Isolate(machine, batch, 32, list, 0, IsolateMode::kBoth).taken > 0) continue;
  for (BatchEntry& entry : batch.entries) {
    order.push_back(entry.frame);
    entry.activate = IsActive(list);
  }
  return order;
}

// Mutations tried, red: Take that does not count the list down; PutBack of the ring that queues
// nothing; a window of the clock that stops after its first frame; NoneLeft that is always true.
TEST_CASE("Lru designs: each page is isolated once, leaves the counters, and comes back", "[mm]") {
  const auto design = GENERATE(LruDesign::kLocked, LruDesign::kRing, LruDesign::kClock);
  ReclaimMachine machine(With(design));
  machine.Run([&] {
    const auto pages = machine.AddPages(100, Kind::kAnon);
    {
      IsolatedBatch batch(*machine.mm, machine.zone());
      std::int64_t scanned = 0;
      for (;;) {
        const Isolated got = Isolate(machine, batch, 32, LruList::kInactiveAnon);
        scanned += got.scanned;
        if (got.taken == 0) break;
        CHECK(got.taken <= 32);
      }
      CHECK(scanned == 100);
      std::set<FrameNo> seen;
      for (const BatchEntry& entry : batch.entries) {
        seen.insert(entry.frame);
        CHECK(machine.mm->frames[entry.frame].state() == FrameState::kIsolated);
        CHECK(machine.mm->frames[entry.frame].refcount.load() == 2);
        CHECK_FALSE(entry.activate);
      }
      CHECK(seen == std::set<FrameNo>(pages.begin(), pages.end()));
      CHECK(machine.Stat(ZoneStat::kNrInactive) == 0);
      CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 100);
      CHECK(machine.zone().lru->isolated() == 100);
      batch.entries[7].activate = true;
      CHECK(batch.PutBack() == 1);
    }
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 99);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 1);
    CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 0);
    CHECK(machine.zone().lru->Size(LruList::kInactiveAnon) == 99);
    CHECK(Order(machine, LruList::kInactiveAnon).size() == 99);
    CHECK(Order(machine, LruList::kActiveAnon).size() == 1);
  });
  CHECK(machine.zone().lru->CheckInvariants() == "");
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
  CHECK(machine.mm->reclaimer->PeaksNow().isolated_max == 100);
}

// Mutations tried, red: SetActive that counts one list only; one that leaves the flag; one that
// does not look whether the frame is there already.
TEST_CASE("Lru designs: a page changes lists once, whoever asks again", "[mm]") {
  const auto design = GENERATE(LruDesign::kLocked, LruDesign::kRing, LruDesign::kClock);
  ReclaimMachine machine(With(design));
  machine.Run([&] {
    const auto pages = machine.AddPages(10, Kind::kAnon);
    Lru& lru = *machine.zone().lru;
    CHECK(lru.SetActive(pages[3], true));
    CHECK_FALSE(lru.SetActive(pages[3], true));
    CHECK(lru.ListOf(machine.mm->frames[pages[3]]) == LruList::kActiveAnon);
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 9);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 1);
    CHECK(lru.RotateTail({&pages[3], 1}) == 0);
    CHECK(Order(machine, LruList::kActiveAnon) == std::vector<FrameNo>{pages[3]});
    CHECK(lru.SetActive(pages[3], false));
    CHECK(Order(machine, LruList::kInactiveAnon).size() == 10);
    IsolatedBatch batch(*machine.mm, machine.zone());
    Isolate(machine, batch, 10, LruList::kInactiveAnon);
    CHECK_FALSE(lru.SetActive(pages[3], true));  // on a batch
    CHECK(lru.RotateTail(pages) == 0);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutations tried, red: the look at the reference left out (a page without any is handed out); the
// claim not given back (it is claimed by nobody at the end).
TEST_CASE("Lru designs: a page that is being freed is passed over and counted as a scan", "[mm]") {
  const auto design = GENERATE(LruDesign::kLocked, LruDesign::kRing, LruDesign::kClock);
  ReclaimMachine machine(With(design));
  machine.Run([&] {
    const auto pages = machine.AddPages(3, Kind::kAnon);
    const FrameNo dying = *std::min_element(pages.begin(), pages.end());  // first for all designs
    machine.zone().lru->RotateTail({&dying, 1});
    machine.mm->frames[dying].refcount.store(0);  // its last user is on the way to take it off
    IsolatedBatch batch(*machine.mm, machine.zone());
    const Isolated got = Isolate(machine, batch, 3, LruList::kInactiveAnon);
    CHECK(got.scanned == 3);
    CHECK(got.taken == 2);
    CHECK(machine.mm->frames[dying].state() == FrameState::kLru);
    FrameNo gone = dying;
    machine.zone().lru->Del({&gone, 1});
    CHECK(gone == dying);
    CHECK(machine.mm->frames[dying].state() == FrameState::kInUse);
    machine.mm->frames[dying].mapcount.store(0);
    machine.mm->frames[dying].refcount.store(1);
    machine.mm->allocator->Free(dying, 0, false);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutations tried, red: a block of twice the size; companions of any list. A block not aligned down
// stays green.
TEST_CASE("Lru designs: lumpy isolation takes what it may of an aligned block", "[mm]") {
  const auto design = GENERATE(LruDesign::kLocked, LruDesign::kRing, LruDesign::kClock);
  ReclaimMachine machine(With(design));
  machine.Run([&] {
    const auto pages = machine.AddPages(400, Kind::kAnon);
    FrameNo base = 0;
    for (const FrameNo n : pages) {
      bool whole = n % 4 == 0;
      for (FrameNo i = 0; whole && i < 4; ++i) {
        whole = machine.mm->frames[n + i].state() == FrameState::kLru;
      }
      if (whole) base = n;
    }
    REQUIRE(base != 0);
    CHECK(machine.zone().lru->SetActive(base + 1, true));
    IsolatedBatch batch(*machine.mm, machine.zone());
    while (Isolate(machine, batch, 1, LruList::kInactiveAnon, 2).taken > 0) {
      // A block comes out as a whole: what is left of it is of the other list.
      const FrameNo block = batch.entries.front().frame & ~FrameNo{3};
      for (const BatchEntry& entry : batch.entries) CHECK((entry.frame & ~FrameNo{3}) == block);
      for (FrameNo n = block; n < block + 4; ++n) {
        const PageFrame& frame = machine.mm->frames[n];
        CHECK((frame.state() != FrameState::kLru || frame.Test(kPageActive)));
      }
      if (block == base) CHECK(batch.entries.size() == 3);
      for (const BatchEntry& entry : batch.entries) machine.DropPage(entry.frame);
      batch.PutBack();
    }
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 0);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 1);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// The ring against queues of frame numbers, oldest first.
struct RingModel {
  struct List {
    std::deque<FrameNo> early, main;
  };
  std::array<List, 2> list;  // inactive, active

  [[nodiscard]] std::size_t SideOf(FrameNo n) const {  // 2: on neither
    for (std::size_t side = 0; side < 2; ++side) {
      for (const auto* queue : {&list[side].early, &list[side].main}) {
        if (std::find(queue->begin(), queue->end(), n) != queue->end()) return side;
      }
    }
    return 2;
  }
  void Remove(FrameNo n) {
    for (List& one : list) {
      for (auto* queue : {&one.early, &one.main}) {
        queue->erase(std::remove(queue->begin(), queue->end(), n), queue->end());
      }
    }
  }
  [[nodiscard]] std::vector<FrameNo> Oldest(std::size_t side) const {
    std::vector<FrameNo> order(list[side].early.begin(), list[side].early.end());
    order.insert(order.end(), list[side].main.begin(), list[side].main.end());
    return order;
  }
};

// Mutations tried, red: sequence not compared (a moved page comes up at its old place); the early
// ring looked at last; SetActive that queues early.
TEST_CASE("RingLru: random operations agree with a model of queues", "[mm][model]") {
  auto options = With(LruDesign::kRing);
  options.seed = GENERATE(1U, 2U, 3U, 4U, 5U);
  ReclaimMachine machine(options);
  machine.Run([&] {
    Rng rng = machine.engine->seeds().Stream("ring model");
    Lru& lru = *machine.zone().lru;
    RingModel model;
    const std::vector<FrameNo> all = machine.AddPages(50, Kind::kAnon);
    model.list[0].main.assign(all.begin(), all.end());
    for (int step = 0; step < 2000; ++step) {
      const FrameNo n = all[rng.Below(all.size())];
      const std::size_t side = model.SideOf(n);
      switch (rng.Below(3)) {
        case 0: {
          const auto from = static_cast<std::size_t>(rng.Below(2));
          const auto want = static_cast<std::int64_t>(rng.Below(12));
          IsolatedBatch batch(*machine.mm, machine.zone());
          Isolate(machine, batch, want, from == 0 ? LruList::kInactiveAnon : LruList::kActiveAnon,
                  0, IsolateMode::kBoth);
          const auto oldest = model.Oldest(from);
          REQUIRE(batch.entries.size() == std::min(static_cast<std::size_t>(want), oldest.size()));
          for (std::size_t i = 0; i < batch.entries.size(); ++i) {
            BatchEntry& entry = batch.entries[i];
            REQUIRE(entry.frame == oldest[i]);
            REQUIRE(entry.activate == (from == 1));
            entry.activate = rng.Below(2) == 1;
            model.Remove(entry.frame);
            model.list[entry.activate ? 1U : 0U].main.push_back(entry.frame);
          }
          break;
        }
        case 1: {
          REQUIRE(lru.RotateTail({&n, 1}) == (side == 0 ? 1 : 0));
          if (side != 0) break;
          model.Remove(n);
          model.list[0].early.push_back(n);
          break;
        }
        default: {
          const auto to = static_cast<std::size_t>(rng.Below(2));
          REQUIRE(lru.SetActive(n, to == 1) == (to != side && side < 2));
          if (to == side) break;
          model.Remove(n);
          model.list[to].main.push_back(n);
        }
      }
    }
    CHECK(Order(machine, LruList::kInactiveAnon) == model.Oldest(0));
    CHECK(Order(machine, LruList::kActiveAnon) == model.Oldest(1));
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// 64 MiB are 16,384 frames and some 2^16 slots a ring: each page becomes active and inactive again
// often enough to fill every ring many times, were stale entries kept. Mutations tried, red: no
// compaction (the ring overflows); compaction that keeps stale entries (it never ends); one that
// drops what holds.
TEST_CASE("RingLru: stale entries are compacted away and the oldest pages stay the oldest",
          "[mm]") {
  ReclaimMachine machine(With(LruDesign::kRing));
  machine.Run([&] {
    Lru& lru = *machine.zone().lru;
    const auto old = machine.AddPages(40, Kind::kAnon);
    const auto busy = machine.AddPages(40, Kind::kAnon);
    for (int round = 0; round < 5000; ++round) {
      for (const FrameNo n : busy) CHECK(lru.SetActive(n, round % 2 == 0));
    }
    for (int round = 0; round < 5000; ++round) CHECK(lru.RotateTail(busy) == 40);
    CHECK(lru.CheckInvariants() == "");
    for (const FrameNo n : busy) machine.DropPage(n);
    CHECK(Order(machine, LruList::kInactiveAnon) == old);
  });
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

// Mutations tried, red: a hand that is set back to the start by each isolation; one that looks at
// the same window twice.
TEST_CASE("ClockLru: the hand goes on where it stopped, in the order of frames", "[mm]") {
  ReclaimMachine machine(With(LruDesign::kClock));
  machine.Run([&] {
    auto pages = machine.AddPages(320, Kind::kAnon);
    std::sort(pages.begin(), pages.end());
    std::vector<FrameNo> order;
    while (order.size() < pages.size()) {
      IsolatedBatch batch(*machine.mm, machine.zone());
      REQUIRE(Isolate(machine, batch, 32, LruList::kInactiveAnon).taken > 0);
      for (const BatchEntry& entry : batch.entries) order.push_back(entry.frame);
    }
    // A window that holds fewer than 32 of them ends in the middle of another, whose rest waits
    // for the next round; what is looked at ascends.
    const auto falls = std::count_if(order.begin() + 1, order.end(),
                                     [&](const FrameNo& n) { return n <= *(&n - 1); });
    CHECK(falls <= 1);
  });
}

// --- many CPUs at once ---

// Tasks add, drop, isolate, activate and rotate pages. Returns how often a page was seen in two
// hands, which is a failure.
class Contest {
 public:
  Contest(ReclaimMachine& machine, int tasks, int steps)
      : machine_(machine),
        tasks_(tasks),
        steps_(steps),
        holder_(machine.mm->frames.end()),
        done_(*machine.engine, "contest") {}

  std::int64_t Run() {
    const std::int64_t in_use = InUse();
    std::int64_t after = 0;
    machine_.Run([&] {
      for (int task = 1; task <= tasks_; ++task) {
        machine_.Spawn("contest", [this, task] { Task(task); });
      }
      done_.Wait([this] { return ended_.load() == tasks_; });
      machine_.mm->pagevecs->DrainAll();
    });
    after = InUse();
    CHECK(after == in_use);  // nothing is lost, nothing is freed twice
    CHECK(machine_.mm->CheckInvariants(/*expect_idle=*/true) == "");
    CHECK(machine_.zone().lru->CheckInvariants() == "");
    CHECK(machine_.zone().lru->isolated() == 0);
    CHECK(isolated_.load() > 0);
    return twice_.load();
  }

 private:
  [[nodiscard]] std::int64_t InUse() const {
    std::int64_t count = 0;
    const Zone& zone = machine_.zone();
    for (FrameNo n = zone.first; n < zone.end; ++n) {
      const FrameState state = machine_.mm->frames[n].state();
      if (state != FrameState::kBuddy && state != FrameState::kPcp) ++count;
    }
    return count;
  }

  void Task(int task) {
    Rng rng = machine_.engine->seeds().Stream("contest", task);
    std::vector<FrameNo> mine;
    for (int step = 0; step < steps_; ++step) Step(task, rng, mine);
    for (const FrameNo n : mine) machine_.DropPage(n);
    machine_.mm->pagevecs->DrainLocal();
    ended_.fetch_add(1);
    done_.WakeAll();
  }

  void Step(int task, Rng& rng, std::vector<FrameNo>& mine) {
    const auto pick = [&]() -> FrameNo& { return mine[rng.Below(mine.size())]; };
    const std::uint64_t what = rng.Below(8);
    if (what < 3 || mine.empty()) {
      const bool active = rng.Below(3) == 0;
      if (mine.size() < 200) mine.push_back(machine_.AddPage(Kind::kAnon, active));
      if (rng.Below(4) == 0) machine_.mm->pagevecs->DrainLocal();
    } else if (what < 5) {
      FrameNo& n = pick();
      machine_.DropPage(n);
      n = mine.back();
      mine.pop_back();
    } else if (what == 5) {
      machine_.zone().lru->SetActive(pick(), rng.Below(2) == 0);
    } else if (what == 6) {
      machine_.mm->pagevecs->RotateReclaimable(pick());
    } else {
      IsolateSome(task, rng);
    }
  }

  void IsolateSome(int task, Rng& rng) {
    IsolatedBatch batch(*machine_.mm, machine_.zone());
    const auto want = static_cast<std::int64_t>(1 + rng.Below(32));
    const auto list = rng.Below(3) == 0 ? LruList::kActiveAnon : LruList::kInactiveAnon;
    const int order = rng.Below(4) == 0 ? 2 : 0;
    machine_.zone().lru->Isolate(want, list, order, IsolateMode::kBoth, batch.entries);
    for (BatchEntry& entry : batch.entries) {
      if (holder_[entry.frame].exchange(task) != 0) twice_.fetch_add(1);
      isolated_.fetch_add(1);
      entry.activate = rng.Below(3) == 0;
    }
    Charge({rng.Between(0, 3000)});
    for (const BatchEntry& entry : batch.entries) {
      if (holder_[entry.frame].exchange(0) != task) twice_.fetch_add(1);
    }
    batch.PutBack();
  }

  ReclaimMachine& machine_;
  const int tasks_;
  const int steps_;
  std::vector<std::atomic<int>> holder_;
  std::atomic<std::int64_t> twice_{0};
  std::atomic<std::int64_t> isolated_{0};
  std::atomic<int> ended_{0};
  WaitQueue done_;
};

// The schedules of 40 seeds, CPUs changing places also under the locked design's lock. Mutations
// tried, red: Del that frees a claimed page itself; a claimer that does not look whether it was
// left alone with it; a claim by two steps, with time between them, instead of a compare-and-swap.
TEST_CASE("Lru designs: no schedule of a seed loses a page or gives it to two", "[mm][model]") {
  const auto design = GENERATE(LruDesign::kLocked, LruDesign::kRing, LruDesign::kClock);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    auto options = With(design);
    options.seed = seed;
    options.cpus_per_node = 4;
    options.mib_per_node = 16;
    options.sync_in_cs = true;
    ReclaimMachine machine(options);
    CHECK(Contest(machine, 4, 400).Run() == 0);
  }
}

TEST_CASE("Lru designs: nothing is lost among real threads", "[mm][threads][stress]") {
  const auto design = GENERATE(LruDesign::kLocked, LruDesign::kRing, LruDesign::kClock);
  auto options = With(design);
  options.engine = EngineKind::kThreads;
  options.cpus_per_node = 4;
  options.mib_per_node = 16;
  options.costs.lru_op_ns = options.costs.lru_look_ns = options.costs.pcp_op_ns = 0;
  ReclaimMachine machine(options);
  CHECK(Contest(machine, 4, 6000).Run() == 0);
}

}  // namespace
}  // namespace pagestorm::mm
