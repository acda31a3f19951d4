// One rotating disk: a request queue with merging, a service model, and completions on a device
// task. Source: spec throttle-2.6.26 2.22 (pool of requests), 2.23 (congestion), kswapd-4.11 6.5
// (service).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/engine.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

enum class IoDirection : std::uint8_t { kRead, kWrite };

class BlockDevice {
 public:
  virtual ~BlockDevice() = default;
  // Queues I/O of one page at `sector_page` (page-sized blocks on the device). Merges with a queued
  // neighbour; otherwise takes a request from the pool of its direction and sleeps while that is
  // empty (get_request_wait) unless ReclaimPolicy::submission_blocks is off. Throws Cancelled at
  // shutdown, then without having queued the page.
  virtual void Submit(IoDirection direction, std::uint64_t sector_page, FrameNo frame) = 0;
  [[nodiscard]] virtual bool Congested(IoDirection direction) const = 0;
  // Requests outstanding (queued, being served, or just granted); racy.
  [[nodiscard]] virtual std::int64_t InFlight(IoDirection direction) const = 0;
  [[nodiscard]] virtual std::string Describe() const = 0;  // for stall reports
  // The body of the device's task, a daemon. At shutdown it completes all that is queued, so that
  // no page stays locked or under writeback; what is submitted later completes at once.
  virtual void Run() = 0;
  struct Counts {
    std::int64_t requests = 0, pages = 0, seeks = 0;  // served
    Ns busy;
  };
  [[nodiscard]] virtual Counts counts() const = 0;
  // What completes a page: set once by Swap (and the page cache) before the first I/O. Runs on the
  // device's task; must not sleep.
  std::function<void(IoDirection, std::uint64_t sector_page, FrameNo)> on_complete;
};

std::unique_ptr<BlockDevice> MakeDisk(MemoryManager& mm);

}  // namespace pagestorm::mm
