// The LRU lists of one zone behind one interface: add, delete, isolate, put back. The kernel's own
// design is mm/lru_locked.cc, doubly linked lists under zone->lru_lock.
//
// Frames on their way to a list wait in per-CPU pagevecs (mm/pagevec.h). Isolated frames are on no
// list and in no counter of the era's kernels; kNrIsolated* count them for reports and for later
// kernels. With ReclaimPolicy::isolated_visible (an ablation) isolated frames stay on their list
// and in its counter; the batch only refers to them, and several batches may refer to one frame.
// Source: spec throttle-2.6.26 2.13, 2.14, 2.17, 3.1.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "core/spin_lock.h"
#include "mm/gfp.h"
#include "mm/mm_policy.h"
#include "mm/page_frame.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {

class MemoryManager;
struct MemCgroup;
struct Zone;

// 2.6.26 has one pair of lists for all pages (kInactiveAnon, kActiveAnon); split LRU uses all five.
enum class LruList : std::uint8_t {
  kInactiveAnon,
  kActiveAnon,
  kInactiveFile,
  kActiveFile,
  kUnevictable
};
inline constexpr int kLruLists = 5;
[[nodiscard]] constexpr bool IsActive(LruList list) {
  return list == LruList::kActiveAnon || list == LruList::kActiveFile;
}
[[nodiscard]] constexpr bool IsFile(LruList list) {
  return list == LruList::kInactiveFile || list == LruList::kActiveFile;
}
// The counter of a list; without split LRU the first two are nr_inactive and nr_active.
[[nodiscard]] constexpr ZoneStat StatOf(LruList list) {
  return static_cast<ZoneStat>(static_cast<int>(ZoneStat::kNrInactive) + static_cast<int>(list));
}
static_assert(StatOf(LruList::kUnevictable) == ZoneStat::kNrUnevictable);
static_assert(StatOf(LruList::kActiveAnon) == ZoneStat::kNrActive);

enum class IsolateMode : std::uint8_t { kInactive, kActive, kBoth };

// Takes a reference unless the frame is being freed.
[[nodiscard]] bool GetFrameUnlessZero(PageFrame& frame);

struct BatchEntry {
  FrameNo frame = kNoFrame;  // kNoFrame: freed meanwhile
  bool activate = false;     // where it goes at putback
};
// 32 are isolated at a time; lumpy isolation may exceed that by a block.
using BatchEntries = absl::InlinedVector<BatchEntry, kSwapClusterMax + 4>;

// Frames taken off an LRU, each with a reference (none under isolated_visible). Owned by one task.
// Whatever is left when the task leaves, or is unwound by Cancelled, goes back to the LRU.
class IsolatedBatch {
 public:
  IsolatedBatch(MemoryManager& mm, Zone& zone) : mm_(mm), zone_(zone) {}
  ~IsolatedBatch() {
    if (!entries.empty()) PutBack();
  }
  IsolatedBatch(const IsolatedBatch&) = delete;
  IsolatedBatch& operator=(const IsolatedBatch&) = delete;

  // Puts every frame at the head of the list it belongs on and drops its reference, 14 frames at a
  // time. Returns how many became, or stayed, active.
  std::int64_t PutBack();
  void ForgetFreed();  // removes entries whose frame was freed

  BatchEntries entries;

 private:
  MemoryManager& mm_;
  Zone& zone_;
};

// A reference to one frame of a batch while it is judged, under ReclaimPolicy::isolated_visible,
// where a batch is a list of candidates that others may hold, too: references of their own would
// keep all of them from freeing anything. Otherwise nothing: the batch has the reference.
class VisiblePin {
 public:
  VisiblePin(MemoryManager& mm, FrameNo n);
  ~VisiblePin() { Drop(/*cold=*/false); }
  VisiblePin(const VisiblePin&) = delete;
  VisiblePin& operator=(const VisiblePin&) = delete;

  // False: the frame has left the LRU since, there is nothing to judge.
  [[nodiscard]] bool usable() const { return held_ || !needed_; }
  void Drop(bool cold);  // may free the frame

