// Writers of file pages are made to wait: balance_dirty_pages of 2.6.26.
//
// A writer counts the pages it dirties on its CPU. Every RatelimitPages() of them, or 8 while the
// disk is over its limit, it looks at the limits: above, it writes pages itself and naps; above the
// background limit, it wakes the flusher. Simplification: the disk's share of the dirty limit
// follows its share of recent writes among all disks with files; there is one, so its share is the
// whole limit.
// Source: spec throttle-2.6.26 2.23.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/units.h"
#include "mm/memory_manager.h"
#include "mm/relaxed.h"

namespace pagestorm::mm {

class PageCache;

// vm_total_pages / (32 * CPUs), at least 16 pages and at most 4 MiB.
[[nodiscard]] std::int64_t RatelimitPages(std::int64_t vm_total_pages, std::size_t online_cpus,
                                          PageShift shift);

class DirtyThrottle {
 public:
  DirtyThrottle(MemoryManager& mm, PageCache& cache);

  // balance_dirty_pages_ratelimited: the running task has dirtied one page. May write, and nap for
  // HZ/10 again and again. No page lock is held.
  void BalanceRatelimited();
  // balance_dirty_pages. Returns how often it napped.
  std::int64_t Balance();

  [[nodiscard]] std::int64_t ratelimit() const { return ratelimit_; }
  // Pages a writer writes itself at most, each time it is over the limit.
  [[nodiscard]] std::int64_t write_chunk() const { return ratelimit_ + ratelimit_ / 2; }
  [[nodiscard]] bool exceeded() const { return exceeded_.load(std::memory_order_relaxed); }
  struct Counts {
    std::int64_t checks = 0;   // looks at the limits
    std::int64_t naps = 0;     // of HZ/10
    std::int64_t written = 0;  // pages, by throttled writers
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct alignas(64) PerCpu {
    Relaxed<std::int64_t> dirtied = 0;
  };

  MemoryManager& mm_;
  PageCache& cache_;
  const std::int64_t ratelimit_;
  std::vector<PerCpu> cpus_;  // by CpuId
  std::atomic<bool> exceeded_{false};
  std::atomic<std::int64_t> checks_{0};
  std::atomic<std::int64_t> naps_{0};
  std::atomic<std::int64_t> written_{0};
};

}  // namespace pagestorm::mm
