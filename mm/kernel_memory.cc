#include "mm/kernel_memory.h"

#include <algorithm>
#include <mutex>

#include "core/check.h"
#include "mm/page_alloc.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {

std::optional<FrameNo> AllocKernelPage(MemoryManager& mm, int node) {
  const std::optional<FrameNo> n = mm.allocator->Alloc(GFP_KERNEL, 0, node);
  if (!n) return std::nullopt;
  mm.frames[*n].Set(kPageSlab);
  mm.vmstat->Add(mm.frames[*n].zone(), ZoneStat::kNrSlabUnreclaimable, 1);
  return n;
}

void FreeKernelPage(MemoryManager& mm, FrameNo n) {
  mm.vmstat->Add(mm.frames[n].zone(), ZoneStat::kNrSlabUnreclaimable, -1);
  mm.frames[n].Clear(kPageSlab);
  mm.frames[n].priv = 0;
  mm.allocator->Free(n, 0, /*cold=*/false);
}

bool KernelPages::Alloc(MemoryManager& mm, const AddressSpaces::Kernel& wanted, int node) {
  PS_CHECK(blocks_.empty());
  mm_ = &mm;
  struct Undo {
    KernelPages& pages;
    bool complete = false;
    ~Undo() {
      if (!complete) pages.Free();
    }
  } undo{*this};
  bool complete = Take(Use::kStack, wanted.stack_order, node);
  for (int i = 0; complete && i < wanted.page_tables; ++i)
    complete = Take(Use::kPageTable, 0, node);
  for (int i = 0; complete && i < wanted.slab_pages; ++i) complete = Take(Use::kSlab, 0, node);
  return undo.complete = complete;
}

bool KernelPages::Take(Use use, int order, int node) {
  const Gfp gfp = use == Use::kPageTable ? GFP_KERNEL | __GFP_REPEAT | __GFP_ZERO : GFP_KERNEL;
  const std::optional<FrameNo> n = mm_->allocator->Alloc(gfp, order, node);
  if (!n) return false;
  const Block block{*n, static_cast<std::int8_t>(order), use};
  blocks_.push_back(block);
  if (use == Use::kSlab) mm_->frames[*n].Set(kPageSlab);
  Account(block, 1);
  return true;
}

void KernelPages::Account(const Block& block, std::int64_t sign) {
  const ZoneStat stat = block.use == Use::kStack       ? ZoneStat::kNrKernelStack
                        : block.use == Use::kPageTable ? ZoneStat::kNrPageTablePages
                                                       : ZoneStat::kNrSlabUnreclaimable;
  mm_->vmstat->Add(mm_->frames[block.frame].zone(), stat, sign * (std::int64_t{1} << block.order));
}

void KernelPages::Free() {
  for (const Block& block : blocks_) {
    Account(block, -1);
    mm_->frames[block.frame].Clear(kPageSlab);
    mm_->allocator->Free(block.frame, block.order, /*cold=*/false);
  }
  blocks_.clear();
}

ObjectCache::ObjectCache(MemoryManager& mm, std::int64_t objects_per_page)
    : mm_(mm),
      per_page_(static_cast<std::uint32_t>(objects_per_page)),
      mu_(mm.engine.kind()),
      current_(mm.engine.cpu_count(), kNoFrame) {
  PS_CHECK(objects_per_page >= 1 && objects_per_page < UINT32_MAX);
}

ObjectCache::~ObjectCache() = default;

bool ObjectCache::TakeFrom(FrameNo page) {
  PageFrame& frame = mm_.frames[page];
  if (frame.priv == per_page_) return false;
  ++frame.priv;
  ++objects_;
  return true;
}

std::optional<FrameNo> ObjectCache::Alloc(int node) {
  {
    std::lock_guard guard(mu_);
    FrameNo& current = current_[static_cast<std::size_t>(CurrentCpu().id.n)];
    if (current != kNoFrame && TakeFrom(current)) return current;
    // The full page is nobody's now; its next free brings it to the partial list.
    current = partial_.PopHead(mm_.frames);
    if (current != kNoFrame && TakeFrom(current)) return current;
  }
  const std::optional<FrameNo> fresh = AllocKernelPage(mm_, node);
  if (!fresh) return std::nullopt;
  std::lock_guard guard(mu_);
  ++pages_;
  mm_.frames[*fresh].priv = 0;
  PS_CHECK(TakeFrom(*fresh));
  // This may be another CPU than before, and somebody may have found it a page meanwhile.
  FrameNo& current = current_[static_cast<std::size_t>(CurrentCpu().id.n)];
  if (per_page_ == 1) return fresh;
  if (current == kNoFrame) {
    current = *fresh;
  } else {
    partial_.PushHead(mm_.frames, *fresh);
  }
  return fresh;
}

void ObjectCache::Free(FrameNo page) {
  Charge({mm_.costs.slab_object_ns});
  bool empty = false;
  {
    std::lock_guard guard(mu_);
    PageFrame& frame = mm_.frames[page];
    PS_CHECK(frame.priv > 0 && frame.priv <= per_page_, "an object is freed twice");
    const bool was_full = frame.priv == per_page_;
    --frame.priv;
    --objects_;
    if (std::ranges::find(current_, page) == current_.end()) {
      empty = frame.priv == 0;
      if (was_full && !empty) partial_.PushHead(mm_.frames, page);
      if (!was_full && empty) partial_.Remove(mm_.frames, page);
      if (empty) --pages_;
    }
  }
  if (empty) FreeKernelPage(mm_, page);
}

void ObjectCache::Drain() {
  for (FrameNo& current : current_) {
    FrameNo page = kNoFrame;
    {
      std::lock_guard guard(mu_);
      page = current;
      current = kNoFrame;
      if (page == kNoFrame) continue;
      if (mm_.frames[page].priv > 0) {
        if (mm_.frames[page].priv < per_page_) partial_.PushHead(mm_.frames, page);
        continue;
      }
      --pages_;
    }
    FreeKernelPage(mm_, page);
  }
}

std::int64_t ObjectCache::objects() const {
  std::lock_guard guard(mu_);
  return objects_;
}
std::int64_t ObjectCache::pages() const {
  std::lock_guard guard(mu_);
  return pages_;
}

}  // namespace pagestorm::mm
