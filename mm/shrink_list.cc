#include "mm/shrink_list.h"

#include "mm/page_alloc.h"
#include "mm/page_cache.h"
#include "mm/pagevec.h"
#include "mm/swap.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

// References of a page that nobody uses: its mapping's and the isolator's.
constexpr int kFreeableReferences = 2;

class RealOwners final : public PageOwners {
 public:
  explicit RealOwners(MemoryManager& mm) : mm_(mm) {}
  int Referenced(FrameNo n, bool page_locked) override {
    return mm_.rmap->Referenced(n, page_locked);
  }
  bool HasMapping(FrameNo n) override {
    return mm_.frames[n].Test(kPageSwapCache) || PageCache::Holds(mm_.frames[n]);
  }
  bool AddToSwapLocked(FrameNo n) override { return mm_.swap->AddToSwap(n); }
  UnmapResult TryToUnmapLocked(FrameNo n) override { return mm_.rmap->TryToUnmap(n); }
  // The swap device never reports congestion: its writers may block.
  bool MayWrite(FrameNo n) override {
    return !PageCache::Holds(mm_.frames[n]) || mm_.page_cache->MayWrite();
  }
  WriteResult WriteLocked(FrameNo n) override {
    if (PageCache::Holds(mm_.frames[n])) {
      mm_.page_cache->WritePage(n);
      return WriteResult::kSubmitted;
    }
    return mm_.swap->WritePage(n) ? WriteResult::kSubmitted : WriteResult::kNotNeeded;
  }
  bool RemoveMappingLocked(FrameNo n) override {
    return PageCache::Holds(mm_.frames[n]) ? mm_.page_cache->RemoveForReclaim(n)
                                           : mm_.swap->RemoveForReclaim(n);
  }

 private:
  MemoryManager& mm_;
};

}  // namespace

std::unique_ptr<PageOwners> MakePageOwners(MemoryManager& mm) {
  return std::make_unique<RealOwners>(mm);
}

class PageListPass::FreeingBatch {
 public:
  explicit FreeingBatch(MemoryManager& mm) : mm_(mm) {}
  ~FreeingBatch() { Flush(); }
  FreeingBatch(const FreeingBatch&) = delete;
  FreeingBatch& operator=(const FreeingBatch&) = delete;
  void Add(FrameNo n) {
    frames_[count_++] = n;
    if (count_ == frames_.size()) Flush();
  }

 private:
  void Flush() {
    for (std::size_t i = 0; i < count_; ++i) mm_.allocator->Free(frames_[i], 0, /*cold=*/true);
    count_ = 0;
  }
  MemoryManager& mm_;
  std::array<FrameNo, kPagevecSize> frames_{};
  std::size_t count_ = 0;
};

std::int64_t PageListPass::Run(BatchEntries& entries) {
  FreeingBatch freeing(mm_);
  std::int64_t freed = 0;
  std::int64_t activated = 0;
  for (BatchEntry& entry : entries) {
    if (mm_.policy.reclaim.resched_while_isolating) CondResched();
    entry.activate = false;
    VisiblePin pin(mm_, entry.frame);
    if (!pin.usable()) continue;
    switch (Judge(entry.frame)) {
      case Verdict::kFree: {
        const FrameNo n = entry.frame;
        entry.frame = kNoFrame;
        ++freed;
        if (mm_.policy.reclaim.isolated_visible) {
          pin.Drop(/*cold=*/true);
        } else {
          zone_.lru->NoteFreed(n);
          freeing.Add(n);
        }
        break;
      }
      case Verdict::kActivate:
        entry.activate = true;
        ++activated;
        break;
      case Verdict::kKeep:
      case Verdict::kGoOn:
        break;
    }
  }
  if (activated > 0) mm_.vmstat->Count(VmEvent::kPgactivate, activated);
  return freed;
}

bool PageListPass::InUse(const PageFrame& frame, FrameNo n) {
  if (frame.mapcount.load(std::memory_order_relaxed) > 0 || frame.Test(kPageSwapCache)) return true;
  return owners_.HasMapping(n) && owners_.FileIsMapped(n);
}

PageListPass::Verdict PageListPass::Judge(FrameNo n) {
  Charge({mm_.costs.page_list_ns});
  PageFrame& frame = mm_.frames[n];
  if (!mm_.page_locks->Trylock(n)) return Verdict::kKeep;  // row 1
  PageLockGuard lock(*mm_.page_locks, n, PageLockGuard::Already::kLocked);
  ++sc_.nr_scanned;
  const bool mapped = frame.mapcount.load(std::memory_order_relaxed) > 0;
  if (!sc_.may_swap && mapped) return Verdict::kKeep;  // row 2
  if (mapped || frame.Test(kPageSwapCache)) ++sc_.nr_scanned;
  may_enter_fs_ =
      (sc_.gfp & __GFP_FS) != 0 || (frame.Test(kPageSwapCache) && (sc_.gfp & __GFP_IO) != 0);
  if (frame.Test(kPageWriteback)) {  // row 3
    ++sc_.pages.writeback;
    if (frame.Test(kPageReclaim)) ++sc_.pages.immediate;
    if (!sync_ || !may_enter_fs_) return Verdict::kKeep;
    mm_.page_locks->WaitOnWriteback(n);
  }
  const bool referenced = owners_.Referenced(n, /*page_locked=*/true) > 0;
  if (sc_.order <= kPageAllocCostlyOrder && referenced && InUse(frame, n)) {
    return Verdict::kActivate;  // row 4
  }
  if (const Verdict verdict = Detach(frame, n); verdict != Verdict::kGoOn) return verdict;
  if (const Verdict verdict = Clean(frame, n, referenced, lock); verdict != Verdict::kGoOn) {
    return verdict;
  }
  return Take(frame, n);
}

