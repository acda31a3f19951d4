#include "mm/swap.h"

#include <array>

#include "core/check.h"
#include "mm/frame_ref.h"
#include "mm/memcg.h"
#include "mm/page_lock.h"
#include "mm/pagevec.h"
#include "mm/throttle.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {

Swap::Swap(MemoryManager& mm)
    : mm_(mm),
      slots_(mm.engine, std::array{SwapSlots::Device{.slots = mm.config.swap.n}},
             {mm.costs.swap_slot_ns}),
      cache_(mm, slots_.end()),
      token_(mm.engine) {
  if (mm.config.stamps) stamps_ = std::make_unique<std::atomic<std::uint64_t>[]>(slots_.end());
}

Swap::~Swap() = default;

// --- reclaim ---

bool Swap::AddToSwap(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageLocked) && frame.Test(kPageAnon));
  for (;;) {
    const std::optional<SwapSlot> slot = slots_.Alloc();
    if (!slot) return false;
    if (cache_.Insert(*slot, n)) break;
    slots_.Free(*slot);  // read-ahead has entered the fresh slot meanwhile
  }
  frame.Set(kPageDirty | kPageUptodate);
  return true;
}

bool Swap::WritePage(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  if (TryToFreeSlot(n)) return false;
  const SwapSlot slot = cache_.SlotOf(n);
  if (stamps_) stamps_[slot].store(mm_.frames.Stamp(n), std::memory_order_relaxed);
  mm_.vmstat->Count(VmEvent::kPswpout);
  mm_.vmstat->Count(VmEvent::kPgpgout, ToKiB({1}, mm_.page_shift()));
  // From here on it counts as writeback, also while it waits for a request.
  frame.Set(kPageWriteback);
  mm_.vmstat->Add(frame.zone(), ZoneStat::kNrWriteback, 1);
  mm_.page_locks->Unlock(n);
  struct Submission {
    Swap& swap;
    FrameNo frame;
    bool done = false;
    ~Submission() {
      if (done) return;
      swap.mm_.frames[frame].Clear(kPageReclaim);
      swap.EndWrite(frame);
    }
  } submission{*this, n};
  mm_.disk->Submit(IoDirection::kWrite, slot, n);
  submission.done = true;
  return true;
}

bool Swap::RemoveForReclaim(FrameNo n) {
  const SwapSlot slot = cache_.SlotOf(n);
  if (!cache_.Remove(n, SwapCache::RemoveIf::kNoOtherUserClean)) return false;
  slots_.Free(slot);
  return true;
}

bool Swap::TryToFreeSlot(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  if (!frame.Test(kPageSwapCache) || frame.Test(kPageWriteback)) return false;
  if (frame.refcount.load(std::memory_order_acquire) != 2) return false;
  const SwapSlot slot = cache_.SlotOf(n);
  {
    SpinGuard guard(slots_.lock());
    if (slots_.Count(slot) != 1) return false;
    if (!cache_.Remove(n, SwapCache::RemoveIf::kNoOtherUser)) return false;
  }
  frame.Set(kPageDirty);  // the only copy now
  slots_.Free(slot);
  return true;
}

// --- use counts ---

void Swap::Duplicate(SwapSlot slot) {
  PS_CHECK(slots_.Duplicate(slot), "a pte refers to a slot that nobody uses");
}

void Swap::FreeAndForget(SwapSlot slot) {
  if (slots_.Free(slot) != 1) return;  // 1: the cache, or a pte elsewhere
  const std::optional<FrameNo> n = cache_.Find(slot);
  if (!n) return;
  FrameRef ref(mm_, *n);
  if (!mm_.page_locks->Trylock(*n)) return;  // reclaim has it, and will find it useless
  PageLockGuard lock(*mm_.page_locks, *n, PageLockGuard::Already::kLocked);
  PageFrame& frame = mm_.frames[*n];
  if (!frame.Test(kPageSwapCache) || cache_.SlotOf(*n) != slot) return;
  const auto condition = Full() ? SwapCache::RemoveIf::kAlways : SwapCache::RemoveIf::kNoOtherUser;
  if (!cache_.Remove(*n, condition)) return;
  frame.Set(kPageDirty);
  slots_.Free(slot);
}

void Swap::ForgetUnmapped(FrameNo n) {
  if (!mm_.frames[n].Test(kPageSwapCache) || !mm_.page_locks->Trylock(n)) return;
  PageLockGuard lock(*mm_.page_locks, n, PageLockGuard::Already::kLocked);
  TryToFreeSlot(n);
}

bool Swap::OnlyUser(FrameNo n) const {
  const PageFrame& frame = mm_.frames[n];
  int users = frame.mapcount.load(std::memory_order_acquire);
  if (users <= 1 && frame.Test(kPageSwapCache)) users += slots_.Count(cache_.SlotOf(n)) - 1;
  return users == 1;
}

// --- swap-in ---