 private:
  MemoryManager& mm_;
  FrameNo frame_;
  bool needed_ = false;
  bool held_ = false;
};

struct Isolated {
  std::int64_t scanned = 0;
  std::int64_t taken = 0;
};

// The LRU of one zone. Which design it is, MmPolicy::lru says; docs/lru.md compares them.
//
// A design that has a lock takes it itself: callers hold neither zone->lru_lock nor zone->lock.
// Several frames of one call are one batch: one hold of the lock, or one reservation.
class Lru {
 public:
  virtual ~Lru() = default;
  // The list a frame belongs to by its flags.
  [[nodiscard]] virtual LruList ListOf(const PageFrame& frame) const = 0;
  // Puts frames of this zone (state kInUse or kPagevec, the caller has a reference) onto the heads
  // of their lists, in this order; counters follow. active: they become active on the way.
  virtual void Add(std::span<const FrameNo> frames, bool active) = 0;
  // Takes frames without any reference off their lists for good (they are being freed): kLru ->
  // kInUse, not active any more. One that is on no list is left alone. An entry that comes back as
  // kNoFrame is not the caller's to free: an isolator that was just looking at it will do it.
  virtual void Del(std::span<FrameNo> dead) = 0;
  // Moves frames to the tail of the inactive list: they will be looked at next. Those that are on
  // no list, active or unevictable stay where they are. Returns how many moved; a design without
  // an order moves none.
  virtual std::int64_t RotateTail(std::span<const FrameNo> frames) = 0;
  // Moves a frame of an inactive list to the head of the active one, or back. False: it is there
  // already, on no list, or unevictable.
  virtual bool SetActive(FrameNo n, bool active) = 0;
  // Takes up to `want` frames from the tail of `list`, with order > 0 also companions of their
  // aligned block of 2^order frames, which use up scans (2.13). Each gets a reference, and exactly
  // one caller gets it.
  virtual Isolated Isolate(std::int64_t want, LruList list, int order, IsolateMode mode,
                           BatchEntries& batch) = 0;
  // Isolates those of `frames` that are on `list`: what a walk of a group's own list has found
  // (mm/memcg.h). Returns how many.
  virtual std::int64_t IsolateThese(std::span<const FrameNo> frames, LruList list,
                                    BatchEntries& batch) = 0;
  // Puts isolated frames back at the head of the list that BatchEntry::activate says. References
  // stay.
  virtual void PutBack(std::span<const BatchEntry> entries) = 0;
  // An isolated frame is about to be freed: kIsolated -> kInUse. Takes no lock.
  virtual void NoteFreed(FrameNo n) = 0;
  // Frames on a list, exactly; at rest.
  [[nodiscard]] virtual std::int64_t Size(LruList list) const = 0;
  // Frames isolated from this LRU now.
  [[nodiscard]] virtual std::int64_t isolated() const = 0;
  // Waiting for lines that several CPUs write without a lock; empty where there is none. The
  // lock's own is Zone::lru_lock's.
  [[nodiscard]] virtual LockStats line_stats() const { return {}; }
  // At rest: every frame of this zone in state kLru can be found by isolation exactly once, on the
  // list of its flags, and the exact counters agree. Empty, or what is wrong.
  [[nodiscard]] virtual std::string CheckInvariants() const = 0;
};

// The LRU of a zone, of the design that the machine's policy names.
std::unique_ptr<Lru> MakeLru(MemoryManager& mm, Zone& zone);

// group: the lists are those of one group in the zone, under the lock and with the sizes of its
// CgroupLists (mm/lru_per_cgroup.h); nullptr: the zone's, under its lru_lock.
std::unique_ptr<Lru> MakeLockedLru(MemoryManager& mm, Zone& zone, MemCgroup* group = nullptr);
std::unique_ptr<Lru> MakeRingLru(MemoryManager& mm, Zone& zone);
std::unique_ptr<Lru> MakeClockLru(MemoryManager& mm, Zone& zone);

// Host bytes that an LRU takes beside the frames themselves, at most, for a machine of so many.
[[nodiscard]] std::size_t LruBytesFor(LruDesign design, std::int64_t frames, std::size_t cpus);

}  // namespace pagestorm::mm
