#include "mm/page_cache.h"

#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "core/rng.h"
#include "mm/file_io.h"
#include "mm/flusher.h"
#include "mm/lru.h"
#include "mm/page_lock.h"
#include "mm/reclaim.h"
#include "mm/zone.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

std::uint64_t OnDisk(std::uint32_t page) { return 1'000'000 + page; }

File& NewFile(SwapMachine& machine, std::int64_t pages) {
  return machine.mm.page_cache->CreateFile({pages}, OnDisk);
}

std::uint64_t ReadOne(SwapMachine& machine, OpenFile& open, std::uint32_t page) {
  std::uint64_t stamp = 0;
  return ReadFilePage(machine.mm, open, page, &stamp) == FileResult::kOk ? stamp : 0;
}

FrameNo FrameOf(const File& file, std::uint32_t page) { return file.frames[page]; }

// Isolates everything on the inactive list of zone 0 for one page-list pass.
struct Pass {
  Pass(SwapMachine& machine, std::int64_t want, LruList list = LruList::kInactiveAnon)
      : mm(machine.mm), zone(*mm.zones[0]), batch(mm, zone) {
    mm.pagevecs->DrainAll();
    const IsolateMode mode = IsActive(list) ? IsolateMode::kActive : IsolateMode::kInactive;
    static_cast<void>(zone.lru->Isolate(want, list, 0, mode, batch.entries));
  }
  std::int64_t Run(ScanControl sc = {}) {
    return mm.reclaimer->ShrinkPageList(batch, zone, sc, /*sync=*/false);
  }
  [[nodiscard]] const BatchEntry* Find(FrameNo n) const {
    for (const BatchEntry& entry : batch.entries) {
      if (entry.frame == n) return &entry;
    }
    return nullptr;
  }

  MemoryManager& mm;
  Zone& zone;
  IsolatedBatch batch;
};

// --- reading ---

