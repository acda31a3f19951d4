// Memory cgroups: a tree of groups of processes, and a limit on the pages each may have together
// with the groups below it.
//
// A user page is charged, when it is allocated, to the group of the address space it is for and to
// every group above; it stays charged, swap cache included, until it is freed (ADR 0032). A charge
// that a limit refuses reclaims from the group at its limit, five rounds, then kills inside it. The
// root group, number 0, has no limit and is not counted. A machine without groups has no
// MemCgroups, and its allocator and reclaim pay one branch for that.
//
// Which lists limit reclaim walks is a policy (MemcgPolicy::lru):
//   zone        2.6.26: a page is on its zone's LRU and on a list of its group; the group's says
//               whom limit reclaim meets, the zone's whom everybody else does.
//   per_cgroup  5.11: a page is on the LRU of its zone and group alone, each with a lru_lock of its
//               own (mm/lru_per_cgroup.h); global reclaim goes from group to group.
//
// Invariants, verified by CheckInvariants(): usage of a group == frames charged to it and to those
// below; usage <= limit; with lru = zone every charged frame is on one list of its group.
// Thread-safe: counters are atomic, lists have a lock for each group and zone.
// Source: spec throttle-2.6.26 1.3, 1.8, 5.7; algorithm: ADR 0032.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "core/spin_lock.h"
#include "mm/gfp.h"
#include "mm/lru.h"
#include "mm/memory_manager.h"
#include "mm/page_frame.h"

namespace pagestorm::mm {

struct MmStruct;

// The frames charged to one group in one zone, as limit reclaim goes by them. Links are
// PageCgroup::next and prev.
class CgroupLists {
 public:
  CgroupLists(Engine& engine, MemcgLru policy);

  // zone: the lists below and the links of their frames (kMemcgLru). per_cgroup: the lists of the
  // LRU of this zone and group (kLru); heads and tails below are not used.
  SpinLock lock;
  struct List {
    FrameNo head = kNoFrame;
    FrameNo tail = kNoFrame;
    std::atomic<std::int64_t> size{0};  // written by who moved the frames
  };
  std::array<List, kLruLists> lists;

  // Split LRU: what limit reclaim found scanned and in use; anonymous, file.
  std::array<std::atomic<std::int64_t>, 2> recent_scanned{};
  std::array<std::atomic<std::int64_t>, 2> recent_rotated{};
};

struct MemCgroup {
  MemCgroup(MemoryManager& mm, int number, std::string path, MemCgroup* parent, Pages limit);
  MemCgroup(const MemCgroup&) = delete;
  MemCgroup& operator=(const MemCgroup&) = delete;

  // Whether `other` is this group or below it.
  [[nodiscard]] bool Contains(const MemCgroup& other) const {
    const MemCgroup* group = &other;
    while (group != nullptr && group != this) group = group->parent;
    return group == this;
  }
  [[nodiscard]] bool HasRoom() const { return usage.load(std::memory_order_relaxed) < limit.n; }
  [[nodiscard]] CgroupLists& In(const Zone& zone) { return *zones[zone.ordinal]; }

  const int number;
  const std::string path;  // "/all/g0"; the root: "/"
  MemCgroup* const parent;
  const Pages limit;                // kNoLimit: none
  std::vector<MemCgroup*> subtree;  // itself first; fixed once the tree is built

  std::atomic<std::int64_t> usage{0};      // pages, those of the groups below included
  std::atomic<std::int64_t> max_usage{0};  // pages
  std::atomic<std::int64_t> failcnt{0};    // charges that its limit refused, tries again included
  std::atomic<std::int64_t> anon{0};       // of its own: pages charged for address spaces
  std::atomic<std::int64_t> cache{0};      // of its own: pages of files
  std::atomic<int> prev_priority{kDefPriority};
  std::atomic<std::size_t> next_victim{0};  // position in subtree where the next round begins

  // For reports.
  std::atomic<std::int64_t> reclaims{0};         // rounds of limit reclaim, for this limit
  std::atomic<std::int64_t> fruitless{0};        // of these, without progress and without room
  std::atomic<std::int64_t> pages_reclaimed{0};  // from its lists by limit reclaim
  std::atomic<std::int64_t> pages_scanned{0};    // of its inactive lists, by limit reclaim
  std::atomic<std::int64_t> kills{0};            // because of this limit
  std::atomic<std::int64_t> bypassed{0};         // pages that dying tasks took without a charge

  std::vector<std::unique_ptr<CgroupLists>> zones;  // by zone ordinal
};
inline constexpr Pages kNoLimit{INT64_MAX / 2};
inline constexpr std::size_t kMemCgroupsMax = 4096;  // a frame's group has 16 bits

// What a page is charged as.
enum class ChargeAs : std::uint8_t {
  kAnon,
  kCache,      // a page of a file
  kReadAhead,  // anonymous, not asked for yet: reclaims for it, but kills nobody
};

class MemCgroups {
 public:
  // Of MmConfig::cgroups, which Check() has accepted and which is not empty.
  explicit MemCgroups(MemoryManager& mm);
  ~MemCgroups();

