// Page frames: what is known about each physical page. A frame holds no data, only state; its
// content is stood for by a stamp that must survive swap, migration and splits.
//
// Every field but the links is atomic and may be read by anyone. What changes it:
//   flags      set and cleared by atomic operations; kPageLocked is the page's sleeping lock
//   state      SetFrameState(), legal moves in CanMove()
//   next, prev the lock of the list the frame is on: zone.lock for buddy lists, lru_lock for LRU
//              lists, the list's own lock for per-CPU lists; a private list is its owner's
//   owner, index, mapper: set while the page lock is held or before the page is visible
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/check.h"
#include "core/units.h"

namespace pagestorm::mm {

using FrameNo = std::uint32_t;  // a Pfn in 32 bits: 2^32 frames are 16 TiB of 4 KiB pages
inline constexpr FrameNo kNoFrame = UINT32_MAX;

// Where a frame is. Exactly one; conservation counts frames by it.
enum class FrameState : std::uint8_t {
  kAbsent =
      0,   // a hole, or memory the kernel took before the allocator existed (not in present_pages)
  kBuddy,  // part of a free block in a zone's free lists
  kPcp,    // free, on a CPU's list
  kInUse,  // allocated: kernel memory, or a user page in transit (being mapped, being freed)
  kPagevec,   // waits in a CPU's pagevec for its turn on an LRU list
  kLru,       // on an LRU list
  kIsolated,  // taken off an LRU list by a reclaimer, on its private list
  // Only in LRUs without a lock (mm/lru_claim.h), for a few instructions:
  kClaimed,    // on an LRU list, and somebody is about to move it
  kAbandoned,  // the same, and whoever claimed it is to free it
};
[[nodiscard]] constexpr bool CanMove(FrameState from, FrameState to) {
  using enum FrameState;
  switch (from) {
    case kAbsent:
      return to == kBuddy;
    case kBuddy:
      return to == kPcp || to == kInUse;
    case kPcp:
      return to == kBuddy || to == kInUse;
    case kInUse:
      return to == kPcp || to == kBuddy || to == kPagevec || to == kLru;
    case kPagevec:
      return to == kLru || to == kInUse;
    case kLru:
      return to == kIsolated || to == kInUse || to == kClaimed;
    case kIsolated:
      return to == kLru || to == kInUse;
    case kClaimed:
      return to == kLru || to == kIsolated || to == kAbandoned;
    case kAbandoned:
      return to == kInUse;
  }
  return false;
}

// Flag bits; names as in the kernel. Bits 0..3 hold FrameState, bits 24..31 the zone's ordinal.
enum PageFlag : std::uint32_t {
  kPageLocked = 1U << 4,      // PG_locked
  kPageReferenced = 1U << 5,  // PG_referenced
  kPageDirty = 1U << 6,
  kPageActive = 1U << 7,
  kPageWriteback = 1U << 8,
  kPageReclaim = 1U << 9,  // free it as soon as its write completes
  kPageSwapCache = 1U << 10,
  kPageAnon = 1U << 11,
  kPageSwapBacked = 1U << 12,
  kPageSlab = 1U << 13,
  kPageUnevictable = 1U << 14,
  kPageHead =
      1U
      << 16,  // first frame of a free block (order: low byte of `priv`) or a compound one (`priv`)
  kPageUptodate = 1U << 17,
  kPageWaiters = 1U << 20,  // someone sleeps for kPageLocked or kPageWriteback
};
inline constexpr std::uint32_t kFrameStateMask = 0xf;
inline constexpr int kZoneShift = 24;
inline constexpr std::size_t kMaxZoneOrdinals = 256;

// Fewer processes than this may share one page: a frame's and a swap slot's counts have 16 bits,
// and reclaim and I/O take references too. Whoever starts a workload checks it.
inline constexpr std::int64_t kMaxSharers = 60'000;

struct PageFrame {
  std::atomic<std::uint32_t> flags{0};
  std::atomic<std::uint16_t> refcount{0};
  std::atomic<std::uint16_t> mapcount{0};  // ptes that map it
  FrameNo next = kNoFrame;
  FrameNo prev = kNoFrame;
  std::uint32_t owner = 0;  // anonymous: AnonVmaId; page cache: FileId; else 0
  std::uint32_t index = 0;  // page number within the owner's address range or file
  // Anonymous: 1 + the number, within its anon_vma, of the area that maps it (0: unknown); a hint
  // while mapcount > 1.
  std::uint32_t mapper = 0;
  std::uint32_t priv =
      0;  // free block: order | type << 8; on a pcp: type; swap cache: slot + 1; else 0

