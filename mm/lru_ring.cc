// The generation ring: an LRU of queues without a lock. docs/lru.md says what it guarantees.
//
// A list is two rings of entries (mm/entry_ring.h): `main`, into whose head frames go and from
// whose tail isolation takes, and `early`, which is consumed before it: frames to be looked at
// next. Nothing is removed from the middle: a frame that leaves, or moves, makes its entry stale,
// since each time it is queued it gets a new sequence, and stale entries are skipped when they come
// up. What a ring may hold is bounded by compaction: before a push that would exceed its limit, a
// task pops from its tail and keeps only entries that hold, in `early`, where they stay the oldest.
//
// The sequence of a frame is written only by who owns it alone: before it enters the LRU, or under
// a claim (mm/lru_claim.h). It lies in an array of this zone's own, so that machines without
// content stamps have it too, and machines with another LRU do not.
#include <array>

#include "absl/strings/str_cat.h"
#include "core/engine.h"
#include "mm/entry_ring.h"
#include "mm/lru.h"
#include "mm/lru_claim.h"
#include "mm/memory_manager.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

using Entry = EntryRing::Entry;

// Up to kBatch entries for one ring.
class EntryBatch {
 public:
  void Add(Entry entry) { entries_[count_++] = entry; }
  [[nodiscard]] std::span<const Entry> span() const { return {entries_.data(), count_}; }
  [[nodiscard]] bool full() const { return count_ == entries_.size(); }
  void Clear() { count_ = 0; }

 private:
  std::array<Entry, EntryRing::kBatch> entries_;
  std::size_t count_ = 0;
};

class RingLru final : public Lru {
 public:
  RingLru(MemoryManager& mm, Zone& zone)
      : mm_(mm),
        zone_(zone),
        op_cost_{mm.costs.lru_op_ns},
        claims_(mm, zone),
        sequence_(static_cast<std::size_t>(zone.spanned.n)),
        lists_{{{mm, zone.spanned.n}, {mm, zone.spanned.n}}} {}

  LruList ListOf(const PageFrame& frame) const override { return claims_.books().ListOf(frame); }

  void Add(std::span<const FrameNo> frames, bool active) override {
    EntryBatch entries;
    for (const FrameNo n : frames) {
      Charge(op_cost_);
      const std::uint32_t sequence = NextSequence(n);
      claims_.books().Count(ListFor(active), 1);
      mm_.frames[n].SetState(FrameState::kLru, kPageActive, active ? kPageActive : 0U);
      entries.Add({n, sequence});
      if (entries.full()) Queue(entries, active);
    }
    Queue(entries, active);
  }

  void Del(std::span<FrameNo> dead) override { claims_.Del(dead); }

  std::int64_t RotateTail(std::span<const FrameNo> frames) override {
    EntryBatch entries;
    std::int64_t moved = 0;
    for (const FrameNo n : frames) {
      const auto claimed = claims_.Claim(mm_.frames[n], [](std::uint32_t flags) {
        return (flags & (kPageActive | kPageUnevictable)) == 0;
      });
      if (!claimed) continue;
      Charge(op_cost_);
      const std::uint32_t sequence = NextSequence(n);
      if (!claims_.GiveBack(n, false)) continue;
      ++moved;
      entries.Add({n, sequence});
      if (entries.full()) QueueEarly(entries, false);
    }
    QueueEarly(entries, false);
    return moved;
  }

  bool SetActive(FrameNo n, bool active) override {
    std::uint32_t sequence = 0;
    if (!claims_.SetActive(n, active, [&] { sequence = NextSequence(n); })) return false;
    EntryBatch entries;
    entries.Add({n, sequence});
    Queue(entries, active);
    return true;
  }

  Isolated Isolate(std::int64_t want, LruList list, int order, IsolateMode mode,
                   BatchEntries& batch) override {
    Isolation isolation{.list = list, .order = order, .mode = mode, .batch = batch};
    if (list != LruList::kInactiveAnon && list != LruList::kActiveAnon) return isolation.result;
    while (isolation.result.scanned < want) {
      const std::int64_t left = want - isolation.result.scanned;
      if (!TakeSome(static_cast<std::size_t>(left), isolation)) break;
    }
    return claims_.Finish(isolation);
  }

  std::int64_t IsolateThese(std::span<const FrameNo> frames, LruList list,
                            BatchEntries& batch) override {
    return claims_.TakeThese(frames, list, batch);
  }

  void PutBack(std::span<const BatchEntry> entries) override {
    std::array<EntryBatch, 2> queued;
    Moved back;
    for (const BatchEntry& entry : entries) {
      Charge(op_cost_);
      PageFrame& frame = mm_.frames[entry.frame];
      const std::uint32_t sequence = NextSequence(entry.frame);
      back.Add(ListFor(entry.activate), frame);
      frame.SetState(FrameState::kLru, kPageActive, entry.activate ? kPageActive : 0U);
      EntryBatch& side = queued[entry.activate ? 1 : 0];
      side.Add({entry.frame, sequence});
      if (side.full()) Queue(side, entry.activate);
    }
    claims_.books().NotePutBack(back);
    Queue(queued[0], false);
    Queue(queued[1], true);
  }

