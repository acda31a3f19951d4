#include "mm/fault.h"

#include <mutex>
#include <optional>

#include "core/check.h"
#include "mm/frame_ref.h"
#include "mm/memcg.h"
#include "mm/oom.h"
#include "mm/page_lock.h"
#include "mm/rmap.h"
#include "mm/swap.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {

AccessResult Faults::Do(MmStruct& space, std::uint32_t page, Access access, std::uint64_t* stamp) {
  while (!TryAccess(space, page, access, stamp)) {
    const Outcome outcome = Handle(space, page, access);
    Count(space, outcome);
    if (outcome == Outcome::kOom) {
      const auto* self = static_cast<const TaskMm*>(Current().mm);
      if (self == nullptr || !self->is_init) {
        mm_.dmesg->Print("VM: killing process " + CommOf(Current()));
        return AccessResult::kOom;
      }
      Yield();  // init waits until there is memory
    }
    ReturnToUser();
  }
  return AccessResult::kOk;
}

bool Faults::TryAccess(MmStruct& space, std::uint32_t page, Access access, std::uint64_t* stamp) {
  std::lock_guard guard(space.pt_lock);
  Area* area = space.AreaAt(page);
  PS_CHECK(area != nullptr, "access outside every area");
  const Pte pte = area->Get(page);
  PS_CHECK(!pte.Has(Pte::kUnmapped), "access to an unmapped page");
  if (!pte.present()) return false;
  if (access == Access::kRead) {
    if (!pte.Has(Pte::kYoung)) area->Set(page, pte.With(Pte::kYoung));
    *stamp = mm_.frames.Stamp(pte.frame());
    return true;
  }
  if (!pte.Has(Pte::kWritable)) return false;
  area->Set(page, pte.With(Pte::kYoung | Pte::kDirty));
  mm_.frames.SetStamp(pte.frame(), *stamp);
  return true;
}

void Faults::Count(MmStruct& space, Outcome outcome) {
  const bool major = outcome == Outcome::kMajor;
  (major ? space.major_faults : space.minor_faults).fetch_add(1, std::memory_order_relaxed);
  Task& task = Current();
  if (auto* self = static_cast<TaskMm*>(task.mm)) {
    (major ? self->major_faults : self->minor_faults).fetch_add(1, std::memory_order_relaxed);
    self->last_cpu.store(task.cpu->id.n, std::memory_order_relaxed);
  }
}

Faults::Outcome Faults::Handle(MmStruct& space, std::uint32_t page, Access access) {
  mm_.vmstat->Count(VmEvent::kPgfault);
  Charge({mm_.costs.fault_ns});
  MmapReadGuard guard(space);
  Area* area = space.AreaAt(page);
  PS_CHECK(area != nullptr, "access outside every area");
  const Pte pte = area->Get(page);
  if (pte.none()) return FirstTouch(*area, page);
  if (pte.swapped()) return SwapIn(*area, page, pte, access);
  if (pte.present() && access == Access::kWrite && !pte.Has(Pte::kWritable)) {
    return WriteShared(*area, page, pte);
  }
  return Outcome::kMinor;  // another thread was faster
}

// Sets the pte of a new frame, whose reference becomes the pte's, and sends it to the LRU.
// `replaced`: the frame the pte maps now, which loses it; kNoFrame: none. False: the pte has
// changed meanwhile.
bool Faults::MapNew(Area& area, std::uint32_t page, FrameNo n, FrameNo replaced) {
  MmStruct& space = area.space;
  Rmap& rmap = *mm_.rmap;
  rmap.AnonVmaOf(area);
  rmap.Prepare(n, area, page);
  bool last = false;
  {
    std::lock_guard guard(space.pt_lock);
    const Pte pte = area.Get(page);
    const bool same = replaced == kNoFrame
                          ? pte.none()
                          : pte.present() && pte.frame() == replaced && !pte.Has(Pte::kWritable);
    if (!same) return false;
    PS_CHECK(rmap.AddPte(n));
    area.Set(page, Pte::Frame(n, Pte::kWritable | Pte::kDirty | Pte::kYoung));
    if (replaced != kNoFrame) last = rmap.RemovePte(replaced);
  }
  rmap.AccountMapped(n, 1);
  mm_.pagevecs->AddActive(n);
  if (last) rmap.AccountMapped(replaced, -1);
  if (replaced == kNoFrame) {
    space.rss.fetch_add(1, std::memory_order_relaxed);
  } else {
    ReleasePage(mm_, replaced);
  }
  return true;
}

