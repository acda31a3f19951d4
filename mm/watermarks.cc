#include "mm/watermarks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/check.h"

namespace pagestorm::mm {

std::int64_t IntSqrt(std::int64_t value) {
  PS_CHECK(value >= 0);
  std::int64_t root = 0;
  // Bit by bit from the top; 31 bits hold the root of any 62-bit value.
  for (std::int64_t bit = std::int64_t{1} << 31; bit > 0; bit >>= 1) {
    const std::int64_t tried = root | bit;
    if (tried <= value / tried) root = tried;
  }
  return root;
}

std::int64_t DefaultMinFreeKbytes(std::int64_t lowmem_kbytes, std::int64_t cap) {
  return std::clamp<std::int64_t>(IntSqrt(16 * lowmem_kbytes), 128, cap);
}

std::int64_t HugePageMinFreeKbytes(std::int64_t populated_zones, Pages lowmem, PageShift shift,
                                   int pageblock_order) {
  // Two blocks a zone, and one for each pair of the three migrate types that may mix.
  const Pages wanted{populated_zones * (2 + 9) << pageblock_order};
  return ToKiB(std::min(wanted, Pages{lowmem.n / 20}), shift);
}

Watermarks ComputeWatermarks(const WatermarkPolicy& rule, std::int64_t pages_min, std::int64_t size,
                             std::int64_t lowmem) {
  PS_CHECK(lowmem > 0);
  const std::int64_t min = pages_min * size / lowmem;
  switch (rule.steps) {
    case WatermarkSteps::kQuarterHalf:
      return {min, min + min / 4, min + min / 2};
    case WatermarkSteps::kScaleFactor: {
      const std::int64_t step = std::max(min / 4, size * rule.scale_factor / 10'000);
      return {min, min + step, min + 2 * step};
    }
  }
  return {};
}

ReserveTable ComputeReserves(std::span<const std::int64_t> sizes,
                             std::span<const std::int64_t> ratio) {
  PS_CHECK(sizes.size() <= numa::kMaxZones);
  ReserveTable reserve{};
  for (std::size_t j = 1; j < sizes.size(); ++j) {
    std::int64_t above = sizes[j];
    for (std::size_t i = j; i-- > 0;) {
      const std::int64_t divisor = i < ratio.size() ? std::max<std::int64_t>(ratio[i], 1) : 1;
      reserve[i][j] = above / divisor;
      above += sizes[i];
    }
  }
  return reserve;
}

std::int64_t ReservedShare(std::int64_t size, std::int64_t high,
                           std::span<const std::int64_t> reserve) {
  const std::int64_t most = reserve.empty() ? 0 : *std::ranges::max_element(reserve);
  return std::min(size, high + most);
}

PcpSize ComputePcpSize(Pages present, PageShift shift, std::int64_t fraction) {
  if (fraction > 0) {
    const std::int64_t high = present.n / fraction;
    return {high, std::min<std::int64_t>(std::max<std::int64_t>(1, high / 4), shift.n * 8)};
  }
  std::int64_t batch = std::min(present.n / 1024, std::int64_t{512 * 1024} >> shift.n) / 4;
  batch = std::max<std::int64_t>(batch, 1);
  // One below a power of two: lists that are multiples of it collide less in the cache.
  batch =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(batch + batch / 2))) - 1;
  return {6 * batch, std::max<std::int64_t>(1, batch)};
}

std::int64_t InactiveRatio(Pages present, PageShift shift) {
  const std::int64_t gib = present.n >> (30 - shift.n);
  return std::max<std::int64_t>(1, IntSqrt(10 * gib));
}

std::int64_t ReserveBlocks(std::int64_t min, int pageblock_order) {
  const std::int64_t block = std::int64_t{1} << pageblock_order;
  return (min + block - 1) / block;
}

}  // namespace pagestorm::mm
