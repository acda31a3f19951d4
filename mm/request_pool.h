// The fixed pool of request structures of one block device: what makes a writer sleep in
// submission.
//
// Reads and writes have separate pools of nr_requests. From `on` requests outstanding a direction
// is congested, below `off` it is not any more. Who takes the last request becomes a batcher, as
// does everyone who has slept for one: for 32 requests or HZ/50 it may exceed the pool, up to 3/2
// of it. Source: spec throttle-2.6.26 2.22, 2.23; kswapd-4.11 6.4.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/engine.h"
#include "core/wait_queue.h"
#include "mm/block_device.h"

namespace pagestorm::mm {

class RequestPool {
 public:
  RequestPool(Engine& engine, std::int64_t nr_requests, Ns batch_time);

  // Takes a request; sleeps while there is none for this task (get_request_wait), uninterruptibly.
  // Throws Cancelled at shutdown, without a request.
  void Take(IoDirection direction);
  // Takes one in any case; the pool may be exceeded.
  void TakeWithoutSleeping(IoDirection direction);
  // Gives one back and wakes one sleeper if a request is free for it. Returns whether the direction
  // is below its off threshold now: then waiters for the end of congestion are to be woken.
  bool Release(IoDirection direction);

  [[nodiscard]] std::int64_t outstanding(IoDirection direction) const;
  [[nodiscard]] bool congested(IoDirection direction) const;
  [[nodiscard]] std::int64_t sleepers(IoDirection direction) const;
  [[nodiscard]] std::int64_t on_threshold() const { return on_; }
  [[nodiscard]] std::int64_t off_threshold() const { return off_; }

 private:
  struct Side {
    Side(Engine& engine, const char* name) : wait(engine, name) {}
    std::atomic<std::int64_t> count{0};
    std::atomic<bool> congested{false};
    bool full = false;  // the last request is gone: only batchers get more
    WaitQueue wait;
  };
  // What a task may still take from an exhausted pool.
  struct Batch {
    std::int32_t left = 0;
    std::int64_t until = 0;
  };

  bool TryTake(IoDirection direction, bool after_sleep);
  bool Batching(const Batch& batch) const;
  void StartBatch(Batch& batch) const;
  Batch& BatchOf(const Task& task);
  [[nodiscard]] Side& SideOf(IoDirection d) { return sides_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] const Side& SideOf(IoDirection d) const {
    return sides_[static_cast<std::size_t>(d)];
  }

  const std::int64_t nr_requests_;
  const std::int64_t on_;
  const std::int64_t off_;
  const Ns batch_time_;
  mutable RawLock mu_;  // guards counts, flags and batches_
  std::array<Side, 2> sides_;
  std::vector<Batch> batches_;  // by task id
};

}  // namespace pagestorm::mm