// Gives an anonymous page a place in swap and takes it out of every page table.
PageListPass::Verdict PageListPass::Detach(PageFrame& frame, FrameNo n) {
  const bool split = mm_.policy.reclaim.split_lru;
  if (frame.Test(kPageAnon) && !frame.Test(kPageSwapCache)) {  // row 5
    if (split && (sc_.gfp & __GFP_IO) == 0) return Verdict::kKeep;
    if (!owners_.AddToSwapLocked(n)) return Verdict::kActivate;
    frame.Set(kPageDirty);
    if (split) may_enter_fs_ = true;
  }
  if (frame.mapcount.load(std::memory_order_relaxed) == 0 || !owners_.HasMapping(n)) {
    return Verdict::kGoOn;
  }
  switch (owners_.TryToUnmapLocked(n)) {
    case UnmapResult::kFail:
      return Verdict::kActivate;  // row 6
    case UnmapResult::kAgain:
      return Verdict::kKeep;  // row 7
    case UnmapResult::kSuccess:
      break;
  }
  return Verdict::kGoOn;
}

PageListPass::Verdict PageListPass::Clean(PageFrame& frame, FrameNo n, bool referenced,
                                          PageLockGuard& lock) {
  if (!frame.Test(kPageDirty)) return Verdict::kGoOn;
  ++sc_.pages.dirty;
  if (sc_.order <= kPageAllocCostlyOrder && referenced) return Verdict::kKeep;  // row 8
  if (!may_enter_fs_) return Verdict::kKeep;                                    // row 9
  if (!sc_.may_writepage) return Verdict::kKeep;                                // row 10
  return Pageout(frame, n, lock);
}

PageListPass::Verdict PageListPass::Pageout(PageFrame& frame, FrameNo n, PageLockGuard& lock) {
  const int buffers = owners_.HasBuffers(n) ? 1 : 0;
  const int references = frame.refcount.load(std::memory_order_acquire) - buffers;
  if (references != kFreeableReferences || !owners_.HasMapping(n) || !owners_.MayWrite(n)) {
    ++sc_.pages.congested;
    return Verdict::kKeep;
  }
  if (!frame.TestAndClear(kPageDirty)) return Verdict::kGoOn;  // somebody else cleaned it
  frame.Set(kPageReclaim);
  ++sc_.nr_io_pages;
  lock.Release();  // the write unlocks it, also when it is cut short by Cancelled
  const WriteResult result = owners_.WriteLocked(n);
  if (result != WriteResult::kSubmitted) lock.Adopt(*mm_.page_locks);
  switch (result) {
    case WriteResult::kActivate:
      frame.Clear(kPageReclaim);
      return Verdict::kActivate;
    case WriteResult::kNoOp:
      frame.Clear(kPageReclaim);
      frame.Set(kPageDirty);
      return Verdict::kActivate;
    case WriteResult::kNotNeeded:
      frame.Clear(kPageReclaim);
      frame.Set(kPageDirty);
      mm_.vmstat->Add(zone_.ordinal, ZoneStat::kNrVmscanWrite, 1);
      return Verdict::kKeep;  // row 12: dirty again
    case WriteResult::kSubmitted:
      break;
  }
  mm_.vmstat->Add(zone_.ordinal, ZoneStat::kNrVmscanWrite, 1);
  if (sync_ && frame.Test(kPageWriteback)) mm_.page_locks->WaitOnWriteback(n);
  return AfterWrite(frame, n, lock);
}

PageListPass::Verdict PageListPass::AfterWrite(PageFrame& frame, FrameNo n, PageLockGuard& lock) {
  if (frame.Test(kPageWriteback | kPageDirty)) return Verdict::kKeep;  // row 12
  if (!mm_.page_locks->Trylock(n)) return Verdict::kKeep;              // row 13
  lock.Adopt(*mm_.page_locks);
  frame.Clear(kPageReclaim);
  return frame.Test(kPageWriteback | kPageDirty) ? Verdict::kKeep : Verdict::kGoOn;
}

PageListPass::Verdict PageListPass::Take(PageFrame& frame, FrameNo n) {
  if (owners_.HasBuffers(n)) {
    if (!owners_.ReleaseBuffersLocked(n)) return Verdict::kActivate;  // row 14
    if (!owners_.HasMapping(n) && frame.refcount.load(std::memory_order_acquire) == 1) {
      return Verdict::kFree;  // row 15
    }
  }
  if (!owners_.HasMapping(n) || !owners_.RemoveMappingLocked(n)) return Verdict::kKeep;  // row 16
  return Verdict::kFree;                                                                 // row 17
}

}  // namespace pagestorm::mm
