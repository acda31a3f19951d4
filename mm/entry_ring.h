// A bounded queue of LRU entries without a lock: what the generation ring is made of.
//
// Positions count upwards for ever; position p lies in slot p mod capacity. A producer reserves a
// run of positions by one fetch_add and then publishes each slot; a consumer takes up to 32 of the
// oldest by one compare-and-swap. An entry names a frame and the frame's sequence when it was
// queued; whether it still holds is the consumer's to judge.
//
// Invariants: tail <= head <= tail + capacity. A slot between them is of the lap of its position
// once it is published, and of an earlier lap until then.
// Bound: whoever pushes has seen size() <= limit() before, or puts back what it has just popped;
// each CPU does that for at most kBatch entries at a time, and tasks are not preempted in here, so
// head - tail <= limit + CPUs * kBatch == capacity. Checked on every push.
// Progress: Push() and Pop() never wait for anybody. But a producer that stops between its two
// steps hides everything behind its slots: Pop() then returns less, as if the rest were not there.
// Memory orders: a slot is published with release and read with acquire, so what the producer did
// to the frame before is seen with the entry. tail_ moves with release, and producers read it with
// acquire: a slot is overwritten only after those who emptied it have read it. head_ only hands out
// positions: relaxed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "core/check.h"
#include "core/shared_line.h"
#include "mm/page_frame.h"

namespace pagestorm::mm {

// Zeroed memory that costs the host nothing until it is touched. For types that are valid when all
// their bytes are 0, and need no destructor.
template <class T>
class ZeroedArray {
 public:
  explicit ZeroedArray(std::size_t size) : memory_(static_cast<T*>(std::calloc(size, sizeof(T)))) {
    PS_CHECK(memory_ != nullptr, "the host gives no memory for an LRU");
  }
  [[nodiscard]] T& operator[](std::size_t i) { return memory_.get()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return memory_.get()[i]; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
};

class EntryRing {
 public:
  // 32: what reclaim asks for at a time. A pagevec's 14 is less.
  static constexpr std::size_t kBatch = 32;
  static constexpr std::uint32_t kSequenceMask = (1U << 24) - 1;
  struct Entry {
    FrameNo frame = kNoFrame;
    std::uint32_t sequence = 0;  // 24 bits
  };

  // live_max: entries that can hold at the same time. look_ns: reading or writing a slot.
  EntryRing(Engine& engine, std::int64_t live_max, Ns look_ns);

  // Appends up to kBatch entries.
  void Push(std::span<const Entry> entries);
  // Takes up to kBatch of the oldest entries that are published. Returns how many.
  std::size_t Pop(std::span<Entry> out);

  // Positions in use, published or not; racy.
  [[nodiscard]] std::int64_t size() const {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    return static_cast<std::int64_t>(head_.load(std::memory_order_acquire) - tail);
  }
  // Before a push that is not a putting back, size() must have been at most this. At least twice
  // live_max: half of a ring beyond it are entries that do not hold any more.
  [[nodiscard]] std::int64_t limit() const { return limit_; }
  [[nodiscard]] std::int64_t capacity() const { return static_cast<std::int64_t>(mask_) + 1; }
  // At rest: the i-th oldest entry.
  [[nodiscard]] Entry At(std::int64_t i) const;

  [[nodiscard]] LockStats line_stats() const { return head_line_.stats() + tail_line_.stats(); }

  // Host bytes of a ring, at most.
  [[nodiscard]] static std::size_t BytesFor(std::int64_t live_max, std::size_t cpus);

 private:
  [[nodiscard]] static std::uint64_t CapacityFor(std::int64_t live_max, std::size_t cpus);
  // Differs from one lap of the ring to the next, and from the 0 of a slot never written.
  [[nodiscard]] std::uint64_t LapOf(std::uint64_t position) const {
    return ((position >> bits_) + 1) & 0xff;
  }

  const std::uint64_t mask_;
  const int bits_;
  const std::int64_t limit_;
  const Ns look_ns_;
  ZeroedArray<std::atomic<std::uint64_t>> slots_;  // lap << 56 | sequence << 32 | frame

  SharedLine head_line_;
  alignas(64) std::atomic<std::uint64_t> head_{0};  // next position to reserve
  SharedLine tail_line_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // oldest position not taken
};

}  // namespace pagestorm::mm
