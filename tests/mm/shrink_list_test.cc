// The rows of the decision table, one test each, in their order.
#include "mm/shrink_list.h"

#include <catch2/catch.hpp>

#include "mm/lru.h"
#include "mm/page_lock.h"
#include "mm/pagevec.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

using Kind = ReclaimMachine::Kind;
enum class Outcome { kKeep, kActivate, kFree };

// A machine with one page on the inactive list, and one pass over it.
struct OnePage {
  explicit OnePage(Kind kind, bool mapped = true, MmPolicy policy = {})
      : machine(ReclaimMachineOptions{.policy = policy}), kind_(kind), mapped_(mapped) {
    machine.owners->log = &log;
  }

  // prepare(frame) runs before the pass, afterwards(frame) after it.
  Outcome Pass(
      const std::function<void(PageFrame&)>& prepare = [](PageFrame&) {}, bool sync = false,
      const std::function<void(PageFrame&)>& afterwards = {}) {
    Outcome outcome = Outcome::kKeep;
    machine.Run([&] {
      n = machine.AddPages(1, kind_, /*active=*/false, mapped_)[0];
      PageFrame& frame = machine.mm->frames[n];
      prepare(frame);
      {
        IsolatedBatch batch(*machine.mm, machine.zone());
        machine.zone().lru->Isolate(1, LruList::kInactiveAnon, 0, IsolateMode::kInactive,
                                    batch.entries);
        freed =
            PageListPass(*machine.mm, *machine.owners, machine.zone(), sc, sync).Run(batch.entries);
        outcome = batch.entries[0].frame == kNoFrame ? Outcome::kFree
                  : batch.entries[0].activate        ? Outcome::kActivate
                                                     : Outcome::kKeep;
      }
      if (afterwards) afterwards(frame);
      if (frame.Test(kPageWriteback)) machine.mm->page_locks->WaitOnWriteback(n);
      machine.mm->pagevecs->DrainAll();
    });
    CHECK(machine.mm->CheckInvariants(/*expect_idle=*/true) == "");
    return outcome;
  }

  ReclaimMachine machine;
  ScanControl sc;
  std::vector<std::string> log;
  FrameNo n = kNoFrame;
  std::int64_t freed = 0;

 private:
  Kind kind_;
  bool mapped_;
};

std::vector<std::string> Calls(std::initializer_list<const char*> calls) {
  return {calls.begin(), calls.end()};
}

// Mutation tried: counting the scan before the trylock.
TEST_CASE("PageListPass row 1: a page whose lock is busy is kept and not counted", "[mm]") {
  OnePage page(Kind::kAnon);
  CHECK(page.Pass([](PageFrame& frame) { frame.Set(kPageLocked); }, false,
                  [&](PageFrame& frame) { frame.Clear(kPageLocked); }) == Outcome::kKeep);
  CHECK(page.sc.nr_scanned == 0);
}

// Mutation tried: the second count of mapped pages moved in front of row 2.
TEST_CASE("PageListPass row 2: without may_swap a mapped page is kept, counted once", "[mm]") {
  OnePage page(Kind::kAnon);
  page.sc.may_swap = false;
  CHECK(page.Pass() == Outcome::kKeep);
  CHECK(page.sc.nr_scanned == 1);
  CHECK(page.log.empty());
}

TEST_CASE("PageListPass row 3: writeback is waited for by a synchronous pass only", "[mm]") {
  const auto writeback = [](PageFrame& frame) { frame.Set(kPageWriteback); };
  SECTION("asynchronous: kept") {
    OnePage page(Kind::kCleanFile, false);
    CHECK(page.Pass(writeback, false, [&](PageFrame& frame) { frame.Clear(kPageWriteback); }) ==
          Outcome::kKeep);
    CHECK(page.log.empty());
  }
  SECTION("synchronous: waits, then goes on") {
    OnePage page(Kind::kCleanFile, false);
    const auto outcome = page.Pass(
        [&](PageFrame& frame) {
          writeback(frame);
          page.machine.Spawn("io", [&] {
            SleepFor({2'000'000});
            page.machine.mm->page_locks->EndWriteback(page.n);
          });
        },
        /*sync=*/true);
    CHECK(outcome == Outcome::kFree);
  }
}

