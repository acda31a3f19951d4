// The counters of one zone's LRU, the same for every design: list sizes (vmstat), isolated frames.
//
// No lock: the caller has just moved the frames, so nobody else counts the same move.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

#include "mm/lru.h"
#include "mm/memory_manager.h"
#include "mm/page_frame.h"

namespace pagestorm::mm {

class CgroupLists;

// Frames by list.
using ListCounts = std::array<std::int64_t, kLruLists>;

[[nodiscard]] inline bool IsAnon(const PageFrame& frame) {
  return frame.Test(kPageAnon | kPageSwapBacked);
}

// What one isolation took, or one call put back: by list, and how much of it belongs to files.
// Without split LRU the lists do not tell the two apart.
struct Moved {
  ListCounts lists{};
  std::int64_t file = 0;

  void Add(LruList list, const PageFrame& frame) {
    ++lists[static_cast<std::size_t>(list)];
    if (!IsAnon(frame)) ++file;
  }
  [[nodiscard]] std::int64_t total() const {
    return std::accumulate(lists.begin(), lists.end(), std::int64_t{0});
  }
};

// The list of a page without split LRU.
[[nodiscard]] constexpr LruList ListFor(bool active) {
  return active ? LruList::kActiveAnon : LruList::kInactiveAnon;
}

// Lumpy reclaim: visits the other frames of n's aligned block of 2^order that are of this zone. A
// hole ends the block.
template <class Visit>
void ForCompanions(const FrameTable& frames, std::size_t zone, FrameNo n, int order, Visit visit) {
  const FrameNo size = FrameNo{1} << order;
  const FrameNo base = n & ~(size - 1);
  for (FrameNo other = base; other < base + size; ++other) {
    if (other == n) continue;
    if (other >= frames.end() || frames[other].state() == FrameState::kAbsent) break;
    if (frames[other].zone() == zone) visit(other);
  }
}
// Whether a page of list `its` goes along with one that is isolated from `list`.
[[nodiscard]] constexpr bool IsCompanion(LruList its, LruList list, IsolateMode mode) {
  if (its == LruList::kUnevictable || IsFile(its) != IsFile(list)) return false;
  return mode == IsolateMode::kBoth || IsActive(its) == (mode == IsolateMode::kActive);
}

class LruBooks {
 public:
  // group: sizes are also kept in its CgroupLists; nullptr: nowhere else.
  LruBooks(MemoryManager& mm, Zone& zone, MemCgroup* group = nullptr);

  // The list of a frame with these flags.
  [[nodiscard]] LruList ListOf(std::uint32_t flags) const {
    if (split_ && (flags & kPageUnevictable) != 0) return LruList::kUnevictable;
    const bool file = split_ && (flags & (kPageAnon | kPageSwapBacked)) == 0;
    const int active = (flags & kPageActive) != 0 ? 1 : 0;
    return static_cast<LruList>((file ? 2 : 0) + active);
  }
  [[nodiscard]] LruList ListOf(const PageFrame& frame) const {
    return ListOf(frame.flags.load(std::memory_order_relaxed));
  }

  // Frames joined a list, or (count < 0) left it.
  void Count(LruList list, std::int64_t count) const;
  // Isolation took these and left so many frames on the lists.
  void NoteTaken(const Moved& taken, std::int64_t left);
  void NotePutBack(const Moved& back);
  // An isolated frame is about to be freed.
  void NoteFreed(const PageFrame& frame);

  // Frames of a list by its counter, per-CPU parts included; exact at rest.
  [[nodiscard]] std::int64_t Size(LruList list) const;
  [[nodiscard]] std::int64_t isolated() const { return isolated_.load(std::memory_order_relaxed); }
  // At rest: the counter of a list against the frames that were found. Empty, or what is wrong.
  [[nodiscard]] std::string Compare(LruList list, std::int64_t found) const;

 private:
  void CountLists(const ListCounts& counts, std::int64_t sign) const;
  // Isolated frames became so many more, or (below 0) fewer.
  void CountIsolated(std::int64_t anon, std::int64_t file);

  MemoryManager& mm_;
  const std::size_t zone_;
  const bool split_;
  CgroupLists* const lists_;
  std::atomic<std::int64_t> isolated_{0};
};

}  // namespace pagestorm::mm
