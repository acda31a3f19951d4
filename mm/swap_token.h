// The swap token: its holder's pages count as referenced, so that one task at least makes progress.
//
// The first to miss the swap cache takes it if it is free. Each miss compares the time (in misses
// of all) since the space's last one with its previous interval: shorter raises its priority, else
// it falls; above the holder's priority it takes the token, with 2 on top, as a holder gets that
// misses again. Whoever finds the lock busy does without.  Source: spec throttle-2.6.26 2.22.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/spin_lock.h"

namespace pagestorm::mm {

struct MmStruct;

class SwapToken {
 public:
  explicit SwapToken(Engine& engine) : lock_(engine, LockRank::kSwapToken, "swap_token_lock") {}

  // grab_swap_token, at every miss of the swap cache.
  void Grab(MmStruct& space);
  // Nobody has it: reclaim at priority 0, zone_reclaim.
  void Drop();
  // At exit: `space` has it no longer.
  void Release(const MmStruct& space);
  [[nodiscard]] bool Has(const MmStruct& space) const {
    return holder_.load(std::memory_order_relaxed) == &space;
  }

 private:
  SpinLock lock_;  // guards misses_ and the token fields of spaces; to write: holder_
  std::int64_t misses_ = 0;
  std::atomic<MmStruct*> holder_{nullptr};
};

}  // namespace pagestorm::mm
