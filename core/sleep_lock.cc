#include "core/sleep_lock.h"

#include <mutex>

#include "core/check.h"

namespace pagestorm {

bool SleepMutex::TryTake() {
  std::int32_t free = 0;
  return owner_.compare_exchange_strong(free, Current().id.n, std::memory_order_acquire);
}

bool SleepMutex::try_lock() { return TryTake(); }

void SleepMutex::lock() {
  PS_CHECK(owner() != Current().id, "a sleeping mutex is taken twice by one task");
  queue_.Wait([this] { return TryTake(); }, {.exclusive = true, .holder = owner()});
}

void SleepMutex::unlock() {
  PS_CHECK(owner() == Current().id, "a sleeping mutex is released by a task that does not hold it");
  owner_.store(0, std::memory_order_release);
  queue_.WakeOne();
}

bool RwSem::TryShared(bool ignore_waiting_writers) {
  std::lock_guard guard(mu_);
  if (writer_.n != 0 || (writers_waiting_ > 0 && !ignore_waiting_writers)) return false;
  ++readers_;
  return true;
}

bool RwSem::TryExclusive() {
  std::lock_guard guard(mu_);
  if (writer_.n != 0 || readers_ > 0) return false;
  writer_ = Current().id;
  return true;
}

bool RwSem::try_lock_shared() { return TryShared(/*ignore_waiting_writers=*/false); }

void RwSem::lock_shared() {
  if (TryShared(/*ignore_waiting_writers=*/false)) return;
  // Once queued, a reader competes on equal terms: otherwise a stream of writers would starve it.
  queue_.Wait([this] { return TryShared(/*ignore_waiting_writers=*/true); }, {.at_tail = true});
}

void RwSem::unlock_shared() {
  bool last = false;
  {
    std::lock_guard guard(mu_);
    PS_CHECK(readers_ > 0);
    last = --readers_ == 0;
  }
  if (last) queue_.WakeAll();
}

void RwSem::lock() {
  if (TryExclusive()) return;
  struct Announce {
    RwSem& sem;
    explicit Announce(RwSem& s) : sem(s) {
      std::lock_guard guard(sem.mu_);
      ++sem.writers_waiting_;
    }
    ~Announce() {
      std::lock_guard guard(sem.mu_);
      --sem.writers_waiting_;
    }
  } announce(*this);
  queue_.Wait([this] { return TryExclusive(); }, {.at_tail = true});
}

void RwSem::unlock() {
  {
    std::lock_guard guard(mu_);
    PS_CHECK(writer_ == Current().id);
    writer_ = {};
  }
  queue_.WakeAll();
}

}  // namespace pagestorm
