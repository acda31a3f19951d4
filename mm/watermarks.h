// How much of a zone is kept free, and for whom: pure arithmetic over zone sizes, all in pages.
//
// The kernels emulated differ in two points, which are arguments here: what a zone's size is
// (present pages until 3.8, managed pages since) and how far low and high stand above min. Numbers
// that come out must be those of real machines: tests compare them with dumps of /proc/zoneinfo.
// Source: spec throttle-2.6.26 2.4, 2.5, 2.7, 2.17; kswapd-4.11 1.3-1.5.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/units.h"
#include "mm/gfp.h"
#include "mm/mm_policy.h"
#include "mm/relaxed.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {

struct Watermarks {
  Relaxed<std::int64_t> min = 0;
  Relaxed<std::int64_t> low = 0;
  Relaxed<std::int64_t> high = 0;
};

// Largest r with r * r <= value; value >= 0.
[[nodiscard]] std::int64_t IntSqrt(std::int64_t value);

// Default min_free_kbytes: isqrt(16 * lowmem) within [128, cap]; cap is 65536 until about 5.8.
[[nodiscard]] std::int64_t DefaultMinFreeKbytes(std::int64_t lowmem_kbytes,
                                                std::int64_t cap = 65536);
// What transparent huge pages raise it to: 11 page blocks for each populated zone, at most a
// twentieth of memory; in KiB. Kernels since 2.6.38.
[[nodiscard]] std::int64_t HugePageMinFreeKbytes(std::int64_t populated_zones, Pages lowmem,
                                                 PageShift shift, int pageblock_order = 9);

// A zone's marks.
//   pages_min: min_free_kbytes in pages, of the whole machine.   lowmem: sum of all sizes.
[[nodiscard]] Watermarks ComputeWatermarks(const WatermarkPolicy& rule, std::int64_t pages_min,
                                           std::int64_t size, std::int64_t lowmem);

// lowmem_reserve of every zone of one node ("protection"): result[i][j] is what zone i keeps from
// requests that could have used zone j.
//   sizes: by zone index, 0 for an empty zone.   ratio: by zone index; values < 1 count as 1.
using ReserveTable = std::array<std::array<std::int64_t, numa::kMaxZones>, numa::kMaxZones>;
[[nodiscard]] ReserveTable ComputeReserves(std::span<const std::int64_t> sizes,
                                           std::span<const std::int64_t> ratio);

// A zone's share of totalreserve_pages: min(size, high + largest reserve).
[[nodiscard]] std::int64_t ReservedShare(std::int64_t size, std::int64_t high,
                                         std::span<const std::int64_t> reserve);

// Size of a CPU's list of free pages of a zone.
struct PcpSize {
  std::int64_t high = 0;   // reaching it spills `batch`
  std::int64_t batch = 1;  // pages moved under one hold of zone.lock
};
//   fraction: percpu_pagelist_fraction, 0 or >= 8.
[[nodiscard]] PcpSize ComputePcpSize(Pages present, PageShift shift, std::int64_t fraction = 0);

// Split LRU: anon inactive : active ought to be 1 : this.
[[nodiscard]] std::int64_t InactiveRatio(Pages present, PageShift shift);

// Page blocks of the RESERVE type a zone gets for its min watermark.
[[nodiscard]] std::int64_t ReserveBlocks(std::int64_t min, int pageblock_order);

}  // namespace pagestorm::mm
