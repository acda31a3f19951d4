#include "mm/lru.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <deque>

#include "core/rng.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;

Isolated Isolate(ReclaimMachine& machine, IsolatedBatch& batch, std::int64_t want, LruList list,
                 int order = 0, IsolateMode mode = IsolateMode::kInactive) {
  return machine.zone().lru->Isolate(want, list, order, mode, batch.entries);
}

// Mutations tried: taking from the head, not clearing the counters at isolation, keeping state
// kLru.
TEST_CASE("Lru: isolation takes the oldest pages off the list and out of the counters", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto pages = machine.AddPages(100, Kind::kAnon);
    {
      IsolatedBatch batch(*machine.mm, machine.zone());
      const Isolated got = Isolate(machine, batch, 32, LruList::kInactiveAnon);
      CHECK(got.scanned == 32);
      CHECK(got.taken == 32);
      for (std::size_t i = 0; i < 32; ++i) {
        CHECK(batch.entries[i].frame == pages[i]);
        CHECK(machine.mm->frames[pages[i]].state() == FrameState::kIsolated);
        CHECK(machine.mm->frames[pages[i]].refcount.load() == 2);
      }
      CHECK(machine.Stat(ZoneStat::kNrInactive) == 68);
      CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 32);
      CHECK(machine.zone().lru->isolated() == 32);
    }
    // Back at the head, so that those untouched so far are next.
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 100);
    CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 0);
    CHECK(machine.mm->frames[pages[0]].refcount.load() == 1);
    IsolatedBatch batch(*machine.mm, machine.zone());
    Isolate(machine, batch, 1, LruList::kInactiveAnon);
    CHECK(batch.entries[0].frame == pages[32]);
  });
  CHECK(machine.zone().lru->CheckInvariants().empty());
  CHECK(machine.mm->reclaimer->PeaksNow().isolated_max == 32);
  CHECK(machine.mm->reclaimer->PeaksNow().isolated_share_max_permille == 320);
}

// Mutation tried, red: isolation that counts by list, where 2.6.26 has anonymous and file pages on
// the same ones.
TEST_CASE("Lru: without split LRU isolated pages count as anonymous or file by what they are",
          "[mm]") {
  const bool split = GENERATE(false, true);
  ReclaimMachineOptions options;
  options.policy.reclaim.split_lru = split;
  ReclaimMachine machine(options);
  machine.Run([&] {
    machine.AddPages(5, Kind::kAnon);
    machine.AddPages(20, Kind::kCleanFile);
    {
      IsolatedBatch anon(*machine.mm, machine.zone());
      IsolatedBatch file(*machine.mm, machine.zone());
      Isolate(machine, anon, 25, LruList::kInactiveAnon);
      Isolate(machine, file, 25, LruList::kInactiveFile);
      CHECK(anon.entries.size() == (split ? 5 : 25));
      CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 5);
      CHECK(machine.Stat(ZoneStat::kNrIsolatedFile) == 20);
    }
    CHECK(machine.Stat(ZoneStat::kNrIsolatedAnon) == 0);
    CHECK(machine.Stat(ZoneStat::kNrIsolatedFile) == 0);
  });
}

TEST_CASE("Lru: a page that is being freed is passed over and counted as a scan", "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    const auto pages = machine.AddPages(3, Kind::kAnon);
    machine.mm->frames[pages[0]].refcount.store(0);  // its last user is on the way to lru_lock
    IsolatedBatch batch(*machine.mm, machine.zone());
    const Isolated got = Isolate(machine, batch, 2, LruList::kInactiveAnon);
    CHECK(got.scanned == 2);
    CHECK(got.taken == 1);
    CHECK(batch.entries[0].frame == pages[1]);
    CHECK(machine.mm->frames[pages[0]].state() == FrameState::kLru);
    machine.mm->frames[pages[0]].refcount.store(1);
  });
  CHECK(machine.zone().lru->CheckInvariants().empty());
}

