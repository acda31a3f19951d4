#include "mm/fork.h"

#include <mutex>
#include <utility>

#include "core/check.h"
#include "mm/rmap.h"
#include "mm/swap.h"

namespace pagestorm::mm {
namespace {

constexpr std::int64_t kPtesAtOnce = 32;  // between yields, as in the kernel
constexpr std::uint16_t kRefcountMax = 60'000;

// Returns whether there was anything to copy.
bool CopyPte(MemoryManager& mm, Area& from, Area& to, std::uint32_t page) {
  for (;;) {
    Pte pte = from.Get(page);
    if (pte.none()) return false;
    if (pte.swapped()) {
      // Only a fault of the parent could change it, and mmap_sem keeps those out.
      mm.swap->Duplicate(pte.slot());
      to.space.swapped.fetch_add(1, std::memory_order_relaxed);
      to.Set(page, pte);
      return true;
    }
    if (!pte.present()) {
      to.Set(page, pte);
      return false;
    }
    std::lock_guard guard(from.space.pt_lock);
    pte = from.Get(page);
    if (!pte.present()) continue;  // swapped out just now
    const std::uint16_t before =
        mm.frames[pte.frame()].refcount.fetch_add(1, std::memory_order_relaxed);
    PS_CHECK(before < kRefcountMax, "too many address spaces share one page");
    PS_CHECK(!mm.rmap->AddPte(pte.frame()));
    from.Set(page, pte.Without(Pte::kWritable));
    to.Set(page, pte.Without(Pte::kWritable | Pte::kYoung));
    to.space.rss.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
}

void CopyPtes(MemoryManager& mm, Area& from, Area& to) {
  std::int64_t copied = 0;
  for (std::uint32_t page = from.first; page < from.first + from.pages; ++page) {
    if (!CopyPte(mm, from, to, page) || ++copied % kPtesAtOnce != 0) continue;
    Charge({mm.costs.fork_pte_ns * kPtesAtOnce});
    CondResched();
  }
  Charge({mm.costs.fork_pte_ns * (copied % kPtesAtOnce)});
}

}  // namespace

void CopyAreas(MemoryManager& mm, MmStruct& parent, MmStruct& child) {
  child.next_page = parent.next_page;
  for (const auto& from : parent.areas) {
    auto copy = std::make_unique<Area>(child, from->first, from->pages);
    copy->mapped = from->mapped;
    Area& to = *copy;
    child.total_vm.fetch_add(from->mapped, std::memory_order_relaxed);
    child.areas.push_back(std::move(copy));
    AnonVma* list = from->anon_vma.load(std::memory_order_acquire);
    if (list != nullptr) {
      to.anon_vma.store(list, std::memory_order_release);
      mm.rmap->anon_vmas().Join(*list, to);
    }
    CopyPtes(mm, *from, to);
  }
}

}  // namespace pagestorm::mm
