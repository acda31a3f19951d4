// The order in which one disk serves its queue: merging, one-way sweeps (C-LOOK), and a time slice
// each for reads (synchronous) and writes (asynchronous), as CFQ gives them.
//
// Not thread-safe: the disk's queue lock guards it. Simplification: two queued requests that become
// adjacent stay two (they are served one after the other without positioning).
// Source: spec kswapd-4.11 6.5.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/units.h"
#include "mm/block_device.h"
#include "mm/page_frame.h"

namespace pagestorm::mm {

// Contiguous pages of one transfer.
struct IoRequest {
  IoDirection direction = IoDirection::kRead;
  std::uint64_t first = 0;  // sector page of frames[0]
  std::vector<FrameNo> frames;
  Ns arrived;  // when it was queued

  [[nodiscard]] std::uint64_t end() const { return first + frames.size(); }
};

class Elevator {
 public:
  struct Options {
    std::int64_t max_request_pages = 320;
    Ns read_slice{100 * kMillisecond.n};
    Ns write_slice{40 * kMillisecond.n};
  };
  explicit Elevator(const Options& options) : options_(options) {}

  // Adds the page at the end or the front of a queued request. False: none is adjacent, or all
  // such are at their maximum.
  [[nodiscard]] bool Merge(IoDirection direction, std::uint64_t sector, FrameNo frame);
  // Queues a request of one page.
  void Add(IoDirection direction, std::uint64_t sector, FrameNo frame, Ns now);
  // Takes the request to serve next off the queue; nullopt when it is empty.
  std::optional<IoRequest> Next(Ns now);

  [[nodiscard]] std::size_t queued() const { return queue_[0].size() + queue_[1].size(); }

 private:
  using Queue = std::multimap<std::uint64_t, IoRequest>;  // by first sector

  [[nodiscard]] Queue& QueueOf(IoDirection d) { return queue_[static_cast<std::size_t>(d)]; }
  IoDirection Choose(Ns now);

  const Options options_;
  Queue queue_[2];
  std::uint64_t head_ = 0;  // the sweep goes on here
  IoDirection turn_ = IoDirection::kRead;
  std::int64_t turn_ends_ = 0;
};

}  // namespace pagestorm::mm