  [[nodiscard]] bool Test(std::uint32_t bits) const {
    return (flags.load(std::memory_order_acquire) & bits) != 0;
  }
  void Set(std::uint32_t bits) { flags.fetch_or(bits, std::memory_order_acq_rel); }
  void Clear(std::uint32_t bits) { flags.fetch_and(~bits, std::memory_order_acq_rel); }
  // Return whether a bit was set before.
  bool TestAndSet(std::uint32_t bit) {
    return (flags.fetch_or(bit, std::memory_order_acq_rel) & bit) != 0;
  }
  bool TestAndClear(std::uint32_t bit) {
    return (flags.fetch_and(~bit, std::memory_order_acq_rel) & bit) != 0;
  }
  [[nodiscard]] FrameState state() const { return StateIn(flags.load(std::memory_order_relaxed)); }
  [[nodiscard]] static FrameState StateIn(std::uint32_t word) {
    return static_cast<FrameState>(word & kFrameStateMask);
  }
  // Such flags with another state, to be put in their place by a compare-and-swap.
  [[nodiscard]] static std::uint32_t WithState(std::uint32_t word, FrameState to) {
    PS_CHECK(CanMove(StateIn(word), to));
    return (word & ~kFrameStateMask) | static_cast<std::uint32_t>(to);
  }
  // The caller owns the frame or holds the lock of the list it leaves or enters. The flags in
  // `mask`, which nobody else changes meanwhile, become as in `value` in the same step.
  void SetState(FrameState to, std::uint32_t mask = 0, std::uint32_t value = 0) {
    const std::uint32_t old = flags.load(std::memory_order_relaxed);
    PS_CHECK(CanMove(static_cast<FrameState>(old & kFrameStateMask), to));
    const std::uint32_t now = static_cast<std::uint32_t>(to) | (value & mask);
    flags.fetch_xor((old ^ now) & (kFrameStateMask | mask), std::memory_order_acq_rel);
  }
  // The same for a frame nobody else can reach (free, or without a reference): forgets all flags on
  // the way.
  void ResetState(FrameState to) {
    const std::uint32_t old = flags.load(std::memory_order_relaxed);
    PS_CHECK(CanMove(static_cast<FrameState>(old & kFrameStateMask), to));
    // release: a lock-free look at the frame by number (lumpy isolation) sees what was written
    // before.
    flags.store((old & ~((1U << kZoneShift) - 1)) | static_cast<std::uint32_t>(to),
                std::memory_order_release);
  }
  [[nodiscard]] std::size_t zone() const {
    return flags.load(std::memory_order_relaxed) >> kZoneShift;
  }
};
static_assert(sizeof(PageFrame) == 32, "two frames a cache line");

// One word a frame that only proofs read; absent on machines booted without stamps.
struct PageFrameCold {
  std::atomic<std::uint64_t> stamp{0};  // stands for the content
};

// The group a frame is charged to, and its place on that group's lists (mm/memcg.h); only on
// machines with groups.
struct PageCgroup {
  FrameNo next = 0;  // of a list: the lock of CgroupLists
  FrameNo prev = 0;
  std::atomic<std::uint16_t> number{0};  // MemCgroup::number; 0: charged to none
  std::atomic<std::uint8_t> list{0};     // 1 + the LruList it is on; 0: on none
  bool file = false;                     // charged as a page of a file
};
static_assert(sizeof(PageCgroup) == 12);

// All frames of a machine, indexed by page frame number from 0. Memory of holes is never touched.
class FrameTable {
 public:
  FrameTable() = default;
  ~FrameTable();
  FrameTable(const FrameTable&) = delete;
  FrameTable& operator=(const FrameTable&) = delete;

