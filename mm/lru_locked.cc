// The LRU of every kernel so far: doubly linked lists of frames under the zone's lru_lock.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/engine.h"
#include "core/spin_lock.h"
#include "mm/lru.h"
#include "mm/lru_books.h"
#include "mm/memcg.h"
#include "mm/memory_manager.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

class LockedLru final : public Lru {
 public:
  LockedLru(MemoryManager& mm, Zone& zone, MemCgroup* group)
      : mm_(mm),
        zone_(zone),
        group_(group),
        lock_(group == nullptr ? zone.lru_lock : group->In(zone).lock),
        visible_(mm.policy.reclaim.isolated_visible),
        op_cost_{mm.costs.lru_op_ns},
        books_(mm, zone, group) {}

  LruList ListOf(const PageFrame& frame) const override { return books_.ListOf(frame); }

  void Add(std::span<const FrameNo> frames, bool active) override {
    SpinGuard guard(lock_);
    for (const FrameNo n : frames) {
      if (active) mm_.frames[n].Set(kPageActive);
      Charge(op_cost_);
      books_.Count(Link(n), 1);
    }
  }

  // Whoever is to free a frame has it: nobody isolates one without references.
  void Del(std::span<FrameNo> dead) override {
    SpinGuard guard(lock_);
    for (const FrameNo n : dead) {
      if (mm_.frames[n].state() == FrameState::kLru) Unlink(n);
    }
  }

  std::int64_t RotateTail(std::span<const FrameNo> frames) override {
    std::int64_t moved = 0;
    SpinGuard guard(lock_);
    for (const FrameNo n : frames) {
      const PageFrame& frame = mm_.frames[n];
      if (frame.state() != FrameState::kLru || frame.Test(kPageActive | kPageUnevictable)) continue;
      Charge(op_cost_);
      FrameList& list = At(ListOf(frame));
      list.Remove(mm_.frames, n);
      list.PushTail(mm_.frames, n);
      ++moved;
    }
    return moved;
  }

  bool SetActive(FrameNo n, bool active) override {
    SpinGuard guard(lock_);
    return mm_.frames[n].state() == FrameState::kLru && SetActiveLocked(n, active);
  }

  Isolated Isolate(std::int64_t want, LruList list, int order, IsolateMode mode,
                   BatchEntries& batch) override {
    SpinGuard guard(lock_);
    const std::size_t before = batch.size();
    Isolated result;
    Moved taken;
    // Visible frames stay on the list, so without a bound a short one would be walked round and
    // round.
    if (visible_) want = std::min(want, At(list).size());
    for (; result.scanned < want && !At(list).empty(); ++result.scanned) {
      const FrameNo n = At(list).tail();
      if (TakeOrRotate(n, batch, taken) && order > 0) {
        result.scanned += TakeCompanions(n, list, order, mode, batch, taken);
      }
    }
    result.taken = static_cast<std::int64_t>(batch.size() - before);
    if (!visible_) books_.NoteTaken(taken, SizeOfAll());
    return result;
  }

  std::int64_t IsolateThese(std::span<const FrameNo> frames, LruList list,
                            BatchEntries& batch) override {
    SpinGuard guard(lock_);
    const std::size_t before = batch.size();
    Moved taken;
    for (const FrameNo n : frames) {
      const PageFrame& frame = mm_.frames[n];
      if (frame.state() != FrameState::kLru || ListOf(frame) != list) continue;
      static_cast<void>(TakeOrRotate(n, batch, taken));
    }
    if (!visible_) books_.NoteTaken(taken, SizeOfAll());
    return static_cast<std::int64_t>(batch.size() - before);
  }

  void PutBack(std::span<const BatchEntry> entries) override {
    SpinGuard guard(lock_);
    if (visible_) {
      for (const BatchEntry& entry : entries) {
        if (mm_.frames[entry.frame].state() == FrameState::kLru) {
          SetActiveLocked(entry.frame, entry.activate);
        }
      }
      return;
    }
    Moved back;
    for (const BatchEntry& entry : entries) {
      PageFrame& frame = mm_.frames[entry.frame];
      Charge(op_cost_);
      frame.SetState(FrameState::kLru, kPageActive, entry.activate ? kPageActive : 0U);
      const LruList list = ListOf(frame);
      At(list).PushHead(mm_.frames, entry.frame);
      back.Add(list, frame);
    }
    books_.NotePutBack(back);
  }

  void NoteFreed(FrameNo n) override {
    PageFrame& frame = mm_.frames[n];
    frame.SetState(FrameState::kInUse, kPageActive, 0);
    books_.NoteFreed(frame);
  }

  std::int64_t Size(LruList list) const override {
    return lists_[static_cast<std::size_t>(list)].size();
  }
  std::int64_t isolated() const override { return books_.isolated(); }

