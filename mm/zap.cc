#include "mm/zap.h"

#include <mutex>

#include "mm/pagevec.h"
#include "mm/rmap.h"
#include "mm/swap.h"

namespace pagestorm::mm {

bool ZapBatch::Zap(Area& area, std::uint32_t page, Pte replacement) {
  MmStruct& space = area.space;
  Pte pte;
  bool last = false;
  {
    std::lock_guard guard(space.pt_lock);
    pte = area.Get(page);
    area.Set(page, replacement);
    if (pte.present()) last = mm_.rmap->RemovePte(pte.frame());
  }
  if (pte.swapped()) {
    space.swapped.fetch_sub(1, std::memory_order_relaxed);
    mm_.swap->FreeAndForget(pte.slot());
    return true;
  }
  if (!pte.present()) return false;
  Charge({mm_.costs.pte_ns});
  space.rss.fetch_sub(1, std::memory_order_relaxed);
  if (last) mm_.rmap->AccountMapped(pte.frame(), -1);
  frames_[count_++] = pte.frame();
  if (count_ == frames_.size()) Flush();
  return true;
}

void ZapBatch::Flush() {
  for (std::size_t i = 0; i < count_; ++i) mm_.swap->ForgetUnmapped(frames_[i]);
  ReleasePages(mm_, {frames_.data(), count_});
  count_ = 0;
}

}  // namespace pagestorm::mm
