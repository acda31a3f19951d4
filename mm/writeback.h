// Congestion naps, dirty limits, and the nap of reclaimers while too much is under writeback.
// Source: spec throttle-2.6.26 2.23.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/wait_queue.h"
#include "mm/block_device.h"
#include "mm/gfp.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

// Pages, machine-wide. A writer above `background` wakes the flusher; above `dirty` it writes
// itself.
struct DirtyLimits {
  std::int64_t background = 0;
  std::int64_t dirty = 0;
};

// The limits for so many dirtyable pages: free + LRU + 1, which isolated pages are missing from.
// The dirty ratio is used as at least 5 %; a background limit that is not below the dirty one
// becomes half of it.
[[nodiscard]] DirtyLimits DirtyLimitsFor(std::int64_t dirtyable, const DirtyPolicy& policy);

inline constexpr Ns kCongestionNap{kSecond.n / 10};  // HZ / 10, the naps of reclaim and writeback

class Writeback {
 public:
  explicit Writeback(MemoryManager& mm);

  // congestion_wait: sleeps until a request of that direction is released while its queue is below
  // the off-threshold, or for `timeout`: all of it if no I/O is in flight. Uninterruptible.
  void CongestionWait(IoDirection direction, Ns timeout);
  // The disk calls it for every request it releases while the outstanding ones are below the
  // off-threshold (103 of 128), whether or not the queue was flagged congested. Wakes every napper
  // of that direction.
  void NoteReleased(IoDirection direction);

  // throttle_vm_writeout, at the end of every zone shrink: naps of HZ/10 while unstable and
  // writeback pages exceed 110 % of the dirty limit. A caller without __GFP_IO or __GFP_FS naps
  // once at most.
  void ThrottleVmWriteout(Gfp gfp);
  [[nodiscard]] DirtyLimits Limits() const;

  struct Naps {
    std::int64_t congestion = 0;  // congestion_wait calls, those below included
    std::int64_t writeout = 0;    // of throttle_vm_writeout
  };
  [[nodiscard]] Naps naps() const;

 private:
  MemoryManager& mm_;
  std::array<WaitQueue, 2> queues_;  // by IoDirection
  std::atomic<std::int64_t> congestion_naps_{0};
  std::atomic<std::int64_t> writeout_naps_{0};
};

}  // namespace pagestorm::mm
