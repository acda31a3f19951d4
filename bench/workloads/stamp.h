// Content stamps: what a page must hold when it comes back.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace pagestorm::bench {

// The stamp of the `version`-th write to a page of an owner (a task, a file). Never 0: that is a
// page nobody has written. Owner and page are mixed before the version, so that no two writes of a
// run are alike by arithmetic.
[[nodiscard]] constexpr std::uint64_t StampOf(std::int64_t owner, std::int64_t page,
                                              std::int64_t version) {
  std::uint64_t state =
      (static_cast<std::uint64_t>(owner) << 32) ^ static_cast<std::uint64_t>(page);
  state = SplitMix64(state) ^ static_cast<std::uint64_t>(version);
  return SplitMix64(state) | 1;
}

}  // namespace pagestorm::bench