// Mutations tried: the block not aligned down; companions not counted as scans; mode ignored.
TEST_CASE("Lru: lumpy isolation takes a page's aligned block", "[mm][spec:throttle-19]") {
  ReclaimMachine machine;
  machine.Run([&] {
    // An aligned run of eight frames, of which one is active.
    const auto pages = machine.AddPages(400, Kind::kAnon);
    FrameNo base = 0;
    for (const FrameNo n : pages) {
      if (n % 8 != 0) continue;
      bool whole = true;
      for (FrameNo i = 0; i < 8; ++i) {
        whole = whole && machine.mm->frames[n + i].state() == FrameState::kLru;
      }
      if (whole) base = n;
    }
    REQUIRE(base != 0);
    const auto oldest_is = [&](FrameNo n) { CHECK(machine.zone().lru->RotateTail({&n, 1}) == 1); };
    oldest_is(base + 2);
    {
      IsolatedBatch batch(*machine.mm, machine.zone());
      const Isolated got = Isolate(machine, batch, 1, LruList::kInactiveAnon, 2);
      CHECK(got.taken == 4);
      CHECK(got.scanned == 4);
      CHECK(batch.entries[0].frame == base + 2);
      for (const BatchEntry& entry : batch.entries) CHECK((entry.frame & ~3U) == base);
    }
    CHECK(machine.zone().lru->SetActive(base + 1, true));
    oldest_is(base);
    {
      IsolatedBatch batch(*machine.mm, machine.zone());
      CHECK(Isolate(machine, batch, 1, LruList::kInactiveAnon, 2).taken == 3);
    }
    oldest_is(base);
    {
      IsolatedBatch batch(*machine.mm, machine.zone());
      CHECK(Isolate(machine, batch, 1, LruList::kInactiveAnon, 2, IsolateMode::kBoth).taken == 4);
      CHECK(machine.Stat(ZoneStat::kNrActive) == 0);
    }
    // Companions use up scans: one call takes at most n - 1 + 2^order pages.
    IsolatedBatch batch(*machine.mm, machine.zone());
    const Isolated many = Isolate(machine, batch, 32, LruList::kInactiveAnon, 3);
    CHECK(many.taken <= 31 + 8);
    CHECK(many.scanned >= 32);
    CHECK(many.scanned == many.taken);
  });
  CHECK(machine.zone().lru->CheckInvariants().empty());
}

TEST_CASE("Lru: a batch goes to the list its entries say, lru_lock taken anew every 14 pages",
          "[mm]") {
  ReclaimMachine machine;
  machine.Run([&] {
    machine.AddPages(64, Kind::kAnon);
    IsolatedBatch batch(*machine.mm, machine.zone());
    Isolate(machine, batch, 32, LruList::kInactiveAnon);
    for (std::size_t i = 0; i < 10; ++i) batch.entries[i].activate = true;
    const auto before = machine.zone().lru_lock.stats().acquisitions;
    CHECK(batch.PutBack() == 10);
    CHECK(machine.zone().lru_lock.stats().acquisitions - before == 3);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 10);
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 54);
  });
  CHECK(machine.zone().lru->CheckInvariants().empty());
}