  std::string CheckInvariants() const override {
    for (int i = 0; i < kLruLists; ++i) {
      std::string wrong = CheckList(static_cast<LruList>(i));
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

 private:
  FrameList& At(LruList list) { return lists_[static_cast<std::size_t>(list)]; }

  LruList Link(FrameNo n) {
    PageFrame& frame = mm_.frames[n];
    const LruList list = ListOf(frame);
    frame.SetState(FrameState::kLru);
    At(list).PushHead(mm_.frames, n);
    return list;
  }

  void Unlink(FrameNo n) {
    Charge(op_cost_);
    PageFrame& frame = mm_.frames[n];
    const LruList list = ListOf(frame);
    At(list).Remove(mm_.frames, n);
    frame.SetState(FrameState::kInUse, kPageActive | kPageUnevictable, 0);
    books_.Count(list, -1);
  }

  bool SetActiveLocked(FrameNo n, bool active) {
    PageFrame& frame = mm_.frames[n];
    if (frame.Test(kPageActive) == active || frame.Test(kPageUnevictable)) return false;
    Charge(op_cost_);
    const LruList from = ListOf(frame);
    At(from).Remove(mm_.frames, n);
    active ? frame.Set(kPageActive) : frame.Clear(kPageActive);
    const LruList to = ListOf(frame);
    At(to).PushHead(mm_.frames, n);
    books_.Count(from, -1);
    books_.Count(to, 1);
    return true;
  }

  // Moves a frame from its list to the batch; one whose last reference is gone only goes to the
  // head, out of the way of who is about to free it.
  bool TakeOrRotate(FrameNo n, BatchEntries& batch, Moved& taken) {
    Charge(op_cost_);
    PageFrame& frame = mm_.frames[n];
    const LruList list = ListOf(frame);
    // A visible frame is only noted: it is pinned when it is looked at (VisiblePin).
    const bool got =
        visible_ ? frame.refcount.load(std::memory_order_relaxed) != 0 : GetFrameUnlessZero(frame);
    At(list).Remove(mm_.frames, n);
    if (!got || visible_) At(list).PushHead(mm_.frames, n);
    if (!got) return false;
    if (!visible_) frame.SetState(FrameState::kIsolated);
    batch.push_back({.frame = n, .activate = IsActive(list)});
    taken.Add(list, frame);
    return true;
  }

  // As far as they are on an LRU and of the wanted kind. Returns how many were taken.
  std::int64_t TakeCompanions(FrameNo n, LruList list, int order, IsolateMode mode,
                              BatchEntries& batch, Moved& taken) {
    std::int64_t count = 0;
    ForCompanions(mm_.frames, zone_.ordinal, n, order, [&](FrameNo other) {
      const PageFrame& frame = mm_.frames[other];
      if (frame.state() != FrameState::kLru) return;
      if (group_ != nullptr && &mm_.cgroups->GroupOf(other) != group_) return;
      if (!IsCompanion(ListOf(frame), list, mode)) return;
      if (TakeOrRotate(other, batch, taken)) ++count;
    });
    return count;
  }

  [[nodiscard]] std::int64_t SizeOfAll() const {
    std::int64_t size = 0;
    for (const FrameList& list : lists_) size += list.size();
    return size;
  }

  std::string CheckList(LruList list) const {
    const FrameList& frames = lists_[static_cast<std::size_t>(list)];
    const std::string where =
        absl::StrCat("zone ", zone_.ordinal, " LRU list ", static_cast<int>(list), ": ");
    std::int64_t count = 0;
    FrameNo prev = kNoFrame;
    for (FrameNo n = frames.head(); n != kNoFrame; prev = n, n = mm_.frames[n].next) {
      const PageFrame& frame = mm_.frames[n];
      if (frame.state() != FrameState::kLru || frame.zone() != zone_.ordinal ||
          frame.prev != prev || ListOf(frame) != list) {
        return absl::StrCat(where, "frame ", n, " does not belong there");
      }
      if (++count > frames.size()) return absl::StrCat(where, "is a ring");
    }
    if (count != frames.size())
      return absl::StrCat(where, "has ", count, " of ", frames.size(), " frames");
    return group_ == nullptr ? books_.Compare(list, count) : std::string();
  }

  MemoryManager& mm_;
  Zone& zone_;
  MemCgroup* const group_;  // whose lists they are; nullptr: the zone's
  SpinLock& lock_;
  const bool visible_;
  const Ns op_cost_;
  LruBooks books_;
  std::array<FrameList, kLruLists> lists_;  // lock_
};

}  // namespace

std::unique_ptr<Lru> MakeLockedLru(MemoryManager& mm, Zone& zone, MemCgroup* group) {
  return std::make_unique<LockedLru>(mm, zone, group);
}

}  // namespace pagestorm::mm
