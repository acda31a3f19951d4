// Whether reclaimers hold so many pages of a kind that one more should not isolate any.
// Source: spec throttle-2.6.26 5.1.
#pragma once

#include <cstdint>

#include "mm/lru.h"
#include "mm/memory_manager.h"
#include "mm/reclaim.h"

namespace pagestorm::mm {

struct IsolationBound {
  bool of_node = false;      // counted over the node's zones (4.8 on) instead of the zone alone
  std::int64_t divisor = 1;  // callers with IO and FS: inactive / divisor (8 since 3.8)
};

// isolated > bound, for the kind of page (anonymous or file; without split LRU all) that `list`
// holds. Reads approximate counters; free of charge.
[[nodiscard]] bool TooManyIsolated(const MemoryManager& mm, const Zone& zone, LruList list, Gfp gfp,
                                   const IsolationBound& bound);

}  // namespace pagestorm::mm
