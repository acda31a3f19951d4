#include "mm/mm_struct.h"

#include <algorithm>

namespace pagestorm::mm {

Area::Area(MmStruct& owner, std::uint32_t first_page, std::uint32_t page_count)
    : space(owner),
      first(first_page),
      pages(page_count),
      mapped(page_count),
      ptes(std::make_unique<std::atomic<std::uint64_t>[]>(page_count)) {}

Area* MmStruct::AreaAt(std::uint32_t page) const {
  const auto after = std::upper_bound(
      areas.begin(), areas.end(), page,
      [](std::uint32_t wanted, const std::unique_ptr<Area>& area) { return wanted < area->first; });
  if (after == areas.begin()) return nullptr;
  Area* area = std::prev(after)->get();
  return area->Contains(page) ? area : nullptr;
}

}  // namespace pagestorm::mm
