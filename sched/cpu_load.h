// The five averages of a CPU's load that the balancer reads, updated once a tick.
//
// Source: spec numa-balancing-v5 1.5. Average i remembers about 2^i ticks. Balancing of domains
// reads them through SourceLoad (a remote CPU looks no busier than it was) and TargetLoad (the own
// CPU no idler). The numbers are weights: 1024 is one task of nice 0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace pagestorm::sched {

class CpuLoad {
 public:
  static constexpr std::size_t kAverages = 5;

  // One tick with load `now`.
  void Tick(std::int64_t now) {
    averages_[0] = now;
    for (std::size_t i = 1; i < kAverages; ++i) {
      const std::int64_t keep = (std::int64_t{1} << i) - 1;
      // Rounded up while the load grows, or an average would never reach it.
      const std::int64_t in = now > averages_[i] ? now + keep : now;
      averages_[i] = (averages_[i] * keep + in) >> i;
    }
  }
  // `ticks` ticks with the same load; a CPU that was idle is told only when it wakes.
  void Ticks(std::int64_t ticks, std::int64_t now) {
    // After 1,024 ticks even the slowest average has arrived: (15/16)^1024 of any sum of weights
    // that fits 64 bits is below one.
    for (std::int64_t i = std::min<std::int64_t>(ticks, 1024); i > 0; --i) {
      if (std::all_of(averages_.begin(), averages_.end(), [=](auto a) { return a == now; })) return;
      Tick(now);
    }
  }
  [[nodiscard]] std::int64_t average(std::size_t i) const { return averages_[i]; }

  //   index: 0 means the load of this instant.
  [[nodiscard]] std::int64_t SourceLoad(std::size_t index, std::int64_t now) const {
    return index == 0 ? now : std::min(averages_[index - 1], now);
  }
  [[nodiscard]] std::int64_t TargetLoad(std::size_t index, std::int64_t now) const {
    return index == 0 ? now : std::max(averages_[index - 1], now);
  }

 private:
  std::array<std::int64_t, kAverages> averages_{};
};

}  // namespace pagestorm::sched
