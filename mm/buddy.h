// The buddy system of one zone: power-of-two blocks of free frames, grouped by migrate type.
//
// Invariants, verified by CheckBuddy():
//   - a free block's frames are all in state kBuddy; its first frame alone carries kPageHead, with
//   the order in
//     `priv`, and is on exactly one list: that order's, of any type;
//   - no two free buddies of one order exist side by side (they would have merged);
//   - nr_free of an order is the sum of its lists' lengths.
// A block never crosses its zone, and blocks of two zones never merge. NR_FREE_PAGES follows every
// block on the running CPU. Nothing here charges: the caller does, by the steps counted. Source:
// spec throttle-2.6.26 2.8.
#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "mm/migrate_type.h"
#include "mm/page_frame.h"
#include "mm/zone.h"

namespace pagestorm::mm {

struct BuddyWork {
  std::int64_t steps = 0;  // blocks taken or put, splits, merges, blocks moved between types
};

// A block of 2^order frames for `type`, all moved from kBuddy to state `to` (kPcp or kInUse); falls
// back on other types, largest block first, and on RESERVE at last. kNoFrame: no block is large
// enough.
[[nodiscard]] FrameNo TakeBlockLocked(Zone& zone, int order, MigrateType type, FrameState to,
                                      BuddyWork& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(zone.lock);
// Frees a block whose frames are kPcp or kInUse: merges, and inserts at the head of its pageblock's
// type.
void PutBlockLocked(Zone& zone, FrameNo n, int order, BuddyWork& work)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(zone.lock);
// What every free into the buddy means to reclaim: the zone is worth scanning again.
void NoteBuddyFree(Zone& zone);

// Marks the first ceil(min / pageblock) movable pageblocks as RESERVE and takes back those beyond.
void SetupReserveLocked(Zone& zone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(zone.lock);

// --- before the engine runs, on the host ---

// Writes the frames [begin, end) of a zone, both multiples of 2^kMaxOrder or the zone's own bounds:
// below zone.first absent, otherwise free and part of the blocks that LinkFreeBlocks() strings
// together. May run on several host threads at once for disjoint ranges.
void InitFrames(Zone& zone, FrameNo begin, FrameNo end);
// Puts all of a zone's blocks on the lists as freeing its frames in ascending order would: highest
// block first.
void LinkFreeBlocks(Zone& zone);
void SetupReserveAtBoot(Zone& zone);

// Empty, or what is wrong. At rest.
[[nodiscard]] std::string CheckBuddy(Zone& zone);

}  // namespace pagestorm::mm