// Mutations tried: row 4 without the order test, without the in-use test.
TEST_CASE("PageListPass row 4: a referenced page in use is activated", "[mm][spec:throttle-20]") {
  const auto touch = [](PageFrame& frame) { frame.Set(kPageReferenced); };
  SECTION("mapped, dirty or not: before anything else is done to it") {
    OnePage page(Kind::kDirtyFile);
    CHECK(page.Pass(touch) == Outcome::kActivate);
    CHECK(page.log == Calls({"referenced"}));
    CHECK(page.sc.nr_scanned == 2);
    CHECK(page.machine.mm->vmstat->Event(VmEvent::kPgactivate) == 1);
  }
  SECTION("a file page that nobody maps is not in use") {
    OnePage page(Kind::kCleanFile, false);
    CHECK(page.Pass(touch) == Outcome::kFree);
    CHECK(page.sc.nr_scanned == 1);
  }
  SECTION("its file mapped elsewhere: in use") {
    OnePage page(Kind::kCleanFile, false);
    page.machine.owners->file_is_mapped = true;
    CHECK(page.Pass(touch) == Outcome::kActivate);
  }
  SECTION("a large request takes referenced pages, too") {
    OnePage page(Kind::kCleanFile, false);
    page.machine.owners->file_is_mapped = true;
    page.sc.order = 4;
    CHECK(page.Pass(touch) == Outcome::kFree);
  }
}

TEST_CASE("PageListPass row 5: an anonymous page without a swap slot to be had is activated",
          "[mm]") {
  OnePage page(Kind::kAnon);
  page.machine.owners->swap_full = true;
  CHECK(page.Pass() == Outcome::kActivate);
  CHECK(page.log == Calls({"referenced", "add_to_swap"}));
}

TEST_CASE("PageListPass rows 6 and 7: a young pte activates, a race keeps", "[mm]") {
  OnePage page(Kind::kAnon);
  SECTION("fail") {
    page.machine.owners->unmap = UnmapResult::kFail;
    CHECK(page.Pass() == Outcome::kActivate);
  }
  SECTION("again") {
    page.machine.owners->unmap = UnmapResult::kAgain;
    CHECK(page.Pass() == Outcome::kKeep);
  }
  CHECK(page.log == Calls({"referenced", "add_to_swap", "unmap"}));
}

// Mutation tried: rows 8 and 4 exchanged (a referenced dirty unmapped page is activated).
TEST_CASE("PageListPass row 8: a referenced dirty file page that nobody maps is kept",
          "[mm][spec:throttle-20]") {
  OnePage page(Kind::kDirtyFile, false);
  CHECK(page.Pass([](PageFrame& frame) { frame.Set(kPageReferenced); }) == Outcome::kKeep);
  CHECK(page.log == Calls({"referenced"}));
}

// Mutation tried: may_enter_fs evaluated after row 5.
TEST_CASE("PageListPass row 9: GFP_NOFS prepares a fresh anonymous page and keeps it", "[mm]") {
  OnePage page(Kind::kAnon);
  page.sc.gfp = GFP_NOFS;
  CHECK(page.Pass() == Outcome::kKeep);
  CHECK(page.log == Calls({"referenced", "add_to_swap", "unmap"}));
  CHECK(page.machine.mm->frames[page.n].Test(kPageSwapCache));
}

TEST_CASE("PageListPass row 9: GFP_NOFS writes a page that has its slot already", "[mm]") {
  OnePage page(Kind::kAnon);
  page.sc.gfp = GFP_NOFS;
  const auto in_cache = [&](PageFrame& frame) {
    frame.Set(kPageSwapCache | kPageDirty);
    frame.refcount.fetch_add(1);
  };
  CHECK(page.Pass(in_cache) == Outcome::kKeep);
  CHECK(page.machine.owners->writes.load() == 1);
}

TEST_CASE("PageListPass row 10: without may_writepage a dirty page is kept", "[mm]") {
  OnePage page(Kind::kDirtyFile, false);
  page.sc.may_writepage = false;
  CHECK(page.Pass() == Outcome::kKeep);
  CHECK(page.log == Calls({"referenced"}));
}

TEST_CASE("PageListPass row 11: what pageout refuses", "[mm]") {
  OnePage page(Kind::kDirtyFile, false);
  SECTION("somebody else holds a reference: kept") {
    CHECK(page.Pass([](PageFrame& frame) { frame.refcount.fetch_add(1); }, false,
                    [](PageFrame& frame) { frame.refcount.fetch_sub(1); }) == Outcome::kKeep);
    CHECK(page.machine.owners->writes.load() == 0);
  }
  SECTION("the device is congested: kept, still dirty") {
    page.machine.owners->congested = true;
    CHECK(page.Pass() == Outcome::kKeep);
    CHECK(page.machine.mm->frames[page.n].Test(kPageDirty));
  }
  SECTION("nobody can write it: active, still dirty") {
    page.machine.owners->write = WriteResult::kNoOp;
    CHECK(page.Pass() == Outcome::kActivate);
    CHECK(page.machine.mm->frames[page.n].Test(kPageDirty));
  }
  SECTION("the owner wants it: active") {
    page.machine.owners->write = WriteResult::kActivate;
    CHECK(page.Pass() == Outcome::kActivate);
  }
  SECTION("the slot was given up: kept, dirty") {
    page.machine.owners->write = WriteResult::kNotNeeded;
    CHECK(page.Pass() == Outcome::kKeep);
    CHECK(page.machine.mm->frames[page.n].Test(kPageDirty));
    CHECK(page.machine.Stat(ZoneStat::kNrVmscanWrite) == 1);
  }
}