  // InvalidArgument with one line about the first group that cannot be.
  static absl::Status Check(const std::vector<MemCgroupSpec>& specs);

  // --- tasks ---

  // Puts a space into leaf number `n` modulo the leaves. Pages it has stay charged as they are.
  // Charges a system call.
  void Attach(MmStruct& space, std::int64_t n);
  // Charges a new frame that nobody else can reach to the group of `space` (nullptr: the root's).
  // False: the limit does not allow it, and there is nobody to kill for it. May reclaim, sleep,
  // kill, and throw Cancelled. A dying task gets its page without a charge.
  [[nodiscard]] bool TryCharge(FrameNo n, const MmStruct* space, ChargeAs as);
  // The frame is being freed; nothing if it was not charged. Never blocks.
  void Uncharge(FrameNo n) {
    if (mm_.frames.group(n).number.load(std::memory_order_relaxed) != 0) UnchargeSlow(n);
  }

  // --- reclaim ---

  [[nodiscard]] bool owns_lists() const { return policy_ == MemcgLru::kPerCgroup; }
  // Frames of the group's list: those of lru = zone include pages that somebody has isolated.
  [[nodiscard]] std::int64_t ListSize(MemCgroup& group, const Zone& zone, LruList list);
  struct Wanted {
    std::int64_t pages = 0;
    LruList list = LruList::kInactiveAnon;
    int order = 0;  // per_cgroup alone, as `mode`: a walk of a group's list takes no companions
    IsolateMode mode = IsolateMode::kInactive;
  };
  // Lru::Isolate() for one group. lru = zone: from the tail of the group's list; what was looked at
  // goes to its head.
  Isolated Isolate(MemCgroup& group, Zone& zone, const Wanted& wanted, BatchEntries& batch);
  // Frames the caller has references to may have become active, or inactive: those that did go to
  // the head of the group's other list, if they are charged and lru = zone.
  void NoteMoved(std::span<const BatchEntry> entries);
  void NoteMoved(FrameNo n);

  [[nodiscard]] MemCgroup& GroupOf(FrameNo n) {
    return groups_[mm_.frames.group(n).number.load(std::memory_order_relaxed)];
  }
  [[nodiscard]] MemCgroup* GroupOf(const MmStruct& space) const;  // the root's for those in none
  [[nodiscard]] std::deque<MemCgroup>& all() { return groups_; }  // the root first, then as given
  [[nodiscard]] const std::deque<MemCgroup>& all() const { return groups_; }
  [[nodiscard]] const std::vector<MemCgroup*>& leaves() const { return leaves_; }

  // Of the locks of all groups in the zone together; at rest.
  [[nodiscard]] LockStats LockStatsOf(const Zone& zone);
  // At rest. Empty, or what is wrong.
  [[nodiscard]] std::string CheckInvariants();

 private:
  // Adds a page to a group and those above it; the first one that refuses, or nullptr.
  static MemCgroup* TryAdd(MemCgroup& group);
  static void Subtract(MemCgroup& group, MemCgroup* end);
  // One round for the limit of `full`: its lists and those of the groups below, from where the last
  // round ended, until there is progress. Returns whether another charge is worth a try.
  bool ReclaimRound(MemCgroup& full);
  void Link(FrameNo n, MemCgroup& group, ChargeAs as);
  Isolated IsolateFromList(MemCgroup& group, Zone& zone, const Wanted& wanted, BatchEntries& batch);
  // Frames of the list that are on the zone's LRU, too, from the tail on.
  using Found = absl::InlinedVector<FrameNo, kSwapClusterMax>;
  Found LookAtTail(CgroupLists& lists, const Zone& zone, const Wanted& wanted);
  void UnchargeSlow(FrameNo n);
  void PushHeadLocked(CgroupLists& lists, FrameNo n, LruList list);
  void RemoveLocked(CgroupLists& lists, FrameNo n);
  [[nodiscard]] std::string CheckLists(MemCgroup& group, Zone& zone) const;

  MemoryManager& mm_;
  const MemcgLru policy_;
  std::deque<MemCgroup> groups_;
  std::vector<MemCgroup*> leaves_;
};

// PageAllocator::Alloc() of one page for `space`, charged to its group. nullopt: no memory, or the
// limit of the group.
[[nodiscard]] std::optional<FrameNo> AllocCharged(MemoryManager& mm, Gfp gfp, const MmStruct* space,
                                                  ChargeAs as);

// Files of every group, as {path below the run directory, text}: {"cgroup/g0/memory.failcnt", ...},
// the root's left out. Empty without groups.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> CgroupFiles(MemoryManager& mm);

}  // namespace pagestorm::mm
