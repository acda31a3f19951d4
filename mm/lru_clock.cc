// The clock: an LRU without a lock and without lists. docs/lru.md says what it guarantees and what
// it loses.
//
// A frame is on the LRU by its state alone; kPageActive says to which of the two lists it belongs.
// Isolation moves a hand over the zone's frame array, 32 frames by one fetch_add, and takes what it
// finds of the wanted list. There is a hand for each list. Order is frame number, not recency: the
// head and the tail of a list mean nothing, and neither does rotation to the tail.
#include <algorithm>
#include <array>

#include "core/engine.h"
#include "core/shared_line.h"
#include "mm/lru.h"
#include "mm/lru_claim.h"
#include "mm/memory_manager.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

class ClockLru final : public Lru {
 public:
  ClockLru(MemoryManager& mm, Zone& zone)
      : mm_(mm),
        zone_(zone),
        op_cost_{mm.costs.lru_op_ns},
        look_cost_{mm.costs.lru_look_ns},
        claims_(mm, zone),
        hands_{{Hand(mm.engine), Hand(mm.engine)}} {}

  LruList ListOf(const PageFrame& frame) const override { return claims_.books().ListOf(frame); }

  void Add(std::span<const FrameNo> frames, bool active) override {
    for (const FrameNo n : frames) {
      Charge(op_cost_);
      claims_.books().Count(ListFor(active), 1);
      mm_.frames[n].SetState(FrameState::kLru, kPageActive, active ? kPageActive : 0U);
    }
  }

  void Del(std::span<FrameNo> dead) override { claims_.Del(dead); }

  // There is no tail.
  std::int64_t RotateTail(std::span<const FrameNo>) override { return 0; }

  // The flag alone; one winner, as for every move.
  bool SetActive(FrameNo n, bool active) override {
    return claims_.SetActive(n, active, [] {});
  }

  // Once round at most. Nothing says where the wanted frames are, but their counter says that there
  // are none, which spares the failing reclaimer a walk over the whole zone.
  Isolated Isolate(std::int64_t want, LruList list, int order, IsolateMode mode,
                   BatchEntries& batch) override {
    Isolation isolation{.list = list, .order = order, .mode = mode, .batch = batch};
    if (list != LruList::kInactiveAnon && list != LruList::kActiveAnon) return isolation.result;
    const std::uint64_t windows = (Span() + kWindow - 1) / kWindow;
    for (std::uint64_t i = 0; i < windows && isolation.result.scanned < want; ++i) {
      if (i % kWindowsPerCount == 0 && NoneLeft(list)) break;
      LookAtWindow(want, isolation);
    }
    return claims_.Finish(isolation);
  }

  std::int64_t IsolateThese(std::span<const FrameNo> frames, LruList list,
                            BatchEntries& batch) override {
    return claims_.TakeThese(frames, list, batch);
  }

  void PutBack(std::span<const BatchEntry> entries) override {
    Moved back;
    for (const BatchEntry& entry : entries) {
      Charge(op_cost_);
      PageFrame& frame = mm_.frames[entry.frame];
      back.Add(ListFor(entry.activate), frame);
      frame.SetState(FrameState::kLru, kPageActive, entry.activate ? kPageActive : 0U);
    }
    claims_.books().NotePutBack(back);
  }

  void NoteFreed(FrameNo n) override { claims_.NoteFreed(n); }

  std::int64_t Size(LruList list) const override { return claims_.books().Size(list); }
  std::int64_t isolated() const override { return claims_.books().isolated(); }
  LockStats line_stats() const override { return hands_[0].line.stats() + hands_[1].line.stats(); }
  std::string CheckInvariants() const override { return claims_.CheckCounts(); }

 private:
  // 32: what reclaim asks for at a time, as Linux' SWAP_CLUSTER_MAX.
  static constexpr std::uint64_t kWindow = 32;
  static constexpr std::uint64_t kWindowsPerCount = 8;  // a choice: 256 frames

  struct Hand {
    explicit Hand(Engine& engine) : line(engine) {}
    SharedLine line;
    alignas(64) std::atomic<std::uint64_t> position{0};
  };

  [[nodiscard]] std::uint64_t Span() const { return zone_.end - zone_.first; }

  // Reads the counter's per-CPU parts, a line each: exact but for moves under way.
  [[nodiscard]] bool NoneLeft(LruList list) const {
    Charge(static_cast<std::int64_t>(mm_.engine.online_cpus()) * look_cost_);
    return Size(list) <= 0;
  }

  // Frames of the window beyond `want` have to wait for the next round.
  void LookAtWindow(std::int64_t want, Isolation& isolation) {
    Hand& hand = hands_[IsActive(isolation.list) ? 1 : 0];
    hand.line.Own();
    // relaxed: the hand only hands out windows; who gets a frame is decided at the frame.
    std::uint64_t at = hand.position.fetch_add(kWindow, std::memory_order_relaxed) % Span();
    for (std::uint64_t i = 0; i < kWindow && isolation.result.scanned < want; ++i) {
      Charge(look_cost_);
      claims_.Take(zone_.first + static_cast<FrameNo>(at), isolation);
      if (++at == Span()) at = 0;
    }
  }

  MemoryManager& mm_;
  Zone& zone_;
  const Ns op_cost_;
  const Ns look_cost_;
  LruClaims claims_;
  std::array<Hand, 2> hands_;  // inactive, active
};

}  // namespace

std::unique_ptr<Lru> MakeClockLru(MemoryManager& mm, Zone& zone) {
  return std::make_unique<ClockLru>(mm, zone);
}

}  // namespace pagestorm::mm
