// The emulated kernel's sleeping locks: a mutex and a read-write semaphore over wait queues.
//
// They stand outside the spin-lock ranks, are never taken under a spin lock, and may be held across
// a whole reclaim. A holder is known by name to the wait-for report. Every lock() throws Cancelled
// at shutdown.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "core/wait_queue.h"

namespace pagestorm {

class ABSL_LOCKABLE SleepMutex {
 public:
  SleepMutex(Engine& engine, const char* name, std::int64_t number = 0)
      : queue_(engine, name, number) {}

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  [[nodiscard]] bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true);
  void unlock() ABSL_UNLOCK_FUNCTION();
  // Id of the holder, 0 if free; racy.
  [[nodiscard]] TaskId owner() const { return {owner_.load(std::memory_order_relaxed)}; }

 private:
  bool TryTake();

  std::atomic<std::int32_t> owner_{0};  // TaskId; 0: free
  WaitQueue queue_;
};

class ABSL_SCOPED_LOCKABLE SleepGuard {
 public:
  explicit SleepGuard(SleepMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~SleepGuard() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  SleepGuard(const SleepGuard&) = delete;
  SleepGuard& operator=(const SleepGuard&) = delete;

 private:
  SleepMutex& mutex_;
};

// Many readers or one writer. A waiting writer keeps new readers out (as the kernel's rwsem does).
class RwSem {
 public:
  RwSem(Engine& engine, const char* name, std::int64_t number = 0)
      : mu_(engine.kind()), queue_(engine, name, number) {}

  void lock_shared();
  [[nodiscard]] bool try_lock_shared();
  void unlock_shared();
  void lock();
  void unlock();

 private:
  bool TryShared(bool ignore_waiting_writers);
  bool TryExclusive();

  RawLock mu_;  // guards the three below
  std::int32_t readers_ = 0;
  std::int32_t writers_waiting_ = 0;
  TaskId writer_;  // 0: none
  WaitQueue queue_;
};

}  // namespace pagestorm
