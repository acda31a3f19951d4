#include "mm/lru.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/engine.h"
#include "core/spin_lock.h"
#include "mm/memory_manager.h"
#include "mm/pagevec.h"
#include "mm/reclaim.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

using ListCounts = std::array<std::int64_t, kLruLists>;

// What one isolation took: by list, and how much of it belongs to files. Without split LRU the
// lists do not tell the two apart.
struct Taken {
  ListCounts lists{};
  std::int64_t file = 0;
};

bool IsAnon(const PageFrame& frame) { return frame.Test(kPageAnon | kPageSwapBacked); }

// Doubly linked lists of frames under the zone's lru_lock: what every kernel so far has.
class LockedLru final : public Lru {
 public:
  LockedLru(MemoryManager& mm, Zone& zone)
      : mm_(mm),
        zone_(zone),
        split_(mm.policy.reclaim.split_lru),
        visible_(mm.policy.reclaim.isolated_visible),
        op_cost_{mm.costs.lru_op_ns} {}

  LruList ListOf(const PageFrame& frame) const override {
    const std::uint32_t flags = frame.flags.load(std::memory_order_relaxed);
    if (split_ && (flags & kPageUnevictable) != 0) return LruList::kUnevictable;
    const bool file = split_ && (flags & (kPageAnon | kPageSwapBacked)) == 0;
    const int active = (flags & kPageActive) != 0 ? 1 : 0;
    return static_cast<LruList>((file ? 2 : 0) + active);
  }

  void AddLocked(FrameNo n) override {
    Charge(op_cost_);
    const LruList list = Link(n);
    mm_.vmstat->Add(zone_.ordinal, StatOf(list), 1);
  }

  void DelLocked(FrameNo n) override {
    Charge(op_cost_);
    PageFrame& frame = mm_.frames[n];
    const LruList list = ListOf(frame);
    At(list).Remove(mm_.frames, n);
    frame.SetState(FrameState::kInUse);
    frame.Clear(kPageActive | kPageUnevictable);
    mm_.vmstat->Add(zone_.ordinal, StatOf(list), -1);
  }

  void RotateTailLocked(FrameNo n) override {
    Charge(op_cost_);
    FrameList& list = At(ListOf(mm_.frames[n]));
    list.Remove(mm_.frames, n);
    list.PushTail(mm_.frames, n);
  }

  void SetActiveLocked(FrameNo n, bool active) override {
    PageFrame& frame = mm_.frames[n];
    if (frame.Test(kPageActive) == active || frame.Test(kPageUnevictable)) return;
    Charge(op_cost_);
    const LruList from = ListOf(frame);
    At(from).Remove(mm_.frames, n);
    SetActiveFlag(frame, active);
    const LruList to = ListOf(frame);
    At(to).PushHead(mm_.frames, n);
    mm_.vmstat->Add(zone_.ordinal, StatOf(from), -1);
    mm_.vmstat->Add(zone_.ordinal, StatOf(to), 1);
  }

  Isolated IsolateLocked(std::int64_t want, LruList list, int order, IsolateMode mode,
                         BatchEntries& batch) override {
    const std::size_t before = batch.size();
    Isolated result;
    Taken taken;
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
    if (!visible_) NoteTaken(taken, result.taken);
    return result;
  }

  void PutBackLocked(std::span<const BatchEntry> entries) override {
    ListCounts added{};
    std::int64_t anon = 0;
    for (const BatchEntry& entry : entries) {
      PageFrame& frame = mm_.frames[entry.frame];
      if (visible_) {
        if (frame.state() == FrameState::kLru) SetActiveLocked(entry.frame, entry.activate);
        continue;
      }
      Charge(op_cost_);
      SetActiveFlag(frame, entry.activate);
      if (IsAnon(frame)) ++anon;
      ++added[static_cast<std::size_t>(Link(entry.frame))];
    }
    if (visible_) return;
    CountLists(added, 1);
    CountIsolated(-anon, anon - static_cast<std::int64_t>(entries.size()));
  }

  void NoteFreed(FrameNo n) override {
    PageFrame& frame = mm_.frames[n];
    frame.SetState(FrameState::kInUse);
    frame.Clear(kPageActive);
    const bool anon = IsAnon(frame);
    CountIsolated(anon ? -1 : 0, anon ? 0 : -1);
  }

  std::int64_t SizeLocked(LruList list) const override {
    return lists_[static_cast<std::size_t>(list)].size();
  }
  std::int64_t isolated() const override { return isolated_.load(std::memory_order_relaxed); }