TEST_CASE("Lru: what a cancelled task had isolated is back on the list", "[mm]") {
  ReclaimMachine machine({.time_limit = {10'000'000}});
  const RunResult result = machine.Run([&] {
    machine.AddPages(64, Kind::kAnon);
    IsolatedBatch batch(*machine.mm, machine.zone());
    Isolate(machine, batch, 32, LruList::kInactiveAnon);
    SleepFor({1'000'000'000});  // never returns
  });
  CHECK(result.end == RunEnd::kTimeLimit);
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
  CHECK(machine.Stat(ZoneStat::kNrInactive) == 64);
}

// Mutation tried: TakeOrRotate that unlinks visible frames (the count of list and counter differ).
TEST_CASE("Lru: with isolated_visible isolated pages stay counted, and two batches may share one",
          "[mm]") {
  ReclaimMachineOptions options;
  options.policy.reclaim.isolated_visible = true;
  ReclaimMachine machine(options);
  machine.Run([&] {
    const auto pages = machine.AddPages(20, Kind::kAnon);
    IsolatedBatch first(*machine.mm, machine.zone());
    IsolatedBatch second(*machine.mm, machine.zone());
    CHECK(Isolate(machine, first, 32, LruList::kInactiveAnon).taken == 20);
    CHECK(Isolate(machine, second, 32, LruList::kInactiveAnon).taken == 20);
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 20);
    CHECK(machine.mm->frames[pages[3]].refcount.load() == 1);  // pinned only while it is judged
    {
      const VisiblePin pin(*machine.mm, pages[3]);
      CHECK(pin.usable());
      CHECK(machine.mm->frames[pages[3]].refcount.load() == 2);
    }
    first.entries[0].activate = true;
    first.PutBack();
    CHECK(machine.Stat(ZoneStat::kNrActive) == 1);
    for (const FrameNo n : pages) machine.DropPage(n);
    CHECK(machine.Stat(ZoneStat::kNrInactive) == 0);  // although the second batch names them
    CHECK_FALSE(VisiblePin(*machine.mm, second.entries[0].frame).usable());
  });
  CHECK(machine.zone().lru->CheckInvariants().empty());
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
  CHECK(machine.Stat(ZoneStat::kNrInactive) + machine.Stat(ZoneStat::kNrActive) == 0);
}

// The lists against deques of frame numbers, head first.
struct Model {
  std::array<std::deque<FrameNo>, 2> list;  // inactive, active
  std::vector<FrameNo> isolated;

  [[nodiscard]] std::size_t SideOf(FrameNo n) const {  // 2: on neither list
    for (std::size_t side = 0; side < 2; ++side) {
      if (std::find(list[side].begin(), list[side].end(), n) != list[side].end()) return side;
    }
    return 2;
  }
  void Remove(FrameNo n) {
    for (auto& side : list) side.erase(std::remove(side.begin(), side.end(), n), side.end());
  }
};

// Pops everything off both lists, oldest first, and compares.
void CompareAndEmpty(ReclaimMachine& machine, Model& model) {
  for (std::size_t side = 0; side < 2; ++side) {
    IsolatedBatch batch(*machine.mm, machine.zone());
    const auto list = side == 0 ? LruList::kInactiveAnon : LruList::kActiveAnon;
    Isolate(machine, batch, 1000, list, 0, IsolateMode::kBoth);
    REQUIRE(batch.entries.size() == model.list[side].size());
    for (std::size_t i = 0; i < batch.entries.size(); ++i) {
      REQUIRE(batch.entries[i].frame == model.list[side][model.list[side].size() - 1 - i]);
      REQUIRE(batch.entries[i].activate == (side == 1));
    }
  }
}

void IsolateSome(ReclaimMachine& machine, Model& model, Rng& rng, IsolatedBatch& batch) {
  const auto side = static_cast<std::size_t>(rng.Below(2));
  const auto want = static_cast<std::int64_t>(rng.Below(12));
  const auto list = side == 0 ? LruList::kInactiveAnon : LruList::kActiveAnon;
  const Isolated got = Isolate(machine, batch, want, list, 0, IsolateMode::kBoth);
  REQUIRE(got.taken == std::min(want, static_cast<std::int64_t>(model.list[side].size())));
  for (std::int64_t i = 0; i < got.taken; ++i) {
    model.isolated.push_back(model.list[side].back());
    model.list[side].pop_back();
  }
}

void PutBackAll(Model& model, Rng& rng, IsolatedBatch& batch) {
  REQUIRE(batch.entries.size() == model.isolated.size());
  for (std::size_t i = 0; i < batch.entries.size(); ++i) {
    REQUIRE(batch.entries[i].frame == model.isolated[i]);
    batch.entries[i].activate = rng.Below(2) == 1;
    model.list[batch.entries[i].activate ? 1 : 0].push_front(model.isolated[i]);
  }
  model.isolated.clear();
  batch.PutBack();
}

TEST_CASE("Lru: random operations agree with a model of two deques", "[mm][model]") {
  const std::uint64_t seed = GENERATE(1U, 2U, 3U, 4U, 5U);
  ReclaimMachine machine({.seed = seed});
  machine.Run([&] {
    Rng rng = machine.engine->seeds().Stream("lru model");
    Lru& lru = *machine.zone().lru;
    Model model;
    const std::vector<FrameNo> all = machine.AddPages(50, Kind::kAnon);
    for (const FrameNo n : all) model.list[0].push_front(n);
    {
      IsolatedBatch batch(*machine.mm, machine.zone());
      for (int step = 0; step < 3000; ++step) {
        const FrameNo n = all[rng.Below(all.size())];
        const std::size_t side = model.SideOf(n);
        const std::uint64_t what = rng.Below(4);
        if (what == 0) {
          IsolateSome(machine, model, rng, batch);
        } else if (what == 1) {
          PutBackAll(model, rng, batch);
        } else if (what == 2) {
          const std::int64_t moved = lru.RotateTail({&n, 1});
          REQUIRE(moved == (side == 0 ? 1 : 0));  // active pages stay where they are
          if (moved == 0) continue;
          model.Remove(n);
          model.list[side].push_back(n);
        } else {
          const auto to = static_cast<std::size_t>(rng.Below(2));
          const bool moves = side < 2 && to != side;
          REQUIRE(lru.SetActive(n, to == 1) == moves);
          if (!moves) continue;
          model.Remove(n);
          model.list[to].push_front(n);
        }
        REQUIRE(lru.isolated() == static_cast<std::int64_t>(model.isolated.size()));
      }
      PutBackAll(model, rng, batch);
    }
    CompareAndEmpty(machine, model);
  });
  CHECK(machine.zone().lru->CheckInvariants() == "");
  CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
}

}  // namespace
}  // namespace pagestorm::mm