std::optional<FrameNo> Swap::SwapIn(SwapSlot slot, MmStruct& space, bool& major) {
  find_total_.fetch_add(1, std::memory_order_relaxed);
  std::optional<FrameNo> n = cache_.Find(slot);
  major = !n;
  if (n) {
    find_success_.fetch_add(1, std::memory_order_relaxed);
  } else {
    token_.Grab(space);
    ReadAhead(slot, space);
    mm_.pagevecs->DrainLocal();
    n = ReadAsync(slot, space, ChargeAs::kAnon);
    if (!n) return std::nullopt;
    mm_.vmstat->Count(VmEvent::kPgmajfault);
  }
  FrameRef ref(mm_, *n);
  mm_.pagevecs->MarkAccessed(*n);
  mm_.page_locks->Lock(*n);
  if (!mm_.frames[*n].Test(kPageUptodate)) {
    // Only shutdown leaves a page behind that was never read.
    PageLockGuard lock(*mm_.page_locks, *n, PageLockGuard::Already::kLocked);
    CondResched();
    PS_CHECK(false, "a page in the swap cache was unlocked before its read completed");
  }
  return ref.Release();
}

void Swap::ReadAhead(SwapSlot slot, const MmStruct& space) {
  const SwapSlots::Run run =
      slots_.UsedRun(slot, static_cast<int>(mm_.policy.reclaim.page_cluster));
  for (SwapSlot next = run.first; next < run.first + run.slots; ++next) {
    const std::optional<FrameNo> n = ReadAsync(next, space, ChargeAs::kReadAhead);
    if (!n) return;
    ReleasePage(mm_, *n);
  }
}

std::optional<FrameNo> Swap::ReadAsync(SwapSlot slot, const MmStruct& space, ChargeAs as) {
  for (;;) {
    if (const std::optional<FrameNo> cached = cache_.Find(slot)) return cached;
    const std::optional<FrameNo> fresh = AllocCharged(mm_, GFP_HIGHUSER_MOVABLE, &space, as);
    if (!fresh) return std::nullopt;
    FrameRef ref(mm_, *fresh);
    if (!slots_.Duplicate(slot)) return std::nullopt;  // freed while we allocated
    PS_CHECK(mm_.page_locks->Trylock(*fresh));
    mm_.frames[*fresh].Set(kPageSwapBacked);
    if (cache_.Insert(slot, *fresh)) {
      StartRead(slot, *fresh);
      return ref.Release();
    }
    mm_.page_locks->Unlock(*fresh);
    slots_.Free(slot);
  }
}

void Swap::StartRead(SwapSlot slot, FrameNo n) {
  mm_.pagevecs->AddActive(n);
  mm_.vmstat->Count(VmEvent::kPswpin);
  mm_.vmstat->Count(VmEvent::kPgpgin, ToKiB({1}, mm_.page_shift()));
  // The completion unlocks the page. If Submit throws, nothing was queued and there is none.
  PageLockGuard locked(*mm_.page_locks, n, PageLockGuard::Already::kLocked);
  mm_.disk->Submit(IoDirection::kRead, slot, n);
  locked.Release();
}

// --- completions ---

void Swap::OnComplete(IoDirection direction, SwapSlot slot, FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  if (direction == IoDirection::kWrite) {
    if (frame.TestAndClear(kPageReclaim)) {
      mm_.gate->NoteWritten(mm_.ZoneOf(n));
      mm_.pagevecs->RotateReclaimable(n);
    }
    EndWrite(n);
    return;
  }
  if (stamps_) mm_.frames.SetStamp(n, stamps_[slot].load(std::memory_order_relaxed));
  frame.Set(kPageUptodate);
  mm_.page_locks->Unlock(n);
}

void Swap::EndWrite(FrameNo n) {
  // The frame may be gone as soon as the bit is cleared.
  mm_.vmstat->Add(mm_.frames[n].zone(), ZoneStat::kNrWriteback, -1);
  mm_.page_locks->EndWriteback(n);
}

// --- reports and checks ---

Swap::CacheStats Swap::cache_stats() const {
  return {.add = cache_.added(),
          .del = cache_.removed(),
          .find_success = find_success_.load(std::memory_order_relaxed),
          .find_total = find_total_.load(std::memory_order_relaxed),
          .pages = cache_.pages()};
}

std::uint64_t Swap::PeekStamp(SwapSlot slot) const {
  const FrameNo n = cache_.At(slot);
  if (n != kNoFrame && mm_.frames[n].Test(kPageUptodate)) return mm_.frames.Stamp(n);
  return stamps_ ? stamps_[slot].load(std::memory_order_relaxed) : 0;
}

std::string Swap::CheckInvariants() const {
  std::string error = slots_.CheckInvariants();
  if (!error.empty()) return error;
  std::int64_t cached = 0;
  for (SwapSlot slot = 0; slot < slots_.end(); ++slot) {
    const FrameNo n = cache_.At(slot);
    if (n == kNoFrame) continue;
    ++cached;
    if (!mm_.frames[n].Test(kPageSwapCache) || mm_.frames[n].priv != slot + 1) {
      return "swap cache: the frame of slot " + std::to_string(slot) + " does not know of it";
    }
    if (slots_.Count(slot) == 0) {
      return "swap cache: slot " + std::to_string(slot) + " is cached but free";
    }
  }
  if (cached != cache_.pages()) {
    return "swap cache: " + std::to_string(cached) + " pages, counted " +
           std::to_string(cache_.pages());
  }
  return {};
}

}  // namespace pagestorm::mm
