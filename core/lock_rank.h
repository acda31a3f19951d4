// The order in which the emulated kernel's spin locks may be taken: always downwards in this table.
// docs/locking.md holds the same table with what each lock guards. Checked at run time in every
// build: a task that takes a lock whose rank is not above the last one it holds aborts with both.
#pragma once

#include <cstdint>

namespace pagestorm {

enum class LockRank : std::uint8_t {
  kNone = 0,
  kTaskList = 20,      // the list of tasks (tasklist_lock): OOM selection, fork, exit
  kAnonVma = 30,       // one reverse-mapping list (anon_vma.lock)
  kLru = 40,           // LRU lists of one zone or node (lru_lock)
  kMemcgLru = 42,      // lists of one memory cgroup in one zone (mem_cgroup_per_zone.lru_lock)
  kSwap = 46,          // swap slots of all devices (swap_lock)
  kSwapCache = 50,     // index of the swap cache (swapper_space.tree_lock)
  kZone = 60,          // buddy lists of one zone (zone.lock)
  kOomScan = 64,       // which zones are being OOM-scanned (zone_scan_lock)
  kRequestQueue = 70,  // one disk's queue (queue_lock)
  kSwapToken = 74,     // swap_token_lock
  kLeaf = 90,          // a lock under which no other is taken
};

}  // namespace pagestorm
