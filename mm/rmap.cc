#include "mm/rmap.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/check.h"
#include "mm/mm_struct.h"
#include "mm/oom.h"
#include "mm/swap.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {
namespace {

// A walk without the page lock may read these while a fault maps the frame again: the list's lock
// and the pte then tell whether what was read is of use.
std::uint32_t Read(std::uint32_t& field) {
  return std::atomic_ref(field).load(std::memory_order_relaxed);
}
void Write(std::uint32_t& field, std::uint32_t value) {
  std::atomic_ref(field).store(value, std::memory_order_relaxed);
}

constexpr std::uint16_t kMapcountMax = 60'000;

}  // namespace

Rmap::Rmap(MemoryManager& mm) : mm_(mm), anon_vmas_(mm.engine) {}

std::unique_ptr<Rmap> MakeRmap(MemoryManager& mm) { return std::make_unique<Rmap>(mm); }

// --- mapping and unmapping ---

void Rmap::Prepare(FrameNo n, const Area& area, std::uint32_t page) {
  PageFrame& frame = mm_.frames[n];
  Write(frame.owner, area.anon_vma.load(std::memory_order_acquire)->id);
  Write(frame.index, page);
  Write(frame.mapper, area.member.load(std::memory_order_relaxed) + 1);
  frame.Set(kPageAnon | kPageSwapBacked | kPageUptodate);
}

bool Rmap::AddPte(FrameNo n) {
  const std::uint16_t before = mm_.frames[n].mapcount.fetch_add(1, std::memory_order_acq_rel);
  PS_CHECK(before < kMapcountMax, "too many address spaces map one page");
  return before == 0;
}

bool Rmap::RemovePte(FrameNo n) {
  const std::uint16_t before = mm_.frames[n].mapcount.fetch_sub(1, std::memory_order_acq_rel);
  PS_CHECK(before > 0);
  return before == 1;
}

void Rmap::AccountMapped(FrameNo n, std::int64_t pages) {
  mm_.vmstat->Add(mm_.frames[n].zone(), ZoneStat::kNrAnonPages, pages);
}

AnonVma& Rmap::AnonVmaOf(Area& area) {
  AnonVma* list = area.anon_vma.load(std::memory_order_acquire);
  if (list != nullptr) return *list;
  AnonVma& fresh = anon_vmas_.Take();
  {
    std::lock_guard guard(area.space.pt_lock);
    list = area.anon_vma.load(std::memory_order_relaxed);
    if (list == nullptr) area.anon_vma.store(&fresh, std::memory_order_release);
  }
  if (list == nullptr) {
    anon_vmas_.Join(fresh, area);
    return fresh;
  }
  anon_vmas_.Return(fresh);  // another thread of this address space was first
  return *list;
}

// --- walks ---

// The frame's list if it is mapped; its lock is to be taken and the same asked again.
AnonVma* Rmap::ListOf(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  if (!frame.Test(kPageAnon) || frame.mapcount.load(std::memory_order_acquire) == 0) {
    return nullptr;
  }
  const AnonVmaId id = Read(frame.owner);
  return id == 0 ? nullptr : &anon_vmas_.Get(id);
}

void Rmap::ChargeWalk(const AnonVma& list) const {
  Charge({mm_.costs.rmap_vma_ns * std::max<std::int64_t>(1, list.live / 2)});
}

// Calls visit(area) for areas of the list until all ptes of the frame were met or it returns kStop.
// visit says kNotMapped if that area does not map the frame. List's lock held.
template <class F>
void Rmap::ForEachPte(AnonVma& list, FrameNo n, F visit) {
  PageFrame& frame = mm_.frames[n];
  const std::uint32_t page = Read(frame.index);
  int left = frame.mapcount.load(std::memory_order_acquire);
  const std::uint32_t hint = Read(frame.mapper);
  if (left == 1 && hint >= 1 && hint <= list.members.size()) {
    Area* area = list.members[hint - 1];
    if (area != nullptr && area->Contains(page) && visit(*area) != Visit::kNotMapped) return;
  }
  for (std::size_t i = 0; i < list.members.size() && left > 0; ++i) {
    Area* area = list.members[i];
    if (area == nullptr || !area->Contains(page)) continue;
    const Visit result = visit(*area);
    if (result == Visit::kNotMapped) continue;
    // Others were unmapped since: this one is the mapper to find next time.
    if (left == 1) Write(frame.mapper, static_cast<std::uint32_t>(i + 1));
    if (result == Visit::kStop) return;
    --left;
  }
}