  std::string CheckInvariants() const override {
    for (int i = 0; i < kLruLists; ++i) {
      const auto list = static_cast<LruList>(i);
      std::string wrong = CheckList(list);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

 private:
  FrameList& At(LruList list) { return lists_[static_cast<std::size_t>(list)]; }

  static void SetActiveFlag(PageFrame& frame, bool active) {
    active ? frame.Set(kPageActive) : frame.Clear(kPageActive);
  }

  LruList Link(FrameNo n) {
    PageFrame& frame = mm_.frames[n];
    const LruList list = ListOf(frame);
    frame.SetState(FrameState::kLru);
    At(list).PushHead(mm_.frames, n);
    return list;
  }

  // Moves a frame from its list to the batch; one whose last reference is gone only goes to the
  // head, out of the way of who is about to free it.
  bool TakeOrRotate(FrameNo n, BatchEntries& batch, Taken& taken) {
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
    ++taken.lists[static_cast<std::size_t>(list)];
    if (!IsAnon(frame)) ++taken.file;
    return true;
  }

  // Lumpy reclaim: the rest of the aligned block, as far as it is on an LRU and of the wanted kind.
  // Returns how many were taken. A hole ends the block.
  std::int64_t TakeCompanions(FrameNo n, LruList list, int order, IsolateMode mode,
                              BatchEntries& batch, Taken& taken) {
    const FrameNo base = n & ~((FrameNo{1} << order) - 1);
    std::int64_t count = 0;
    for (FrameNo other = base; other < base + (FrameNo{1} << order); ++other) {
      if (other == n) continue;
      if (other >= mm_.frames.end()) break;
      PageFrame& frame = mm_.frames[other];
      if (frame.state() == FrameState::kAbsent) break;
      if (frame.zone() != zone_.ordinal || frame.state() != FrameState::kLru) continue;
      const LruList its = ListOf(frame);
      if (its == LruList::kUnevictable || IsFile(its) != IsFile(list)) continue;
      if (mode != IsolateMode::kBoth && IsActive(its) != (mode == IsolateMode::kActive)) continue;
      if (TakeOrRotate(other, batch, taken)) ++count;
    }
    return count;
  }

  void NoteTaken(const Taken& taken, std::int64_t total) {
    if (total == 0) return;
    CountLists(taken.lists, -1);
    CountIsolated(total - taken.file, taken.file);
    std::int64_t left = 0;
    for (const FrameList& list : lists_) left += list.size();
    mm_.reclaimer->NoteIsolatedPeak(isolated(), left);
  }

  void CountLists(const ListCounts& counts, std::int64_t sign) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      mm_.vmstat->Add(zone_.ordinal, StatOf(static_cast<LruList>(i)), sign * counts[i]);
    }
  }

  void CountIsolated(std::int64_t anon, std::int64_t file) {
    if (anon != 0) mm_.vmstat->Add(zone_.ordinal, ZoneStat::kNrIsolatedAnon, anon);
    if (file != 0) mm_.vmstat->Add(zone_.ordinal, ZoneStat::kNrIsolatedFile, file);
    isolated_.fetch_add(anon + file, std::memory_order_relaxed);
    mm_.reclaimer->NoteIsolated(anon + file);
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
    const std::int64_t counted = mm_.vmstat->Exact(zone_.ordinal, StatOf(list));
    if (counted == count) return {};
    return absl::StrCat(where, "has ", count, " frames and a counter of ", counted);
  }

  MemoryManager& mm_;
  Zone& zone_;
  const bool split_;
  const bool visible_;
  const Ns op_cost_;
  std::array<FrameList, kLruLists> lists_;  // the zone's lru_lock
  std::atomic<std::int64_t> isolated_{0};
};

}  // namespace

bool GetFrameUnlessZero(PageFrame& frame) {
  std::uint16_t count = frame.refcount.load(std::memory_order_relaxed);
  while (count != 0) {
    if (frame.refcount.compare_exchange_weak(count, static_cast<std::uint16_t>(count + 1),
                                             std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

VisiblePin::VisiblePin(MemoryManager& mm, FrameNo n) : mm_(mm), frame_(n) {
  if (!mm.policy.reclaim.isolated_visible) return;
  needed_ = true;
  if (!GetFrameUnlessZero(mm.frames[n])) return;
  held_ = true;
  // With a reference held it cannot leave the lists any more.
  if (mm.frames[n].state() != FrameState::kLru) Drop(/*cold=*/false);
}

void VisiblePin::Drop(bool cold) {
  if (!held_) return;
  held_ = false;
  ReleasePages(mm_, {&frame_, 1}, cold);
}

void IsolatedBatch::ForgetFreed() {
  const auto freed = [](const BatchEntry& entry) { return entry.frame == kNoFrame; };
  entries.erase(std::remove_if(entries.begin(), entries.end(), freed), entries.end());
}

std::int64_t IsolatedBatch::PutBack() {
  ForgetFreed();
  std::int64_t active = 0;
  const std::size_t count = entries.size();
  for (std::size_t first = 0; first < count; first += kPagevecSize) {
    const std::size_t size = std::min<std::size_t>(kPagevecSize, count - first);
    const std::span<const BatchEntry> chunk(entries.data() + first, size);
    {
      SpinGuard guard(zone_.lru_lock);
      zone_.lru->PutBackLocked(chunk);
    }
    if (mm_.policy.reclaim.isolated_visible) {
      active +=
          std::count_if(chunk.begin(), chunk.end(), [](const BatchEntry& e) { return e.activate; });
      continue;  // it holds no references
    }
    std::array<FrameNo, kPagevecSize> release{};
    for (std::size_t i = 0; i < size; ++i) {
      release[i] = chunk[i].frame;
      if (chunk[i].activate) ++active;
    }
    ReleasePages(mm_, {release.data(), size});
  }
  entries.clear();
  return active;
}

std::unique_ptr<Lru> MakeLockedLru(MemoryManager& mm, Zone& zone) {
  return std::make_unique<LockedLru>(mm, zone);
}

}  // namespace pagestorm::mm
