// What later kernels ask about a zone before they wait, retry or give up.
// Source: spec throttle-2.6.26 5.4, 5.6; kswapd-4.11 2.5.
#pragma once

#include <cstdint>

#include "mm/memory_manager.h"

namespace pagestorm::mm {

// Pages of the LRU lists that reclaim could take: file pages, and anonymous ones while swap has a
// free slot. Isolated pages are missing. By approximate counters; without split LRU mapped
// anonymous pages stand for all of them.
[[nodiscard]] std::int64_t ReclaimablePages(const MemoryManager& mm, const Zone& zone);
// Dirty pages and those under writeback.
[[nodiscard]] std::int64_t WritePending(const MemoryManager& mm, const Zone& zone);

}  // namespace pagestorm::mm
