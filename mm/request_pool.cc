#include "mm/request_pool.h"

#include <mutex>

#include "core/check.h"

namespace pagestorm::mm {

namespace {
constexpr std::int32_t kBatchRequests = 32;
}

RequestPool::RequestPool(Engine& engine, std::int64_t nr_requests, Ns batch_time)
    : nr_requests_(nr_requests),
      on_(nr_requests - nr_requests / 8 + 1),
      off_(nr_requests - nr_requests / 8 - nr_requests / 16 - 1),
      batch_time_(batch_time),
      mu_(engine.kind()),
      sides_{Side(engine, "a free read request (get_request_wait)"),
             Side(engine, "a free write request (get_request_wait)")} {}

void RequestPool::Take(IoDirection direction) {
  // The first two looks come before the first sleep (core/wait_queue.h); every later one follows a
  // wake-up.
  int looks = 0;
  SideOf(direction).wait.Wait([&] { return TryTake(direction, ++looks > 2); }, {.exclusive = true});
}

void RequestPool::TakeWithoutSleeping(IoDirection direction) {
  std::lock_guard guard(mu_);
  Side& side = SideOf(direction);
  const std::int64_t count = side.count.load(std::memory_order_relaxed) + 1;
  side.count.store(count, std::memory_order_relaxed);
  if (count >= on_) side.congested.store(true, std::memory_order_relaxed);
}

bool RequestPool::TryTake(IoDirection direction, bool after_sleep) {
  std::lock_guard guard(mu_);
  Side& side = SideOf(direction);
  Batch& batch = BatchOf(Current());
  if (after_sleep) StartBatch(batch);
  const std::int64_t count = side.count.load(std::memory_order_relaxed);
  if (count + 1 >= nr_requests_) {
    if (!side.full) {
      side.full = true;
      StartBatch(batch);
    } else if (!Batching(batch)) {
      return false;
    }
  }
  if (count + 1 >= on_) side.congested.store(true, std::memory_order_relaxed);
  if (count >= nr_requests_ * 3 / 2) return false;
  side.count.store(count + 1, std::memory_order_relaxed);
  if (Batching(batch)) --batch.left;
  return true;
}

bool RequestPool::Release(IoDirection direction) {
  Side& side = SideOf(direction);
  bool wake = false;
  bool below_off = false;
  {
    std::lock_guard guard(mu_);
    const std::int64_t count = side.count.load(std::memory_order_relaxed) - 1;
    PS_CHECK(count >= 0);
    side.count.store(count, std::memory_order_relaxed);
    below_off = count < off_;
    if (below_off) side.congested.store(false, std::memory_order_relaxed);
    if (count + 1 <= nr_requests_) {
      side.full = false;
      wake = true;
    }
  }
  if (wake) side.wait.WakeOne();
  return below_off;
}

bool RequestPool::Batching(const Batch& batch) const {
  // The first one is free of the time limit, as in the kernel.
  return batch.left == kBatchRequests || (batch.left > 0 && Now().n < batch.until);
}

void RequestPool::StartBatch(Batch& batch) const {
  if (Batching(batch)) return;
  batch.left = kBatchRequests;
  batch.until = Now().n + batch_time_.n;
}

RequestPool::Batch& RequestPool::BatchOf(const Task& task) {
  const auto id = static_cast<std::size_t>(task.id.n);
  if (id >= batches_.size()) batches_.resize(id + 1 + id / 2);
  return batches_[id];
}

std::int64_t RequestPool::outstanding(IoDirection direction) const {
  return SideOf(direction).count.load(std::memory_order_relaxed);
}
bool RequestPool::congested(IoDirection direction) const {
  return SideOf(direction).congested.load(std::memory_order_relaxed);
}
std::int64_t RequestPool::sleepers(IoDirection direction) const {
  return SideOf(direction).wait.WaitersRacy();
}

}  // namespace pagestorm::mm