  // What else than PageFrame each frame has.
  struct Extras {
    bool stamps = false;
    bool groups = false;
  };
  // Maps zeroed memory for frames [0, end). Huge pages are asked for. False: the host refuses.
  [[nodiscard]] bool Map(FrameNo end, Extras extras);
  // Host bytes that Map() would reserve.
  [[nodiscard]] static std::size_t BytesFor(std::uint64_t frames, Extras extras) {
    return frames * (sizeof(PageFrame) + (extras.stamps ? sizeof(PageFrameCold) : 0) +
                     (extras.groups ? sizeof(PageCgroup) : 0));
  }

  [[nodiscard]] PageFrame& operator[](FrameNo n) { return hot_[n]; }
  [[nodiscard]] const PageFrame& operator[](FrameNo n) const { return hot_[n]; }
  [[nodiscard]] FrameNo NumberOf(const PageFrame& frame) const {
    return static_cast<FrameNo>(&frame - hot_);
  }
  [[nodiscard]] FrameNo end() const { return end_; }
  [[nodiscard]] bool has_stamps() const { return cold_ != nullptr; }
  // Without stamps they read as 0 and writes are dropped.
  [[nodiscard]] std::uint64_t Stamp(FrameNo n) const {
    return cold_ == nullptr ? 0 : cold_[n].stamp.load(std::memory_order_relaxed);
  }
  void SetStamp(FrameNo n, std::uint64_t stamp) {
    if (cold_ != nullptr) cold_[n].stamp.store(stamp, std::memory_order_relaxed);
  }
  // Of machines with groups.
  [[nodiscard]] PageCgroup& group(FrameNo n) {
    PS_DCHECK(groups_ != nullptr);
    return groups_[n];
  }
  [[nodiscard]] const PageCgroup& group(FrameNo n) const {
    PS_DCHECK(groups_ != nullptr);
    return groups_[n];
  }

 private:
  PageFrame* hot_ = nullptr;
  PageFrameCold* cold_ = nullptr;
  PageCgroup* groups_ = nullptr;
  FrameNo end_ = 0;
};

// A doubly linked list of frames through PageFrame::next/prev. Owns nothing; guarded by whoever
// owns it.
class FrameList {
 public:
  [[nodiscard]] bool empty() const { return head_ == kNoFrame; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] FrameNo head() const { return head_; }
  [[nodiscard]] FrameNo tail() const { return tail_; }
  void PushHead(FrameTable& frames, FrameNo n) {
    PageFrame& frame = frames[n];
    frame.prev = kNoFrame;
    frame.next = head_;
    (head_ != kNoFrame ? frames[head_].prev : tail_) = n;
    head_ = n;
    ++size_;
  }
  void PushTail(FrameTable& frames, FrameNo n) {
    PageFrame& frame = frames[n];
    frame.next = kNoFrame;
    frame.prev = tail_;
    (tail_ != kNoFrame ? frames[tail_].next : head_) = n;
    tail_ = n;
    ++size_;
  }
  void Remove(FrameTable& frames, FrameNo n) {
    PageFrame& frame = frames[n];
    PS_DCHECK(size_ > 0);
    (frame.prev != kNoFrame ? frames[frame.prev].next : head_) = frame.next;
    (frame.next != kNoFrame ? frames[frame.next].prev : tail_) = frame.prev;
    frame.next = frame.prev = kNoFrame;
    --size_;
  }
  // Puts all of `other`, in its order, before this list's head; `other` is empty afterwards.
  void SpliceHead(FrameTable& frames, FrameList& other) {
    if (other.empty()) return;
    frames[other.tail_].next = head_;
    (head_ != kNoFrame ? frames[head_].prev : tail_) = other.tail_;
    head_ = other.head_;
    size_ += other.size_;
    other = {};
  }
  // kNoFrame when empty.
  FrameNo PopHead(FrameTable& frames) {
    const FrameNo n = head_;
    if (n != kNoFrame) Remove(frames, n);
    return n;
  }
  FrameNo PopTail(FrameTable& frames) {
    const FrameNo n = tail_;
    if (n != kNoFrame) Remove(frames, n);
    return n;
  }

 private:
  FrameNo head_ = kNoFrame;
  FrameNo tail_ = kNoFrame;
  std::int64_t size_ = 0;
};

}  // namespace pagestorm::mm
