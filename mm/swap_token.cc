#include "mm/swap_token.h"

#include "mm/mm_struct.h"

namespace pagestorm::mm {

void SwapToken::Grab(MmStruct& space) {
  if (!lock_.try_lock()) return;
  ++misses_;
  const std::int64_t interval = misses_ - space.fault_stamp;
  MmStruct* holder = holder_.load(std::memory_order_relaxed);
  if (holder == nullptr || holder == &space) {
    space.token_priority += 2;
    holder_.store(&space, std::memory_order_relaxed);
  } else {
    if (interval < space.last_interval) {
      ++space.token_priority;
    } else if (space.token_priority > 0) {
      --space.token_priority;
    }
    if (space.token_priority > holder->token_priority) {
      space.token_priority += 2;
      holder_.store(&space, std::memory_order_relaxed);
    }
  }
  space.fault_stamp = misses_;
  space.last_interval = interval;
  lock_.unlock();
}

void SwapToken::Drop() {
  if (holder_.load(std::memory_order_relaxed) == nullptr) return;
  SpinGuard guard(lock_);
  holder_.store(nullptr, std::memory_order_relaxed);
}

void SwapToken::Release(const MmStruct& space) {
  if (!Has(space)) return;
  SpinGuard guard(lock_);
  if (Has(space)) holder_.store(nullptr, std::memory_order_relaxed);
}

}  // namespace pagestorm::mm
