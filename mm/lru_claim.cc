#include "mm/lru_claim.h"

#include "absl/strings/str_cat.h"
#include "mm/page_alloc.h"
#include "mm/reclaim.h"
#include "mm/zone.h"

namespace pagestorm::mm {

LruClaims::LruClaims(MemoryManager& mm, Zone& zone)
    : mm_(mm), zone_(zone), op_cost_{mm.costs.lru_op_ns}, books_(mm, zone) {}

bool LruClaims::GiveBack(FrameNo n, bool active) {
  PageFrame& frame = mm_.frames[n];
  std::uint32_t flags = frame.flags.load(std::memory_order_relaxed);
  while (PageFrame::StateIn(flags) == FrameState::kClaimed) {
    std::uint32_t back = PageFrame::WithState(flags, FrameState::kLru);
    back = active ? back | kPageActive : back & ~kPageActive;
    // release: whoever finds it on the LRU sees what was done to it under the claim.
    if (frame.flags.compare_exchange_weak(flags, back, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
      return true;
    }
  }
  FreeAbandoned(n);
  return false;
}

// The claimer owns it alone: no references, and its last user is gone.
void LruClaims::FreeAbandoned(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.state() == FrameState::kAbandoned);
  const LruList list = books_.ListOf(frame);
  frame.SetState(FrameState::kInUse, kPageActive | kPageUnevictable, 0);
  books_.Count(list, -1);
  frame.refcount.store(1, std::memory_order_relaxed);  // Free() takes over the last one
  mm_.allocator->Free(n, 0, /*cold=*/false);
}

template <class Wanted>
LruClaims::Outcome LruClaims::TakeOne(FrameNo n, Isolation& isolation, Wanted wanted) {
  PageFrame& frame = mm_.frames[n];
  const auto flags = Claim(frame, wanted);
  if (!flags) return Outcome::kNotThere;
  Charge(op_cost_);
  const LruList list = books_.ListOf(*flags);
  if (!GetFrameUnlessZero(frame)) {
    // Who dropped the last reference is about to take it off the LRU, or has just left it to us.
    GiveBack(n, IsActive(list));
    return Outcome::kDying;
  }
  frame.SetState(FrameState::kIsolated);  // referenced: nobody can abandon it any more
  isolation.batch.push_back({.frame = n, .activate = IsActive(list)});
  isolation.taken.Add(list, frame);
  ++isolation.result.taken;
  return Outcome::kTaken;
}

bool LruClaims::Take(FrameNo n, Isolation& isolation) {
  const auto on_list = [&](std::uint32_t flags) { return books_.ListOf(flags) == isolation.list; };
  const Outcome outcome = TakeOne(n, isolation, on_list);
  if (outcome == Outcome::kNotThere) return false;
  ++isolation.result.scanned;
  if (outcome == Outcome::kDying) return false;
  if (isolation.order > 0) TakeCompanions(n, isolation);
  return true;
}

// As with a lock; each is a scan.
void LruClaims::TakeCompanions(FrameNo n, Isolation& isolation) {
  const auto wanted = [&](std::uint32_t flags) {
    return IsCompanion(books_.ListOf(flags), isolation.list, isolation.mode);
  };
  ForCompanions(mm_.frames, zone_.ordinal, n, isolation.order, [&](FrameNo other) {
    if (TakeOne(other, isolation, wanted) == Outcome::kTaken) ++isolation.result.scanned;
  });
}

std::int64_t LruClaims::TakeThese(std::span<const FrameNo> frames, LruList list,
                                  BatchEntries& batch) {
  Isolation isolation{.list = list, .batch = batch};
  for (const FrameNo n : frames) static_cast<void>(Take(n, isolation));
  return Finish(isolation).taken;
}

Isolated LruClaims::Finish(const Isolation& isolation) {
  books_.NoteTaken(isolation.taken, mm_.reclaimer->LruPages(zone_));
  return isolation.result;
}

void LruClaims::Del(std::span<FrameNo> dead) {
  for (FrameNo& n : dead) {
    Charge(op_cost_);
    PageFrame& frame = mm_.frames[n];
    std::uint32_t flags = frame.flags.load(std::memory_order_relaxed);
    for (;;) {
      const FrameState state = PageFrame::StateIn(flags);
      if (state != FrameState::kLru && state != FrameState::kClaimed) break;
      const bool mine = state == FrameState::kLru;
      std::uint32_t next =
          PageFrame::WithState(flags, mine ? FrameState::kInUse : FrameState::kAbandoned);
      if (mine) next &= ~(kPageActive | kPageUnevictable);
      // release: who frees it in our place sees what we did to it before.
      if (!frame.flags.compare_exchange_weak(flags, next, std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
        continue;
      }
      if (mine) {
        books_.Count(books_.ListOf(flags), -1);
      } else {
        n = kNoFrame;
      }
      break;
    }
  }
}

void LruClaims::NoteFreed(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  frame.SetState(FrameState::kInUse, kPageActive, 0);
  books_.NoteFreed(frame);
}

std::string LruClaims::CheckCounts() const {
  ListCounts found{};
  for (auto n = static_cast<FrameNo>(zone_.start.n); n < zone_.end; ++n) {
    const PageFrame& frame = mm_.frames[n];
    if (frame.state() == FrameState::kClaimed || frame.state() == FrameState::kAbandoned) {
      return absl::StrCat("zone ", zone_.ordinal, ": frame ", n, " is claimed by nobody");
    }
    if (frame.state() == FrameState::kLru) ++found[static_cast<std::size_t>(books_.ListOf(frame))];
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::string wrong = books_.Compare(static_cast<LruList>(i), found[i]);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace pagestorm::mm
