// Zonelists: in which order a request that prefers a node tries the zones of the machine, and which
// of them were full a moment ago. Source: spec throttle-2.6.26 2.2, 2.9.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/units.h"
#include "mm/zone.h"
#include "numa/memory_map.h"
#include "numa/topology.h"

namespace pagestorm::mm {

enum class ZonelistOrder : std::uint8_t { kNode, kZone };

// The kernel's choice when none is asked for.
//   low, total: by node, present pages of the zones below Normal and of all zones.
[[nodiscard]] ZonelistOrder ChooseZonelistOrder(std::span<const std::int64_t> low,
                                                std::span<const std::int64_t> total);
// numa_zonelist_order: the first letter decides, in any case; d (or anything else): nullopt.
[[nodiscard]] std::optional<ZonelistOrder> ParseZonelistOrder(std::string_view text);

// All populated zones in the order a request from one node tries them.
//   nodes: the zones of each node, in the order of visit, each by ascending index.
[[nodiscard]] std::vector<Zone*> BuildZonelist(std::span<const std::vector<Zone*>> nodes,
                                               ZonelistOrder order);

// Zones of one node's list found full lately. Shared by all CPUs without a lock: a bit lost or read
// late costs one more watermark check or one zone skipped.
class FullZones {
 public:
  // Forgets everything if the last time was more than a second ago.
  void Refresh(std::int64_t now_ns);
  [[nodiscard]] bool Has(const Zone& zone) const {
    return (Word(zone).load(std::memory_order_relaxed) & Bit(zone)) != 0;
  }
  void Mark(const Zone& zone) { Word(zone).fetch_or(Bit(zone), std::memory_order_relaxed); }

 private:
  static std::uint64_t Bit(const Zone& zone) { return std::uint64_t{1} << (zone.ordinal % 64); }
  std::atomic<std::uint64_t>& Word(const Zone& zone) { return full_[zone.ordinal / 64]; }
  const std::atomic<std::uint64_t>& Word(const Zone& zone) const {
    return full_[zone.ordinal / 64];
  }

  std::atomic<std::int64_t> last_ns_{0};
  std::array<std::atomic<std::uint64_t>, kMaxZoneOrdinals / 64> full_{};
};

// What a request looks at: built once, by node and by the highest zone index it may use.
struct Zonelists {
  std::array<std::vector<Zone*>, numa::kMaxZones> all;  // by highest zone index
  std::array<std::vector<Zone*>, numa::kMaxZones> own;  // __GFP_THISNODE
  std::unique_ptr<FullZones> full = std::make_unique<FullZones>();
};
[[nodiscard]] Zonelists FilterZonelists(const std::vector<Zone*>& all,
                                        const std::vector<Zone*>& own);

}  // namespace pagestorm::mm