TEST_CASE("ReadFilePage: reads ahead for who reads on, and one page for who jumps",
          "[mm][page_cache]") {
  SwapMachine machine;
  File& file = NewFile(machine, 256);
  std::vector<std::int64_t> cached;
  std::vector<std::uint64_t> stamps;
  const RunResult run = machine.Run([&] {
    OpenFile open(file);
    for (const std::uint32_t page : {0U, 1U, 2U, 32U, 200U}) {
      stamps.push_back(ReadOne(machine, open, page));
      cached.push_back(machine.mm.page_cache->cached_pages());
    }
  });
  CHECK(run.end == RunEnd::kDone);
  // Page 0: a window of 32. Page 1 carries the marker: the next window. Page 32 is the first of
  // that one and was jumped to, but found: the third. Page 200 is a jump and a miss.
  CHECK(cached == std::vector<std::int64_t>{32, 64, 64, 96, 97});
  CHECK(stamps ==
        std::vector<std::uint64_t>{OnDisk(0), OnDisk(1), OnDisk(2), OnDisk(32), OnDisk(200)});
  CHECK(machine.Stat(ZoneStat::kNrFilePages) == 97);
  CHECK(machine.Event(VmEvent::kPgpgin) == 97 * 4);
  // The disk saw far fewer requests than pages: neighbours merge.
  CHECK(machine.mm.page_cache->device().counts().pages == 97);
  CHECK(machine.mm.page_cache->device().counts().requests <= 12);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("ReadFilePage: the second use activates a page, a repeated one does not count",
          "[mm][page_cache]") {
  SwapMachine machine;
  File& file = NewFile(machine, 64);
  bool once_referenced = false, once_active = true, repeated_active = true, twice_active = false,
       twice_referenced = true;
  machine.Run([&] {
    OpenFile open(file);
    ReadOne(machine, open, 0);
    machine.mm.pagevecs->DrainAll();
    const PageFrame& frame = machine.mm.frames[FrameOf(file, 0)];
    once_referenced = frame.Test(kPageReferenced);
    once_active = frame.Test(kPageActive);
    ReadOne(machine, open, 0);
    repeated_active = frame.Test(kPageActive);
    ReadOne(machine, open, 1);
    ReadOne(machine, open, 0);
    twice_active = frame.Test(kPageActive);
    twice_referenced = frame.Test(kPageReferenced);
  });
  CHECK(once_referenced);
  CHECK_FALSE(once_active);
  CHECK_FALSE(repeated_active);
  CHECK(twice_active);
  CHECK_FALSE(twice_referenced);
  CHECK(machine.Event(VmEvent::kPgactivate) == 1);
  CHECK(machine.Wrong() == "");
}

// --- what booting leaves behind ---

// Mutation tried, red: all of it on the first node.
TEST_CASE("PageCache: what is cached after boot is clean, on every node, and goes without I/O",
          "[mm][page_cache]") {
  SwapMachineOptions options;
  options.nodes = 2;
  options.page_cache_pages = 101;
  SwapMachine machine(options);
  std::array<std::int64_t, 2> cached{}, inactive{};
  std::int64_t progress = 0, left = 0;
  machine.Run([&] {
    MemoryManager& mm = machine.mm;
    mm.page_cache->FillAtBoot();
    mm.pagevecs->DrainAll();
    for (const auto& zone : mm.zones) {
      const auto node = static_cast<std::size_t>(zone->node_position);
      cached[node] += mm.vmstat->Exact(zone->ordinal, ZoneStat::kNrFilePages);
      inactive[node] += mm.vmstat->Exact(zone->ordinal, ZoneStat::kNrInactive);
    }
    const auto zones = mm.allocator->ZonelistFor(GFP_KERNEL, 0);
    progress = mm.reclaimer->TryToFreePages(zones, 0, GFP_KERNEL);
    left = mm.page_cache->cached_pages();
  });
  CHECK(cached == std::array<std::int64_t, 2>{51, 50});
  CHECK(inactive == cached);
  CHECK(progress >= 32);
  CHECK(left <= 101 - 32);
  CHECK(machine.mm.page_cache->device().counts().requests == 0);
  CHECK(machine.Event(VmEvent::kPswpout) == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("PageCache: filling at boot stops where memory ends", "[mm][page_cache]") {
  SwapMachineOptions options;
  options.page_cache_pages = GENERATE(std::int64_t{100'000}, std::int64_t{1} << 32);
  SwapMachine machine(options);
  std::int64_t cached = 0;
  const RunResult run = machine.Run([&] {
    machine.mm.page_cache->FillAtBoot();
    cached = machine.mm.page_cache->cached_pages();
  });
  CHECK(run.end == RunEnd::kDone);
  CHECK(cached > 1000);
  CHECK(cached < 16 * 1024 / 4);
  CHECK(machine.Wrong() == "");
}

// --- the page-list pass ---

TEST_CASE("PageListPass: clean file pages are freed on the first visit, used once or not",
          "[mm][page_cache]") {
  SwapMachine machine;
  File& file = NewFile(machine, 32);
  std::int64_t freed = 0, cached = -1;
  machine.Run([&] {
    OpenFile open(file);
    for (std::uint32_t page = 0; page < 32; ++page) ReadOne(machine, open, page);
    freed = Pass(machine, 32).Run();
    cached = machine.mm.page_cache->cached_pages();
  });
  CHECK(freed == 32);
  CHECK(cached == 0);
  CHECK(machine.Stat(ZoneStat::kNrFilePages) == 0);
  CHECK(machine.Event(VmEvent::kPswpout) == 0);
  CHECK(machine.mm.page_cache->device().counts().pages == 32);  // read, never written
  CHECK(machine.Wrong() == "");
}

TEST_CASE("PageListPass: a dirty file page is written on the first visit and freed on the second",
          "[mm][page_cache]") {
  SwapMachine machine;
  File& file = NewFile(machine, 4);
  std::int64_t first = -1, second = -1, dirty_before = -1, dirty_after = -1, writeback = -1;
  std::uint64_t disk_before = 0;
  machine.Run([&] {
    OpenFile open(file);
    WriteFilePage(machine.mm, open, 2, 77);
    machine.mm.frames[FrameOf(file, 2)].Clear(kPageReferenced);
    dirty_before = machine.Stat(ZoneStat::kNrDirty);
    disk_before = PageCache::DiskStamp(file, 2);
    {
      Pass pass(machine, 32);
      first = pass.Run();
      dirty_after = machine.Stat(ZoneStat::kNrDirty);
      writeback = machine.Stat(ZoneStat::kNrWriteback);
    }
    SleepFor(kSecond);
    second = Pass(machine, 32).Run();
  });
  CHECK(dirty_before == 1);
  CHECK(disk_before == OnDisk(2));
  CHECK(first == 0);
  CHECK(dirty_after == 0);
  CHECK(writeback == 1);
  CHECK(second == 1);
  CHECK(PageCache::DiskStamp(file, 2) == 77);
  CHECK(machine.Stat(ZoneStat::kNrVmscanWrite) == 1);
  CHECK(machine.Event(VmEvent::kPgpgout) == 4);
  CHECK(machine.Wrong() == "");
}

// Turned red by: row 4 answering kKeep (anon_active); row 8 that keeps nothing (file_dirty).
TEST_CASE(
    "PageListPass: referenced and dirty, a mapped page is activated and an unmapped file page kept",
    "[mm][page_cache][spec:throttle-20]") {
  SwapMachine machine;
  File& file = NewFile(machine, 4);
  bool anon_seen = false, anon_active = false, file_seen = false, file_active = true,
       file_dirty = false, file_writeback = true;
  std::int64_t freed = -1, file_freed_next = -1;
  machine.Spawn("user", [&](TaskMm& self) {
    MemoryManager& mm = machine.mm;
    const std::uint32_t page = mm.spaces->MapAnon(*self.space, 1);
    if (mm.spaces->Write(*self.space, page, 5) != AccessResult::kOk) return;
    OpenFile open(file);
    WriteFilePage(mm, open, 1, 6);
    mm.pagevecs->DrainAll();
    // The anonymous page starts out active; both go through one pass.
    Zone& zone = *mm.zones[0];
    FrameNo anon = kNoFrame;
    for (FrameNo n = 0; n < mm.frames.end(); ++n) {
      if (mm.frames[n].Test(kPageAnon) && mm.frames[n].state() == FrameState::kLru) anon = n;
    }
    CHECK(zone.lru->SetActive(anon, false));
    mm.frames[anon].Set(kPageDirty);
    Pass pass(machine, 32);
    freed = pass.Run();
    const FrameNo cached = FrameOf(file, 1);
    if (const BatchEntry* entry = pass.Find(anon)) {
      anon_seen = true;
      anon_active = entry->activate;
    }
    if (const BatchEntry* entry = pass.Find(cached)) {
      file_seen = true;
      file_active = entry->activate;
    }
    file_dirty = mm.frames[cached].Test(kPageDirty);
    file_writeback = mm.frames[cached].Test(kPageWriteback);
    pass.batch.PutBack();
    // The look has used up its reference: the next pass writes it.
    file_freed_next = Pass(machine, 1).Run();
  });
  machine.Run();
  CHECK(freed == 0);
  CHECK(anon_seen);
  CHECK(anon_active);
  CHECK(file_seen);
  CHECK_FALSE(file_active);
  CHECK(file_dirty);
  CHECK_FALSE(file_writeback);
  CHECK(file_freed_next == 0);
  CHECK(machine.Stat(ZoneStat::kNrVmscanWrite) == 1);
  CHECK(PageCache::DiskStamp(file, 1) == 6);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("PageListPass: a congested disk is written to by kswapd, pdflush and file writers alone",
          "[mm][page_cache]") {
  SwapMachineOptions options;
  options.disk.nr_requests = 8;
  options.disk.positioning_ns = 500'000'000;
  SwapMachine machine(options);
  File& file = NewFile(machine, 64);
  File& other = NewFile(machine, 8);
  const auto [flags, writes] = GENERATE(
      table<std::uint32_t, std::int64_t>({{0U, 0}, {PF_SWAPWRITE, 1}, {kTaskWritesFile, 1}}));
  std::int64_t submitted = -1;
  bool congested = false;
  machine.Run([&, flag = flags] {
    OpenFile open(file);
    for (std::uint32_t page = 0; page < 20; page += 2) WriteFilePage(machine.mm, open, page, 1);
    WritebackControl control{.nonblocking = true};
    machine.mm.page_cache->flusher().WriteInodes(control);
    congested = control.encountered_congestion;
    OpenFile second(other);
    WriteFilePage(machine.mm, second, 0, 2);
    machine.mm.frames[FrameOf(other, 0)].Clear(kPageReferenced);
    Pass pass(machine, 32);
    const std::int64_t before = machine.mm.page_cache->writeback_pages();
    Task& self = Current();
    self.flags |= flag;
    // Only the page of the other file is of interest: those of the first are referenced or under
    // writeback.
    pass.Run();
    self.flags &= ~flag;
    submitted = machine.mm.page_cache->writeback_pages() - before;
  });
  CHECK(congested);
  CHECK(submitted == writes);
  CHECK(machine.Wrong() == "");
}

// --- content ---

TEST_CASE("PageCache: a file larger than memory keeps every page through eviction and re-read",
          "[mm][page_cache]") {
  SwapMachineOptions options;
  options.kind = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  options.kib_per_node = 8 * 1024;
  options.time_limit = 3000 * kSecond;
  constexpr std::uint32_t kPages = 4000;  // twice the memory
  SwapMachine machine(options);
  File& file = NewFile(machine, kPages);
  std::int64_t lost = 0;
  std::int64_t failed = 0;
  const RunResult run = machine.Run([&] {
    OpenFile open(file);
    for (std::uint32_t page = 0; page < kPages; ++page) {
      if (page % 3 == 0 && WriteFilePage(machine.mm, open, page, page + 1) != FileResult::kOk)
        ++failed;
    }
    for (std::uint32_t page = 0; page < kPages; ++page) {
      const std::uint64_t expected = page % 3 == 0 ? page + 1 : OnDisk(page);
      if (ReadOne(machine, open, page) != expected) ++lost;
    }
  });
  CHECK(run.end == RunEnd::kDone);
  CHECK(lost == 0);
  CHECK(failed == 0);
  CHECK(machine.mm.page_cache->cached_pages() < 2000);
  CHECK(machine.Event(VmEvent::kPswpout) == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("PageCache: truncation drops dirty pages unwritten and frees them", "[mm][page_cache]") {
  SwapMachine machine;
  File& file = NewFile(machine, 100);
  std::int64_t dirty = -1;
  machine.Run([&] {
    OpenFile open(file);
    for (std::uint32_t page = 0; page < 40; ++page) WriteFilePage(machine.mm, open, page, 9);
    dirty = machine.mm.page_cache->dirty_pages();
    machine.mm.page_cache->Truncate(file);
  });
  CHECK(dirty == 40);
  CHECK(machine.mm.page_cache->cached_pages() == 0);
  CHECK(machine.Stat(ZoneStat::kNrDirty) == 0);
  CHECK(machine.Stat(ZoneStat::kNrFilePages) == 0);
  CHECK(machine.Stat(ZoneStat::kNrInactive) + machine.Stat(ZoneStat::kNrActive) == 0);
  CHECK(machine.Event(VmEvent::kPgpgout) == 0);
  CHECK(PageCache::DiskStamp(file, 3) == OnDisk(3));
  CHECK(machine.Wrong() == "");
}

TEST_CASE("PageCache: a machine cut off in the middle of I/O leaves nothing locked or half counted",
          "[mm][page_cache]") {
  SwapMachineOptions options;
  options.kind = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  options.kib_per_node = 8 * 1024;
  options.disk.positioning_ns = 3'000'000;
  options.time_limit = Ns{GENERATE(take(4, random(20'000'000, 500'000'000)))};
  CAPTURE(options.time_limit.n);
  SwapMachine machine(options);
  File& read = NewFile(machine, 5000);
  File& write = NewFile(machine, 5000);
  for (int i = 0; i < 3; ++i) {
    machine.Spawn("user", [&, i](TaskMm&) {
      OpenFile in(read);
      OpenFile out(write);
      Rng rng = machine.engine.seeds().Stream("user", i);
      for (;;) {
        ReadOne(machine, in, static_cast<std::uint32_t>(rng.Below(5000)));
        WriteFilePage(machine.mm, out, static_cast<std::uint32_t>(rng.Below(5000)), 1);
      }
    });
  }
  const RunResult run = machine.Run();
  CHECK(run.end == RunEnd::kTimeLimit);
  CHECK(machine.mm.CheckInvariants(/*expect_idle=*/false) == "");
  std::int64_t busy = 0;
  for (FrameNo n = 0; n < machine.mm.frames.end(); ++n) {
    if (machine.mm.frames[n].Test(kPageLocked | kPageWriteback)) ++busy;
  }
  CHECK(busy == 0);
  CHECK(machine.mm.page_cache->writeback_pages() == 0);
}

// --- random operations beside a dumb model ---

struct ModelFile {
  ModelFile(SwapMachine& owner, std::int64_t count)
      : machine(owner), file(NewFile(owner, count)), pages(static_cast<std::uint32_t>(count)) {}

  void Live(std::int64_t number, int steps) {
    Rng rng = machine.engine.seeds().Stream("model", number);
    OpenFile open(file);
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t dice = rng.Below(100);
      const auto page = static_cast<std::uint32_t>(rng.Below(pages));
      if (dice < 40) {
        const std::uint64_t stamp = rng.Next() | 1;
        if (WriteFilePage(machine.mm, open, page, stamp) == FileResult::kOk) model[page] = stamp;
      } else if (dice < 70) {
        Check(open, page);
      } else if (dice < 97) {
        const std::uint32_t from = open.next;
        for (std::uint32_t i = from; i < std::min(from + 24, pages); ++i) Check(open, i);
        if (open.next >= pages) open.next = 0;
      } else if (dice < 99) {
        WritebackControl control{.nr_to_write = rng.Between(1, 200)};
        machine.mm.page_cache->flusher().WriteInodes(control);
      } else {
        SleepFor({rng.Between(1'000, 50'000'000)});
      }
    }
    for (std::uint32_t page = 0; page < pages; ++page) Check(open, page);
  }
  void Check(OpenFile& open, std::uint32_t page) {
    const auto found = model.find(page);
    const std::uint64_t expected = found == model.end() ? OnDisk(page) : found->second;
    if (ReadOne(machine, open, page) != expected) ++lost;
  }

  SwapMachine& machine;
  File& file;
  const std::uint32_t pages;
  std::map<std::uint32_t, std::uint64_t> model;
  std::int64_t lost = 0;
};

TEST_CASE("PageCache: files hold what a map holds, under memory pressure",
          "[mm][page_cache][model]") {
  SwapMachineOptions options;
  options.kind = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  options.policy.reclaim.split_lru = GENERATE(false, true);
  options.seed = GENERATE(take(3, random(1U, 0xffff'ffffU)));
  options.kib_per_node = 6 * 1024;
  options.cpus = 3;
  options.disk.positioning_ns = 20'000;
  options.time_limit = 5000 * kSecond;
  CAPTURE(options.seed, options.kind, options.policy.reclaim.split_lru);
  SwapMachine machine(options);
  std::deque<ModelFile> files;
  for (int i = 0; i < 3; ++i) files.emplace_back(machine, 900);
  for (int i = 0; i < 3; ++i) {
    machine.Spawn("user",
                  [&files, i](TaskMm&) { files[static_cast<std::size_t>(i)].Live(i, 300); });
  }
  const RunResult run = machine.Run();
  CHECK(run.end == RunEnd::kDone);
  for (const ModelFile& file : files) {
    CHECK(file.lost == 0);
    for (const auto& [page, stamp] : file.model) {
      if (machine.mm.page_cache->PeekStamp(file.file, page) != stamp) FAIL("page " << page);
    }
  }
  CHECK(machine.mm.oom->kills() == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("PageCache: the same seed gives the same run", "[mm][page_cache]") {
  const auto once = [] {
    SwapMachineOptions options;
    options.kib_per_node = 6 * 1024;
    options.seed = 42;
    SwapMachine machine(options);
    std::deque<ModelFile> files;
    for (int i = 0; i < 2; ++i) files.emplace_back(machine, 1500);
    for (int i = 0; i < 2; ++i) {
      machine.Spawn("user",
                    [&files, i](TaskMm&) { files[static_cast<std::size_t>(i)].Live(i, 200); });
    }
    const RunResult run = machine.Run();
    return std::pair(run.trace_hash, run.emulated);
  };
  CHECK(once() == once());
}

}  // namespace
}  // namespace pagestorm::mm
