// When pages that are mapped may leave the active list: the distress formula of 2.6.26.
// Source: spec throttle-2.6.26 2.16.3.
#pragma once

#include <cstdint>

namespace pagestorm::mm {

struct ReclaimMappedInputs {
  int priority = 12;
  int prev_priority = 12;
  std::int64_t active = 0;  // pages of the zone, as counted (isolated ones are missing)
  std::int64_t inactive = 0;
  std::int64_t pages_scanned = 0;  // of the zone, since a page was last freed into it
  std::int64_t mapped = 0;         // mapped file pages + anonymous pages of the machine
  std::int64_t vm_total = 1;       // pages of the machine
  std::int64_t swappiness = 60;
};

// 100 >> min(prev_priority, priority).
[[nodiscard]] std::int64_t Distress(int prev_priority, int priority);
// Percent; mapped pages are deactivated from 100 on.
[[nodiscard]] std::int64_t SwapTendency(const ReclaimMappedInputs& in);
// The zone has been scanned three times over without success. True of an empty zone whatever was
// scanned.
[[nodiscard]] bool ZoneNearOom(const ReclaimMappedInputs& in);
[[nodiscard]] bool ReclaimMappedNow(const ReclaimMappedInputs& in);

}  // namespace pagestorm::mm
