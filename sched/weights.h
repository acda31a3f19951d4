// What a nice level is worth: the CPU shares of the fair scheduler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/check.h"

namespace pagestorm::sched {

inline constexpr std::int64_t kNice0Weight = 1024;
inline constexpr int kNiceMin = -20;
inline constexpr int kNiceMax = 19;

// One level is a factor of about 1.25. Source: spec numa-balancing-v5 1.2.
inline constexpr std::array<std::int64_t, 40> kNiceWeights = {
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,  //
    9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,   //
    1024,  820,   655,   526,   423,   335,   272,   215,   172,   137,    //
    110,   87,    70,    56,    45,    36,    29,    23,    18,    15};

inline std::int64_t WeightOfNice(int nice) {
  PS_CHECK(nice >= kNiceMin && nice <= kNiceMax, "nice is -20..19");
  return kNiceWeights[static_cast<std::size_t>(nice - kNiceMin)];
}

// Time that a task of that weight has run, or will, in virtual time.
constexpr std::int64_t ToVirtual(std::int64_t ns, std::int64_t weight) {
  return weight == kNice0Weight ? ns : ns * kNice0Weight / weight;
}

}  // namespace pagestorm::sched
