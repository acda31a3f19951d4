// Allocation request flags, values and names of the emulated kernel.
// Source: spec throttle-2.6.26 2.3 (2.6.26); later kernels map onto the same bits at the boundary.
#pragma once

#include <cstdint>

namespace pagestorm::mm {

using Gfp = std::uint32_t;

inline constexpr Gfp __GFP_DMA = 0x1;
inline constexpr Gfp __GFP_HIGHMEM = 0x2;
inline constexpr Gfp __GFP_DMA32 = 0x4;
inline constexpr Gfp __GFP_WAIT = 0x10;
inline constexpr Gfp __GFP_HIGH = 0x20;
inline constexpr Gfp __GFP_IO = 0x40;
inline constexpr Gfp __GFP_FS = 0x80;
inline constexpr Gfp __GFP_COLD = 0x100;
inline constexpr Gfp __GFP_NOWARN = 0x200;
inline constexpr Gfp __GFP_REPEAT = 0x400;
inline constexpr Gfp __GFP_NOFAIL = 0x800;
inline constexpr Gfp __GFP_NORETRY = 0x1000;
inline constexpr Gfp __GFP_COMP = 0x4000;
inline constexpr Gfp __GFP_ZERO = 0x8000;
inline constexpr Gfp __GFP_NOMEMALLOC = 0x10000;
inline constexpr Gfp __GFP_HARDWALL = 0x20000;
inline constexpr Gfp __GFP_THISNODE = 0x40000;
inline constexpr Gfp __GFP_RECLAIMABLE = 0x80000;
inline constexpr Gfp __GFP_MOVABLE = 0x100000;

inline constexpr Gfp GFP_ATOMIC = __GFP_HIGH;
inline constexpr Gfp GFP_NOIO = __GFP_WAIT;
inline constexpr Gfp GFP_NOFS = __GFP_WAIT | __GFP_IO;
inline constexpr Gfp GFP_KERNEL = __GFP_WAIT | __GFP_IO | __GFP_FS;
inline constexpr Gfp GFP_USER = GFP_KERNEL | __GFP_HARDWALL;
inline constexpr Gfp GFP_HIGHUSER = GFP_USER | __GFP_HIGHMEM;
inline constexpr Gfp GFP_HIGHUSER_MOVABLE = GFP_HIGHUSER | __GFP_MOVABLE;  // 0x1200d2
inline constexpr Gfp GFP_THISNODE = __GFP_THISNODE | __GFP_NOWARN | __GFP_NORETRY;

inline constexpr int kMaxOrder = 10;  // the highest order; MAX_ORDER is 11
inline constexpr int kPageAllocCostlyOrder = 3;
inline constexpr int kSwapClusterMax = 32;
inline constexpr int kDefPriority = 12;
inline constexpr int kNapBelowPriority = kDefPriority - 2;  // reclaimers nap below it
inline constexpr int kPagevecSize = 14;

[[nodiscard]] constexpr bool HasIoAndFs(Gfp gfp) {
  return (gfp & (__GFP_IO | __GFP_FS)) == (__GFP_IO | __GFP_FS);
}

}  // namespace pagestorm::mm