TEST_CASE("PageListPass row 12: a page whose write is under way is kept, unlocked", "[mm]") {
  OnePage page(Kind::kDirtyFile, false);
  CHECK(page.Pass({[](PageFrame&) {}}, false, [](PageFrame& frame) {
    CHECK(frame.Test(kPageWriteback));
    CHECK(frame.Test(kPageReclaim));
    CHECK_FALSE(frame.Test(kPageLocked));
  }) == Outcome::kKeep);
  CHECK(page.sc.nr_io_pages == 1);
  CHECK(page.machine.Stat(ZoneStat::kNrVmscanWrite) == 1);
  CHECK(page.freed == 0);
}

// Mutation tried: AfterWrite that keeps in any case.
TEST_CASE("PageListPass row 13: a synchronous pass waits for its write and frees the page",
          "[mm]") {
  OnePage page(Kind::kDirtyFile, false);
  CHECK(page.Pass([](PageFrame&) {}, /*sync=*/true) == Outcome::kFree);
  CHECK(page.log == Calls({"referenced", "write", "remove"}));
}

TEST_CASE("PageListPass rows 14 and 15: buffers", "[mm]") {
  SECTION("that do not let go: active") {
    OnePage page(Kind::kCleanFile, false);
    page.machine.owners->buffers_stick = true;
    CHECK(page.Pass([&](PageFrame&) { page.machine.owners->with_buffers.insert(page.n); }) ==
          Outcome::kActivate);
    CHECK(page.log == Calls({"referenced", "release_buffers"}));
  }
  SECTION("released: on to the mapping") {
    OnePage page(Kind::kCleanFile, false);
    CHECK(page.Pass([&](PageFrame&) { page.machine.owners->with_buffers.insert(page.n); }) ==
          Outcome::kFree);
  }
  SECTION("orphaned, and ours alone: freed") {
    OnePage page(Kind::kCleanFile, false);
    const auto orphan = [&](PageFrame& frame) {
      page.machine.owners->with_buffers.insert(page.n);
      frame.owner = 0;
    };
    // The isolation takes a second reference; the file's goes with the file.
    const auto outcome = page.Pass(
        [&](PageFrame& frame) {
          orphan(frame);
          page.machine.Spawn("truncate", [&] {});
        },
        false);
    CHECK(outcome == Outcome::kKeep);  // the test's own reference stands for a user
  }
}

TEST_CASE("PageListPass row 16: a page in use by others, or without a mapping, is kept", "[mm]") {
  OnePage page(Kind::kCleanFile, false);
  SECTION("in use") {
    CHECK(page.Pass([](PageFrame& frame) { frame.refcount.fetch_add(1); }, false,
                    [](PageFrame& frame) { frame.refcount.fetch_sub(1); }) == Outcome::kKeep);
    CHECK(page.log == Calls({"referenced", "remove"}));
  }
  SECTION("no mapping") {
    CHECK(page.Pass([](PageFrame& frame) { frame.owner = 0; }) == Outcome::kKeep);
    CHECK(page.log == Calls({"referenced"}));
  }
}

TEST_CASE("PageListPass row 17: a clean page is freed to the cold end", "[mm]") {
  OnePage page(Kind::kCleanFile, false);
  CHECK(page.Pass([](PageFrame&) {}, false,
                  [&](PageFrame& frame) {
                    CHECK(frame.state() == FrameState::kPcp);
                    CHECK_FALSE(frame.Test(kPageLocked));
                  }) == Outcome::kFree);
  CHECK(page.freed == 1);
  CHECK(page.machine.mm->vmstat->Event(VmEvent::kPgfree) == 1);
}

TEST_CASE("PageListPass: split LRU keeps an anonymous page from a caller without I/O", "[mm]") {
  MmPolicy policy;
  policy.reclaim.split_lru = true;
  OnePage page(Kind::kAnon, true, policy);
  SECTION("no I/O") {
    page.sc.gfp = GFP_NOIO;
    CHECK(page.Pass() == Outcome::kKeep);
    CHECK(page.log == Calls({"referenced"}));
  }
  SECTION("I/O without FS writes it at once") {
    page.sc.gfp = GFP_NOFS;
    CHECK(page.Pass() == Outcome::kKeep);
    CHECK(page.machine.owners->writes.load() == 1);
  }
}

}  // namespace
}  // namespace pagestorm::mm
