// Who gets a frame, in the LRUs without a lock: one winner, by compare-and-swap on the frame's
// state.
//
// A frame on an LRU is in state kLru. Whoever wants to do anything with it there claims it: kLru ->
// kClaimed. The claim lasts a few instructions; its holder isolates the frame (kIsolated, with a
// reference), gives it back (kLru), or finds that it has no references any more.
//
// Freeing races with that. A frame whose last reference is gone is freed by who dropped it, who
// takes it off the LRU first: kLru -> kInUse. If it is claimed just then, the freer leaves it to
// the claimer, kClaimed -> kAbandoned, and goes; the claimer frees it. A frame cannot be freed, let
// alone used anew, while it is claimed, so the claimer's attempt at a reference never reaches a
// later owner of the frame. Each of the moves is one compare-and-swap of one word, so each has one
// winner, and nobody waits for anybody: a freer fails only because a claimer has got on.
//
// Duty of a claimer that gives a frame back: it must be found again (the ring queues a new entry),
// since an entry that met the claim has been dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/engine.h"
#include "mm/lru.h"
#include "mm/lru_books.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

// What one isolation wants and has got.
struct Isolation {
  LruList list = LruList::kInactiveAnon;
  int order = 0;
  IsolateMode mode = IsolateMode::kInactive;
  BatchEntries& batch;
  Moved taken{};
  Isolated result{};
};

class LruClaims {
 public:
  LruClaims(MemoryManager& mm, Zone& zone);

  // Claims a frame that is on the LRU and whose flags please wanted(flags); the flags it had, or
  // none.
  template <class Wanted>
  std::optional<std::uint32_t> Claim(PageFrame& frame, Wanted wanted) {
    std::uint32_t flags = frame.flags.load(std::memory_order_relaxed);
    while (PageFrame::StateIn(flags) == FrameState::kLru && wanted(flags)) {
      // acquire: what the last holder did to the frame; release: the state is all that is written.
      if (frame.flags.compare_exchange_weak(flags,
                                            PageFrame::WithState(flags, FrameState::kClaimed),
                                            std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return flags;
      }
    }
    return std::nullopt;
  }
  // Ends a claim: back on the LRU, kPageActive as given. False: its last user has left it to us,
  // and it is freed.
  bool GiveBack(FrameNo n, bool active);

  // Tries to isolate a frame, if it is on isolation.list; counts a scan if it was. With order > 0,
  // companions as well. False: it is not there, or on its way to be freed.
  bool Take(FrameNo n, Isolation& isolation);
  // Lru::IsolateThese().
  std::int64_t TakeThese(std::span<const FrameNo> frames, LruList list, BatchEntries& batch);
  // Ends an isolation: counters and peaks.
  Isolated Finish(const Isolation& isolation);

  // Lru::SetActive(); on_claim() is called while the frame is claimed.
  template <class OnClaim>
  bool SetActive(FrameNo n, bool active, OnClaim on_claim) {
    const auto claimed = Claim(mm_.frames[n], [active](std::uint32_t flags) {
      return ((flags & kPageActive) != 0) != active && (flags & kPageUnevictable) == 0;
    });
    if (!claimed) return false;
    Charge(op_cost_);
    on_claim();
    if (!GiveBack(n, active)) return false;
    books_.Count(ListFor(!active), -1);
    books_.Count(ListFor(active), 1);
    return true;
  }

  // Lru's functions, as far as they are the same for all.
  void Del(std::span<FrameNo> dead);
  void NoteFreed(FrameNo n);

  [[nodiscard]] LruBooks& books() { return books_; }
  [[nodiscard]] const LruBooks& books() const { return books_; }
  // At rest: frames in state kLru agree with the counters. Empty, or what is wrong.
  [[nodiscard]] std::string CheckCounts() const;

 private:
  enum class Outcome : std::uint8_t { kNotThere, kDying, kTaken };
  template <class Wanted>
  Outcome TakeOne(FrameNo n, Isolation& isolation, Wanted wanted);
  void TakeCompanions(FrameNo n, Isolation& isolation);
  void FreeAbandoned(FrameNo n);

  MemoryManager& mm_;
  Zone& zone_;
  const Ns op_cost_;
  LruBooks books_;
};

}  // namespace pagestorm::mm
