#include "mm/swap_cache.h"

#include "core/check.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {

SwapCache::SwapCache(MemoryManager& mm, SwapSlot slots)
    : mm_(mm),
      tree_lock_(mm.engine, LockRank::kSwapCache, "swapper_space.tree_lock"),
      frames_(slots, kNoFrame) {}

bool SwapCache::Insert(SwapSlot slot, FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageLocked) && !frame.Test(kPageSwapCache));
  SpinGuard guard(tree_lock_);
  if (frames_[slot] != kNoFrame) return false;
  frames_[slot] = n;
  frame.refcount.fetch_add(1, std::memory_order_relaxed);
  frame.priv = slot + 1;
  frame.Set(kPageSwapCache);
  mm_.vmstat->Add(frame.zone(), ZoneStat::kNrFilePages, 1);
  pages_.fetch_add(1, std::memory_order_relaxed);
  added_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::optional<FrameNo> SwapCache::Find(SwapSlot slot) {
  SpinGuard guard(tree_lock_);
  const FrameNo n = frames_[slot];
  if (n == kNoFrame) return std::nullopt;
  mm_.frames[n].refcount.fetch_add(1, std::memory_order_relaxed);
  return n;
}

SwapSlot SwapCache::SlotOf(FrameNo n) const {
  const PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageSwapCache) && frame.priv != 0);
  return frame.priv - 1;
}

bool SwapCache::Remove(FrameNo n, RemoveIf condition) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageLocked));
  SpinGuard guard(tree_lock_);
  if (frame.Test(kPageWriteback)) return false;
  if (condition != RemoveIf::kAlways && frame.refcount.load(std::memory_order_acquire) != 2) {
    return false;
  }
  if (condition == RemoveIf::kNoOtherUserClean && frame.Test(kPageDirty)) return false;
  const SwapSlot slot = SlotOf(n);
  PS_CHECK(frames_[slot] == n);
  frames_[slot] = kNoFrame;
  frame.Clear(kPageSwapCache);
  frame.priv = 0;
  frame.refcount.fetch_sub(1, std::memory_order_acq_rel);
  mm_.vmstat->Add(frame.zone(), ZoneStat::kNrFilePages, -1);
  pages_.fetch_sub(1, std::memory_order_relaxed);
  removed_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace pagestorm::mm