int Rmap::Referenced(FrameNo n, bool /*page_locked*/) {
  PageFrame& frame = mm_.frames[n];
  int referenced = frame.TestAndClear(kPageReferenced) ? 1 : 0;
  AnonVma* list = ListOf(n);
  if (list == nullptr) return referenced;
  SpinGuard guard(list->lock);
  if (ListOf(n) != list) return referenced;
  ChargeWalk(*list);
  ForEachPte(*list, n, [&](Area& area) { return LookAt(area, n, referenced); });
  return referenced;
}

Rmap::Visit Rmap::LookAt(Area& area, FrameNo n, int& referenced) const {
  MmStruct& space = area.space;
  const std::uint32_t page = Read(mm_.frames[n].index);
  {
    std::lock_guard guard(space.pt_lock);
    const Pte pte = area.Get(page);
    if (!pte.present() || pte.frame() != n) return Visit::kNotMapped;
    if (pte.Has(Pte::kYoung)) {
      area.Set(page, pte.Without(Pte::kYoung));
      ++referenced;
    }
  }
  const auto* self = static_cast<const TaskMm*>(Current().mm);
  const bool own = self != nullptr && self->space == &space;
  if (!own && mm_.swap->token().Has(space) &&
      space.mmap_sem_holders.load(std::memory_order_relaxed) > 0) {
    ++referenced;
  }
  return Visit::kGoOn;
}

UnmapResult Rmap::TryToUnmap(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageLocked));
  bool failed = false;
  AnonVma* list = ListOf(n);
  if (list != nullptr) {
    PS_CHECK(frame.Test(kPageSwapCache), "an anonymous page without a slot is unmapped");
    SpinGuard guard(list->lock);
    if (ListOf(n) == list) {
      ChargeWalk(*list);
      ForEachPte(*list, n, [&](Area& area) { return UnmapFrom(area, n, failed); });
    }
  }
  if (failed) return UnmapResult::kFail;
  return frame.mapcount.load(std::memory_order_acquire) == 0 ? UnmapResult::kSuccess
                                                             : UnmapResult::kAgain;
}

Rmap::Visit Rmap::UnmapFrom(Area& area, FrameNo n, bool& failed) {
  PageFrame& frame = mm_.frames[n];
  MmStruct& space = area.space;
  const std::uint32_t page = Read(frame.index);
  const auto maps = [n](Pte pte) { return pte.present() && pte.frame() == n; };
  if (!maps(area.Get(page))) return Visit::kNotMapped;
  const SwapSlot slot = frame.priv - 1;
  mm_.swap->Duplicate(slot);  // for the pte; before its lock, a leaf, is held
  Charge({mm_.costs.pte_ns});
  Pte pte;
  bool last = false;
  {
    std::lock_guard guard(space.pt_lock);
    pte = area.Get(page);
    if (maps(pte) && pte.Has(Pte::kYoung)) {
      area.Set(page, pte.Without(Pte::kYoung));
    } else if (maps(pte)) {
      area.Set(page, Pte::Slot(slot));
      last = RemovePte(n);
    }
  }
  if (!maps(pte) || pte.Has(Pte::kYoung)) {
    mm_.swap->Free(slot);
    if (!maps(pte)) return Visit::kNotMapped;
    failed = true;
    return Visit::kStop;
  }
  if (pte.Has(Pte::kDirty)) frame.Set(kPageDirty);
  space.rss.fetch_sub(1, std::memory_order_relaxed);
  space.swapped.fetch_add(1, std::memory_order_relaxed);
  if (last) AccountMapped(n, -1);
  // The pte's reference; the cache and the caller have theirs.
  const std::uint16_t before = frame.refcount.fetch_sub(1, std::memory_order_acq_rel);
  PS_CHECK(before > 1);
  return Visit::kGoOn;
}

}  // namespace pagestorm::mm
