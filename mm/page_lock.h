// The sleeping lock of a page (PG_locked) and the wait for its writeback to end.
//
// Both are bits in PageFrame::flags; who has to wait sleeps on one of a table of queues shared by
// all frames (the kernel's hashed wait tables). kPageWaiters says that somebody may be asleep, so
// that the common unlock touches no queue. A queue's sleepers are all woken and look at their own
// frame again. Thread-safe. Not part of the lock ranks: never waited for under a spin lock, held
// across reclaim and I/O. Source: spec throttle-2.6.26 3.4 (page lock).
#pragma once

#include <cstddef>
#include <deque>

#include "core/engine.h"
#include "core/wait_queue.h"
#include "mm/page_frame.h"

namespace pagestorm::mm {

class PageLocks {
 public:
  // frames: mapped before the first call; outlives this.
  PageLocks(Engine& engine, FrameTable& frames);

  // Takes the page lock if it is free.
  [[nodiscard]] bool Trylock(FrameNo n) { return !frames_[n].TestAndSet(kPageLocked); }
  // Sleeps, uninterruptibly, until the lock is ours. Throws Cancelled at shutdown.
  void Lock(FrameNo n);
  // By whoever holds it, not necessarily the task that took it: I/O completion unlocks what it
  // read.
  void Unlock(FrameNo n);
  // Sleeps until the page is not under writeback. It may be again by the time the caller looks.
  void WaitOnWriteback(FrameNo n);
  // Sleeps until the page is unlocked, without taking the lock.
  void WaitOnLocked(FrameNo n);
  // Clears kPageWriteback and wakes who waits for it. Counters and rotation are the caller's.
  void EndWriteback(FrameNo n);

 private:
  [[nodiscard]] WaitQueue& QueueOf(FrameNo n);
  void ClearAndWake(FrameNo n, std::uint32_t bit);
  void WaitUntilClear(FrameNo n, std::uint32_t bit);

  FrameTable& frames_;
  std::deque<WaitQueue> queues_;  // a power of two of them
  std::size_t mask_ = 0;
};

// Holds a page lock for a scope. Release() hands it on: to I/O, which unlocks at completion.
class PageLockGuard {
 public:
  enum class Already { kLocked };
  PageLockGuard(PageLocks& locks, FrameNo n) : locks_(&locks), frame_(n) { locks.Lock(n); }
  PageLockGuard(PageLocks& locks, FrameNo n, Already) : locks_(&locks), frame_(n) {}
  ~PageLockGuard() { Unlock(); }
  PageLockGuard(const PageLockGuard&) = delete;
  PageLockGuard& operator=(const PageLockGuard&) = delete;

  [[nodiscard]] bool held() const { return locks_ != nullptr; }
  void Release() { locks_ = nullptr; }
  // The same page is locked again and ours.
  void Adopt(PageLocks& locks) { locks_ = &locks; }
  void Unlock() {
    if (locks_ == nullptr) return;
    PageLocks* locks = locks_;
    locks_ = nullptr;
    locks->Unlock(frame_);
  }

 private:
  PageLocks* locks_;
  FrameNo frame_;
};

}  // namespace pagestorm::mm