  void NoteFreed(FrameNo n) override { claims_.NoteFreed(n); }

  std::int64_t Size(LruList list) const override { return claims_.books().Size(list); }
  std::int64_t isolated() const override { return claims_.books().isolated(); }

  LockStats line_stats() const override {
    LockStats sum;
    for (const List& list : lists_) sum += list.main.line_stats() + list.early.line_stats();
    return sum;
  }

  std::string CheckInvariants() const override {
    std::string wrong = claims_.CheckCounts();
    if (!wrong.empty()) return wrong;
    std::vector<std::uint8_t> entries(static_cast<std::size_t>(zone_.spanned.n), 0);
    for (const bool active : {false, true}) {
      const List& list = lists_[active ? 1 : 0];
      for (const EntryRing* ring : {&list.main, &list.early}) {
        for (std::int64_t i = 0; i < ring->size(); ++i) {
          const Entry entry = ring->At(i);
          if (Holds(entry, active)) ++entries[IndexOf(entry.frame)];
        }
      }
    }
    for (auto n = static_cast<FrameNo>(zone_.start.n); n < zone_.end; ++n) {
      const int expected = mm_.frames[n].state() == FrameState::kLru ? 1 : 0;
      if (entries[IndexOf(n)] == expected) continue;
      return absl::StrCat("zone ", zone_.ordinal, ": frame ", n, " has ",
                          static_cast<int>(entries[IndexOf(n)]), " entries in the LRU rings");
    }
    return {};
  }

 private:
  struct List {
    List(MemoryManager& mm, std::int64_t frames)
        : main(mm.engine, frames, {mm.costs.lru_look_ns}),
          early(mm.engine, frames, {mm.costs.lru_look_ns}) {}
    EntryRing main;
    EntryRing early;
  };

  [[nodiscard]] std::size_t IndexOf(FrameNo n) const { return n - zone_.start.n; }

  // The caller owns the frame alone. Published by the state that follows it.
  std::uint32_t NextSequence(FrameNo n) {
    std::atomic<std::uint32_t>& word = sequence_[IndexOf(n)];
    const std::uint32_t next =
        (word.load(std::memory_order_relaxed) + 1) & EntryRing::kSequenceMask;
    word.store(next, std::memory_order_relaxed);
    return next;
  }

  // Whether an entry is its frame's latest and the frame still there; racy but for who has claimed
  // the frame. A wrong yes moves an entry that will be found stale later. A wrong no cannot be: the
  // entry was published after its sequence.
  [[nodiscard]] bool Holds(Entry entry, bool active) const {
    const PageFrame& frame = mm_.frames[entry.frame];
    return sequence_[IndexOf(entry.frame)].load(std::memory_order_relaxed) == entry.sequence &&
           frame.state() == FrameState::kLru && frame.Test(kPageActive) == active;
  }

  // One pop, of the early ring while there is anything in it. False: nothing is left.
  bool TakeSome(std::size_t most, Isolation& isolation) {
    const bool active = IsActive(isolation.list);
    List& list = lists_[active ? 1 : 0];
    std::array<Entry, EntryRing::kBatch> entries;
    const std::span<Entry> wanted(entries.data(), std::min(most, entries.size()));
    std::size_t count = list.early.Pop(wanted);
    if (count == 0) count = list.main.Pop(wanted);
    for (std::size_t i = 0; i < count; ++i) {
      if (Holds(entries[i], active)) claims_.Take(entries[i].frame, isolation);
    }
    return count > 0;
  }

  void Queue(EntryBatch& entries, bool active) {
    PushBounded(lists_[active ? 1 : 0].main, entries, active);
  }
  void QueueEarly(EntryBatch& entries, bool active) {
    PushBounded(lists_[active ? 1 : 0].early, entries, active);
  }

  // Compacts the ring of that list until it has room.
  void PushBounded(EntryRing& ring, EntryBatch& entries, bool active) {
    if (entries.span().empty()) return;
    Pause pause;
    while (ring.size() > ring.limit()) {
      if (!Compact(ring, active)) pause.Once();
    }
    ring.Push(entries.span());
    entries.Clear();
  }

  // Pops a batch and keeps in the early ring what still holds. False: the oldest entry is not
  // published yet.
  bool Compact(EntryRing& ring, bool active) {
    std::array<Entry, EntryRing::kBatch> entries;
    const std::size_t count = ring.Pop(entries);
    EntryBatch live;
    for (std::size_t i = 0; i < count; ++i) {
      if (Holds(entries[i], active)) live.Add(entries[i]);
    }
    if (&ring == &lists_[active ? 1 : 0].early) {
      ring.Push(live.span());  // into the places just emptied
    } else {
      QueueEarly(live, active);
    }
    return count > 0;
  }

  MemoryManager& mm_;
  Zone& zone_;
  const Ns op_cost_;
  LruClaims claims_;
  ZeroedArray<std::atomic<std::uint32_t>> sequence_;  // by frame of the zone
  std::array<List, 2> lists_;                         // inactive, active
};

}  // namespace

std::unique_ptr<Lru> MakeRingLru(MemoryManager& mm, Zone& zone) {
  return std::make_unique<RingLru>(mm, zone);
}

}  // namespace pagestorm::mm
