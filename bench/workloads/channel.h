// A data channel between processes: a socket pair or a pipe, as far as flow control and memory go.
//
// Messages are counted, not stored. A writer blocks when the queue is full, a reader while it is
// empty; the kernel memory of queued messages is real: pages taken by the writer with GFP_KERNEL
// and given back by the reader. Socket: bounded by the send buffer's charge. Pipe: bounded by its
// ring of pages. Source: spec throttle-2.6.26 3.6, workloads-and-reports 1.4.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/workloads/workload.h"
#include "core/raw_lock.h"
#include "core/wait_queue.h"
#include "mm/page_frame.h"

namespace pagestorm::bench {

struct ChannelSpec {
  std::int64_t limit_messages = 350;  // a writer blocks at this many queued messages
  std::int64_t message_bytes = 512;   // kernel memory of one queued message
  std::int64_t page_bytes = 4096;
};

class Channel {
 public:
  Channel(mm::MemoryManager& mm, const ChannelSpec& spec, std::int64_t number);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Queues `count` messages, waiting for room as often as needed. Throws Cancelled if the task is
  // killed.
  void Send(std::int64_t count);
  // Takes at least one and at most `count` messages, waiting while there is none. Returns how many.
  std::int64_t Receive(std::int64_t count);
  // The same without waiting for room or for a message; false and 0: nothing was moved.
  [[nodiscard]] bool TrySend(std::int64_t count);
  [[nodiscard]] std::int64_t TryReceive(std::int64_t count);
  // Frees what unread messages occupy. Nobody uses the channel any more.
  void Close();

 private:
  // Room for up to `count` messages is promised to the caller: queues them and keeps the promise,
  // or (unwound) gives the room back.
  void Fulfil(std::int64_t granted);
  [[nodiscard]] std::int64_t Reserve(std::int64_t count);
  [[nodiscard]] std::int64_t Take(std::int64_t count);
  void AfterTake();
  [[nodiscard]] std::int64_t PagesFor(std::int64_t messages) const;
  void FreeTo(std::int64_t pages);

  mm::MemoryManager& mm_;
  const ChannelSpec spec_;
  RawLock mu_;  // the three below
  std::int64_t queued_ = 0;
  std::int64_t reserved_ = 0;  // room promised to writers that are allocating
  std::vector<mm::FrameNo> frames_;
  WaitQueue readers_;
  WaitQueue writers_;
};

}  // namespace pagestorm::bench
