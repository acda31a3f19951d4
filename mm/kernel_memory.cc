#include "mm/kernel_memory.h"

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

}  // namespace pagestorm::mm
