// A booted machine whose pages belong to the test: for the tests of reclaim.
//
// Zones, allocator, LRU, gate, kswapd and slab are the real ones. In place of swap and reverse
// mapping stand FakeOwners: pages with a "pte" each, swap slots without number, and a device that
// takes a fixed time a page.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/fifo_scheduler.h"
#include "core/make_engine.h"
#include "core/wait_queue.h"
#include "mm/memory_manager.h"
#include "mm/shrink_list.h"

namespace pagestorm::mm {

class FakeOwners final : public PageOwners {
 public:
  explicit FakeOwners(MemoryManager& mm)
      : mm_(mm),
        mu_(mm.engine.kind()),
        work_(mm.engine, "fake device"),
        room_(mm.engine, "fake room") {}

  // What the device does with a write: takes io_time a page, one after the other; the writer sleeps
  // while max_writes are under way (0: no bound).
  Ns io_time{100'000};
  std::size_t max_writes = 0;
  bool swap_full = false;
  bool congested = false;
  UnmapResult unmap = UnmapResult::kSuccess;
  WriteResult write = WriteResult::kSubmitted;
  std::set<FrameNo> always_referenced;
  std::set<FrameNo> with_buffers;
  bool buffers_stick = false;
  bool file_is_mapped = false;
  std::atomic<std::int64_t> writes{0};
  std::atomic<std::int64_t> removed{0};
  std::function<void()> look;               // called at the first question about a page
  std::vector<std::string>* log = nullptr;  // what was asked, in order; virtual engine

  int Referenced(FrameNo n, bool page_locked) override;
  bool HasMapping(FrameNo n) override;
  bool FileIsMapped(FrameNo) override { return file_is_mapped; }
  bool AddToSwapLocked(FrameNo n) override;
  UnmapResult TryToUnmapLocked(FrameNo n) override;
  bool MayWrite(FrameNo) override { return !congested; }
  WriteResult WriteLocked(FrameNo n) override;
  bool HasBuffers(FrameNo n) override { return with_buffers.contains(n); }
  bool ReleaseBuffersLocked(FrameNo n) override;
  bool RemoveMappingLocked(FrameNo n) override;

  // The device's task.
  void RunDevice();
  [[nodiscard]] std::size_t under_way() const { return under_way_.load(); }

 private:
  void Log(const char* what) {
    if (log != nullptr) log->emplace_back(what);
  }
  MemoryManager& mm_;
  RawLock mu_;
  std::deque<FrameNo> queue_;  // mu_
  std::atomic<std::size_t> under_way_{0};
  WaitQueue work_;
  WaitQueue room_;
};

struct ReclaimMachineOptions {
  EngineKind engine = EngineKind::kVirtual;
  std::uint64_t seed = 1;
  int nodes = 1;
  int cpus_per_node = 2;
  // ia64 has a single zone on a node below 4 GiB.
  numa::Arch arch = numa::Arch::kIa64;
  std::int64_t mib_per_node = 64;  // of 4 KiB pages
  bool sync_in_cs = false;
  std::int64_t slab_reclaimable_pages = 0;
  Ns time_limit{kNever};
  MmPolicy policy{};
  MmCosts costs{};
};

class ReclaimMachine {
 public:
  explicit ReclaimMachine(const ReclaimMachineOptions& options = {});
  ~ReclaimMachine();

  // Runs `body` as a task of the machine until it returns, and everything it spawned.
  RunResult Run(std::function<void()> body);
  // Spawns another task, from the body or before Run().
  Task& Spawn(const std::string& name, std::function<void()> body, std::uint32_t flags = 0);

  // --- inside tasks ---

  // A page on an LRU list, mapped by one "pte" (whose reference it has) if anon. kNoFrame: no
  // memory.
  enum class Kind { kAnon, kCleanFile, kDirtyFile };
  FrameNo AddPage(Kind kind, bool active = false, bool mapped = true);
  // Adds `count` of them, flushes the pagevecs and folds the counters: exact lists for arithmetic.
  std::vector<FrameNo> AddPages(std::int64_t count, Kind kind, bool active = false,
                                bool mapped = true);
  // Unmaps and frees a page (its owner exits), wherever it is.
  void DropPage(FrameNo n);
  void Fold();
  [[nodiscard]] std::int64_t Stat(ZoneStat stat, std::size_t zone = 0) const;

  FifoScheduler scheduler;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<MemoryManager> mm;
  FakeOwners* owners = nullptr;
  [[nodiscard]] Zone& zone(std::size_t ordinal = 0) { return *mm->zones[ordinal]; }
};

}  // namespace pagestorm::mm
