// The page-list pass: what becomes of each page of an isolated batch, by a table of 17 rows tried
// in order.
//
// The table asks PageOwners about the page: reverse mapping, swap cache, and (once there are files)
// the page cache. That interface is also where tests put their own pages. Source: spec
// throttle-2.6.26 2.15.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "mm/page_lock.h"
#include "mm/reclaim.h"
#include "mm/rmap.h"

namespace pagestorm::mm {

enum class WriteResult : std::uint8_t {
  kSubmitted,  // under way, or done; the page is unlocked
  kNotNeeded,  // nothing was written: the slot was given up; still locked, dirty again
  kActivate,   // the owner wants to keep it; still locked
  kNoOp,       // the owner cannot write; still locked
};

// Whoever stands behind a page. "Locked": the caller holds the page lock.
class PageOwners {
 public:
  virtual ~PageOwners() = default;
  // page_referenced: software bit and young ptes, all cleared; 0 if nobody used it.
  virtual int Referenced(FrameNo n, bool page_locked) = 0;
  // The page belongs to the swap cache or a file.
  virtual bool HasMapping(FrameNo n) = 0;
  // A file page's file is mapped somewhere, if not this page.
  virtual bool FileIsMapped(FrameNo) { return false; }
  virtual bool AddToSwapLocked(FrameNo n) = 0;
  virtual UnmapResult TryToUnmapLocked(FrameNo n) = 0;
  // May the caller write to the page's device now? False: it is congested and he is not one to
  // wait.
  virtual bool MayWrite(FrameNo) { return true; }
  // The dirty bit has been cleared and the reclaim bit set. May sleep for a request; unlocks before
  // that, so the page is unlocked, too, when Cancelled comes out of it.
  virtual WriteResult WriteLocked(FrameNo n) = 0;
  virtual bool HasBuffers(FrameNo) { return false; }
  virtual bool ReleaseBuffersLocked(FrameNo) { return true; }
  // Takes the page from the swap cache or file if it is clean and its references are the mapping's
  // and ours; drops the mapping's.
  virtual bool RemoveMappingLocked(FrameNo n) = 0;
};

// Those of a machine: mm.rmap and mm.swap.
std::unique_ptr<PageOwners> MakePageOwners(MemoryManager& mm);

class PageListPass {
 public:
  // sync: waits for writeback that is under way or that it starts.
  PageListPass(MemoryManager& mm, PageOwners& owners, Zone& zone, ScanControl& sc, bool sync)
      : mm_(mm), owners_(owners), zone_(zone), sc_(sc), sync_(sync) {}

  // Judges every page. Freed ones become kNoFrame entries, survivors are marked. Returns pages
  // freed. May sleep and throw Cancelled; the batch is whole at any time.
  std::int64_t Run(BatchEntries& entries);

 private:
  enum class Verdict : std::uint8_t { kKeep, kActivate, kFree, kGoOn };
  // Pages to be freed, 14 at a time, to the cold end of the per-CPU lists.
  class FreeingBatch;

  Verdict Judge(FrameNo n);
  Verdict Detach(PageFrame& frame, FrameNo n);                                       // rows 5-7
  Verdict Clean(PageFrame& frame, FrameNo n, bool referenced, PageLockGuard& lock);  // rows 8-13
  Verdict Pageout(PageFrame& frame, FrameNo n, PageLockGuard& lock);                 // rows 11-13
  Verdict AfterWrite(PageFrame& frame, FrameNo n, PageLockGuard& lock);              // rows 12, 13
  Verdict Take(PageFrame& frame, FrameNo n);                                         // rows 14-17
  [[nodiscard]] bool InUse(const PageFrame& frame, FrameNo n);

  MemoryManager& mm_;
  PageOwners& owners_;
  Zone& zone_;
  ScanControl& sc_;
  const bool sync_;
  bool may_enter_fs_ = false;  // of the page being judged
};

}  // namespace pagestorm::mm
