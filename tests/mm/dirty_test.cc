#include "mm/dirty.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "mm/file_io.h"
#include "mm/flusher.h"
#include "mm/page_cache.h"
#include "mm/writeback.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

TEST_CASE("RatelimitPages: a 32nd of memory for each CPU, within 16 pages and 4 MiB",
          "[mm][dirty]") {
  CHECK(RatelimitPages(32 * 2 * 100 + 63, 2, PageShift{12}) == 100);
  CHECK(RatelimitPages(258'560, 2, PageShift{12}) == 1024);  // 4040 would be
  CHECK(RatelimitPages(258'560, 16, PageShift{12}) == 505);
  CHECK(RatelimitPages(1'000, 4, PageShift{12}) == 16);  // 7 would be
  CHECK(RatelimitPages(258'560, 2, PageShift{16}) == 64);
}

TEST_CASE("DirtyLimitsFor: the shares of the dirtyable pages, by hand", "[mm][dirty]") {
  struct Case {
    std::int64_t dirtyable, background_ratio, dirty_ratio, background, dirty;
  };
  const auto c = GENERATE(Case{10'000, 5, 10, 500, 1'000},   // the defaults
                          Case{10'099, 5, 10, 504, 1'009},   // truncated, not rounded
                          Case{10'000, 1, 2, 100, 500},      // dirty is at least 5 %
                          Case{10'000, 10, 10, 500, 1'000},  // not below: half
                          Case{10'000, 5, 3, 200, 500},  // 5 is not below max(5, 3): 5 / 2 = 2 %
                          Case{0, 5, 10, 0, 0});
  const DirtyLimits limits = DirtyLimitsFor(
      c.dirtyable, {.dirty_background_ratio = c.background_ratio, .dirty_ratio = c.dirty_ratio});
  CHECK(limits.background == c.background);
  CHECK(limits.dirty == c.dirty);
}

// 16 MiB: about 4000 dirtyable pages, so some 200 start the flusher and some 400 stop the writer.
SwapMachineOptions SlowDisk() {
  SwapMachineOptions options;
  options.disk = {.positioning_ns = 1'000'000, .bytes_per_second = 4'096'000};  // 1000 pages/s
  return options;
}

TEST_CASE("DirtyThrottle: below the background limit nothing is written before it is 30 s old",
          "[mm][dirty]") {
  SwapMachine machine(SlowDisk());
  File& file = machine.mm.page_cache->CreateFile({1000});
  std::vector<std::int64_t> dirty;
  machine.Run([&] {
    OpenFile open(file);
    SleepFor(12 * kSecond);  // between two of the 5-second rounds
    for (std::uint32_t page = 0; page < 100; ++page) WriteFilePage(machine.mm, open, page, 1);
    for (int i = 0; i < 9; ++i) {
      dirty.push_back(machine.mm.page_cache->dirty_pages());
      SleepFor(5 * kSecond);
    }
  });
  // Dirty from second 12 on: the round of second 45 is the first to find it expired.
  CHECK(dirty == std::vector<std::int64_t>{100, 100, 100, 100, 100, 100, 100, 0, 0});
  CHECK(machine.mm.page_cache->flusher().counts().kupdate == 100);
  CHECK(machine.mm.page_cache->flusher().counts().background == 0);
  CHECK(machine.mm.page_cache->throttle().counts().naps == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("DirtyThrottle: above the background limit the flusher writes, and nobody waits",
          "[mm][dirty]") {
  SwapMachine machine(SlowDisk());
  File& file = machine.mm.page_cache->CreateFile({1000});
  std::int64_t background = 0, left = -1;
  machine.Run([&] {
    background = machine.mm.writeback->Limits().background;
    OpenFile open(file);
    for (std::uint32_t page = 0; page < 300; ++page) WriteFilePage(machine.mm, open, page, 1);
    SleepFor(3 * kSecond);
    left = machine.mm.page_cache->dirty_pages();
  });
  CHECK(background > 150);
  CHECK(background < 250);
  CHECK(left < background);
  CHECK(machine.mm.page_cache->flusher().counts().background == 300 - left);
  CHECK(machine.mm.page_cache->throttle().counts().naps == 0);
  CHECK(machine.mm.page_cache->throttle().counts().written == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("DirtyThrottle: a writer faster than the disk is slowed down to it", "[mm][dirty]") {
  SwapMachine machine(SlowDisk());
  File& file = machine.mm.page_cache->CreateFile({5000});
  std::int64_t excess = INT64_MIN;
  Ns elapsed;
  bool exceeded = false;
  machine.Run([&] {
    OpenFile open(file);
    const Ns start = Now();
    PageCache& cache = *machine.mm.page_cache;
    for (std::uint32_t page = 0; page < 3000; ++page) {
      WriteFilePage(machine.mm, open, page, page);
      exceeded = exceeded || cache.throttle().exceeded();
      const std::int64_t held = cache.dirty_pages() + cache.writeback_pages();
      excess = std::max(excess, held - machine.mm.writeback->Limits().dirty);
    }
    elapsed = Now() - start;
  });
  const DirtyThrottle& throttle = machine.mm.page_cache->throttle();
  const DirtyThrottle::Counts counts = throttle.counts();
  CHECK(exceeded);
  CHECK(counts.naps > 5);
  CHECK(counts.written > 0);
  CHECK(counts.written <= counts.checks * throttle.write_chunk());
  // Between two looks a writer may dirty ratelimit pages; counters and thus limits are off by a
  // few.
  CHECK(excess > 0);
  CHECK(excess <= throttle.ratelimit() + 64);
  // 3000 pages at 1000 a second, of which the limit (some 400) may still be in memory.
  CHECK(elapsed.n > 2 * kSecond.n);
  CHECK(elapsed.n < 8 * kSecond.n);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("Flusher: writes as much as it is asked for, also below the limit", "[mm][dirty]") {
  SwapMachine machine(SlowDisk());
  File& file = machine.mm.page_cache->CreateFile({1000});
  std::int64_t before = -1, after = -1;
  machine.Run([&] {
    OpenFile open(file);
    for (std::uint32_t page = 0; page < 100; ++page) WriteFilePage(machine.mm, open, page, 1);
    before = machine.mm.page_cache->dirty_pages();
    machine.mm.page_cache->flusher().WakeBackground(40);
    SleepFor(kSecond);
    after = machine.mm.page_cache->dirty_pages();
  });
  CHECK(before == 100);
  CHECK(after == 0);  // in rounds of 1024
  CHECK(machine.Wrong() == "");
}

TEST_CASE("Flusher: takes the oldest file first and goes on where it stopped", "[mm][dirty]") {
  SwapMachine machine;
  PageCache& cache = *machine.mm.page_cache;
  File& young = cache.CreateFile({100});
  File& old = cache.CreateFile({100});
  std::vector<std::int64_t> left;
  bool more_io = false, again_waits = false;
  machine.Run([&] {
    OpenFile one(young), two(old);
    for (std::uint32_t page = 0; page < 60; ++page) WriteFilePage(machine.mm, two, page, 1);
    SleepFor(kMillisecond);
    for (std::uint32_t page = 0; page < 60; ++page) WriteFilePage(machine.mm, one, page, 1);
    const auto round = [&](std::int64_t pages) {
      WritebackControl control{.nr_to_write = pages};
      cache.flusher().WriteInodes(control);
      left.insert(left.end(), {young.dirty.load(), old.dirty.load()});
      return control;
    };
    more_io = round(50).more_io;  // the old file's pages 0 to 49
    SleepFor(kSecond);
    WriteFilePage(machine.mm, two, 3, 2);
    round(60);  // first what was picked together with it: the young file
    round(5);   // the old file from page 50 on; page 3 has to wait for the wrap
    again_waits = machine.mm.frames[old.frames[3]].Test(kPageDirty);
    round(6);
  });
  CHECK(more_io);
  CHECK(again_waits);
  CHECK(left == std::vector<std::int64_t>{60, 10, 0, 11, 0, 6, 0, 0});
  CHECK(machine.Wrong() == "");
}

TEST_CASE("Flusher: a write during writeback is not lost", "[mm][dirty]") {
  SwapMachine machine(SlowDisk());
  File& file = machine.mm.page_cache->CreateFile({8});
  bool under_writeback = false, dirty = false;
  std::int64_t round = -1;
  machine.Run([&] {
    OpenFile open(file);
    WriteFilePage(machine.mm, open, 0, 1);
    WritebackControl control;
    machine.mm.page_cache->flusher().WriteInodes(control);
    const PageFrame& frame = machine.mm.frames[file.frames[0]];
    under_writeback = frame.Test(kPageWriteback);
    WriteFilePage(machine.mm, open, 0, 2);
    dirty = frame.Test(kPageDirty) && frame.Test(kPageWriteback);
    control = {};
    machine.mm.page_cache->flusher().WriteInodes(control);  // still under writeback: passed over
    round = kWritebackPagesMax - control.nr_to_write;
    SleepFor(40 * kSecond);
  });
  CHECK(under_writeback);
  CHECK(dirty);
  CHECK(round == 0);
  CHECK(PageCache::DiskStamp(file, 0) == 2);
  CHECK(machine.mm.page_cache->device().counts().pages == 2);
  CHECK(machine.Wrong() == "");
}

}  // namespace
}  // namespace pagestorm::mm
