#include "mm/zonelist.h"

#include <algorithm>
#include <numeric>

namespace pagestorm::mm {

ZonelistOrder ChooseZonelistOrder(std::span<const std::int64_t> low,
                                  std::span<const std::int64_t> total) {
  const std::int64_t all_low = std::accumulate(low.begin(), low.end(), std::int64_t{0});
  const std::int64_t all = std::accumulate(total.begin(), total.end(), std::int64_t{0});
  // Zone order protects low memory; there is none to protect, or hardly anything else.
  if (all_low == 0 || all_low > all / 2) return ZonelistOrder::kNode;
  const std::int64_t average = all / (static_cast<std::int64_t>(total.size()) + 1);
  for (std::size_t node = 0; node < total.size(); ++node) {
    if (low[node] != 0 && total[node] > average && low[node] > total[node] * 70 / 100) {
      return ZonelistOrder::kNode;  // it would have to go to other nodes for nearly everything
    }
  }
  return ZonelistOrder::kZone;
}

std::optional<ZonelistOrder> ParseZonelistOrder(std::string_view text) {
  const char first = text.empty() ? 'd' : text.front();
  if (first == 'n' || first == 'N') return ZonelistOrder::kNode;
  if (first == 'z' || first == 'Z') return ZonelistOrder::kZone;
  return std::nullopt;
}

std::vector<Zone*> BuildZonelist(std::span<const std::vector<Zone*>> nodes, ZonelistOrder order) {
  std::vector<Zone*> list;
  for (const std::vector<Zone*>& node : nodes) list.insert(list.end(), node.rbegin(), node.rend());
  if (order == ZonelistOrder::kZone) {
    std::ranges::stable_sort(list,
                             [](const Zone* a, const Zone* b) { return a->index > b->index; });
  }
  return list;
}

void FullZones::Refresh(std::int64_t now_ns) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (now_ns - last_ns_.load(kRelaxed) <= kSecond.n) return;
  last_ns_.store(now_ns, kRelaxed);
  for (auto& word : full_) word.store(0, kRelaxed);
}

Zonelists FilterZonelists(const std::vector<Zone*>& all, const std::vector<Zone*>& own) {
  Zonelists lists;
  for (int highest = 0; highest < numa::kMaxZones; ++highest) {
    const auto i = static_cast<std::size_t>(highest);
    const auto usable = [highest](const Zone* zone) { return zone->index <= highest; };
    std::ranges::copy_if(all, std::back_inserter(lists.all[i]), usable);
    std::ranges::copy_if(own, std::back_inserter(lists.own[i]), usable);
  }
  return lists;
}

}  // namespace pagestorm::mm
