#include "mm/page_lock.h"

#include <algorithm>
#include <bit>

namespace pagestorm::mm {
namespace {

// One queue for every four frames: thousands of tasks can wait for swap-in at once, each for a page
// of its own, and a wake should seldom meet another page's sleeper.
constexpr std::size_t kQueuesMin = 64;
constexpr std::size_t kQueuesMax = 16384;

std::size_t QueuesFor(std::size_t frames) {
  return std::bit_ceil(std::clamp(frames / 4, kQueuesMin, kQueuesMax));
}

}  // namespace

PageLocks::PageLocks(Engine& engine, FrameTable& frames) : frames_(frames) {
  const std::size_t count = QueuesFor(frames.end());
  for (std::size_t i = 0; i < count; ++i) {
    queues_.emplace_back(engine, "page lock", static_cast<std::int64_t>(i));
  }
  mask_ = count - 1;
}

WaitQueue& PageLocks::QueueOf(FrameNo n) {
  const std::uint32_t hash = n * 0x9e3779b1U;
  return queues_[(hash >> 16 ^ hash) & mask_];
}

// Conditions announce themselves in the flags before they look for the last time: the releaser
// clears its bit and kPageWaiters together, so either it sees the announcement or the waiter sees
// the release.
void PageLocks::Lock(FrameNo n) {
  if (Trylock(n)) return;
  PageFrame& frame = frames_[n];
  const auto take = [this, &frame, n] {
    if (Trylock(n)) return true;
    frame.Set(kPageWaiters);
    return Trylock(n);
  };
  QueueOf(n).Wait(take, {.exclusive = true});
}

void PageLocks::WaitUntilClear(FrameNo n, std::uint32_t bit) {
  PageFrame& frame = frames_[n];
  const auto clear = [&frame, bit] {
    if (!frame.Test(bit)) return true;
    frame.Set(kPageWaiters);
    return !frame.Test(bit);
  };
  QueueOf(n).Wait(clear);
}

void PageLocks::WaitOnWriteback(FrameNo n) { WaitUntilClear(n, kPageWriteback); }
void PageLocks::WaitOnLocked(FrameNo n) { WaitUntilClear(n, kPageLocked); }

void PageLocks::ClearAndWake(FrameNo n, std::uint32_t bit) {
  const std::uint32_t old =
      frames_[n].flags.fetch_and(~(bit | kPageWaiters), std::memory_order_acq_rel);
  PS_CHECK((old & bit) != 0, "released a page lock or writeback that nobody holds");
  if ((old & kPageWaiters) != 0) QueueOf(n).WakeAll();
}

void PageLocks::Unlock(FrameNo n) { ClearAndWake(n, kPageLocked); }
void PageLocks::EndWriteback(FrameNo n) { ClearAndWake(n, kPageWriteback); }

}  // namespace pagestorm::mm
