#include "mm/shrink_active.h"

#include <algorithm>

namespace pagestorm::mm {

std::int64_t Distress(int prev_priority, int priority) {
  return 100 >> std::min(prev_priority, priority);
}

std::int64_t SwapTendency(const ReclaimMappedInputs& in) {
  const std::int64_t mapped_ratio = 100 * in.mapped / std::max<std::int64_t>(in.vm_total, 1);
  std::int64_t imbalance = in.active / (in.inactive + 1);
  imbalance = imbalance * (in.swappiness + 1) / 100;
  imbalance = imbalance * mapped_ratio / 100;
  return mapped_ratio / 2 + Distress(in.prev_priority, in.priority) + in.swappiness + imbalance;
}

bool ZoneNearOom(const ReclaimMappedInputs& in) {
  return in.pages_scanned >= 3 * (in.active + in.inactive);
}

bool ReclaimMappedNow(const ReclaimMappedInputs& in) {
  return ZoneNearOom(in) || SwapTendency(in) >= 100;
}

}  // namespace pagestorm::mm
