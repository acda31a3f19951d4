// The swap cache: which frame holds a slot's content. A dense array by slot under one lock.
//
// A cached frame has kPageSwapCache, the slot in priv (number + 1), and one reference from here.
// Simplification: the kernel's index (a radix tree) takes nodes from the emulated memory and can
// fail for want of them; this one takes none. Locks: tree_lock (kSwapCache); who removes holds the
// page lock too. Source: spec throttle-2.6.26 2.22, 3.4.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/spin_lock.h"
#include "mm/memory_manager.h"
#include "mm/swap_slots.h"

namespace pagestorm::mm {

class SwapCache {
 public:
  SwapCache(MemoryManager& mm, SwapSlot slots);

  // Enters a locked frame; false: another one is there already.
  [[nodiscard]] bool Insert(SwapSlot slot, FrameNo n);
  // The slot's frame, with a reference.
  [[nodiscard]] std::optional<FrameNo> Find(SwapSlot slot);
  enum class RemoveIf : std::uint8_t {
    kAlways,
    kNoOtherUser,       // references: the cache's and the caller's
    kNoOtherUserClean,  // and not dirty
  };
  // Takes a locked frame out and drops the cache's reference; the caller has its own. The slot's
  // use count is the caller's business. False: the condition does not hold; nothing was done.
  [[nodiscard]] bool Remove(FrameNo n, RemoveIf condition);

  [[nodiscard]] SwapSlot SlotOf(FrameNo n) const;  // of a cached frame, page lock held
  // For PeekStamp and checks, at rest.
  [[nodiscard]] FrameNo At(SwapSlot slot) const { return frames_[slot]; }

  [[nodiscard]] std::int64_t pages() const { return pages_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t added() const { return added_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t removed() const { return removed_.load(std::memory_order_relaxed); }

 private:
  MemoryManager& mm_;
  SpinLock tree_lock_;
  std::vector<FrameNo> frames_;  // by slot: tree_lock_
  std::atomic<std::int64_t> pages_{0};
  std::atomic<std::int64_t> added_{0};
  std::atomic<std::int64_t> removed_{0};
};

}  // namespace pagestorm::mm