Faults::Outcome Faults::FirstTouch(Area& area, std::uint32_t page) {
  const std::optional<FrameNo> n =
      AllocCharged(mm_, GFP_HIGHUSER_MOVABLE | __GFP_ZERO, &area.space, ChargeAs::kAnon);
  if (!n) return Outcome::kOom;
  FrameRef ref(mm_, *n);
  mm_.frames.SetStamp(*n, 0);
  if (MapNew(area, page, *n, kNoFrame)) ref.Release();
  return Outcome::kMinor;
}

// Makes the pte writable if it still maps `n`.
bool Faults::Reuse(Area& area, std::uint32_t page, FrameNo n) {
  std::lock_guard guard(area.space.pt_lock);
  const Pte pte = area.Get(page);
  if (!pte.present() || pte.frame() != n) return false;
  area.Set(page, pte.With(Pte::kWritable | Pte::kDirty | Pte::kYoung));
  return true;
}

Faults::Outcome Faults::WriteShared(Area& area, std::uint32_t page, Pte pte) {
  const FrameNo old = pte.frame();
  {
    // A reference of our own before reclaim can take the pte's away.
    std::lock_guard guard(area.space.pt_lock);
    const Pte now = area.Get(page);
    if (!now.present() || now.frame() != old) return Outcome::kMinor;
    mm_.frames[old].refcount.fetch_add(1, std::memory_order_relaxed);
  }
  FrameRef ref(mm_, old);
  bool only_user = false;
  if (mm_.page_locks->Trylock(old)) {
    PageLockGuard lock(*mm_.page_locks, old, PageLockGuard::Already::kLocked);
    only_user = mm_.swap->OnlyUser(old);
  }
  if (only_user && Reuse(area, page, old)) return Outcome::kMinor;
  return Copy(area, page, old);
}

// The caller has a reference to `old`, which is write-protected in every pte, so its content stays.
Faults::Outcome Faults::Copy(Area& area, std::uint32_t page, FrameNo old) {
  const std::optional<FrameNo> n =
      AllocCharged(mm_, GFP_HIGHUSER_MOVABLE, &area.space, ChargeAs::kAnon);
  if (!n) return Outcome::kOom;
  FrameRef ref(mm_, *n);
  Charge({mm_.costs.page_copy_ns});
  mm_.frames.SetStamp(*n, mm_.frames.Stamp(old));
  if (MapNew(area, page, *n, old)) ref.Release();
  return Outcome::kMinor;
}

Faults::Outcome Faults::SwapIn(Area& area, std::uint32_t page, Pte pte, Access access) {
  MmStruct& space = area.space;
  bool major = false;
  const std::optional<FrameNo> n = mm_.swap->SwapIn(pte.slot(), space, major);
  const Outcome done = major ? Outcome::kMajor : Outcome::kMinor;
  if (!n) return area.Get(page) == pte ? Outcome::kOom : done;
  FrameRef ref(mm_, *n);
  bool writable = false;
  {
    PageLockGuard lock(*mm_.page_locks, *n, PageLockGuard::Already::kLocked);
    writable = access == Access::kWrite && mm_.swap->OnlyUser(*n);
    bool first = false;
    {
      std::lock_guard guard(space.pt_lock);
      if (area.Get(page) != pte) return done;
      // Before the pte: who finds that finds the list. The frame is locked and was mapped by
      // nobody, or by a relative with the same list and page.
      mm_.rmap->Prepare(*n, area, page);
      first = mm_.rmap->AddPte(*n);
      const std::uint64_t bits = writable ? Pte::kWritable | Pte::kDirty : 0;
      area.Set(page, Pte::Frame(*n, Pte::kYoung | bits));
    }
    if (first) mm_.rmap->AccountMapped(*n, 1);
    space.rss.fetch_add(1, std::memory_order_relaxed);
    space.swapped.fetch_sub(1, std::memory_order_relaxed);
    ref.Release();  // the pte's
    mm_.swap->Free(pte.slot());
    if (mm_.swap->Full()) mm_.swap->TryToFreeSlot(*n);
  }
  if (access == Access::kWrite && !writable) {
    if (WriteShared(area, page, Pte::Frame(*n, 0)) == Outcome::kOom) return Outcome::kOom;
  }
  return done;
}

}  // namespace pagestorm::mm
