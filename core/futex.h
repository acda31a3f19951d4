// The host's futex: sleep while a word holds a value, and a bell built on it.
//
// The host-side counterpart of a wait queue, for CPU threads rather than for tasks: whoever sleeps
// here takes its whole emulated CPU with it.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/units.h"

namespace pagestorm {

// The host's monotonic clock. The only source of host time in core/.
[[nodiscard]] HostNs HostNow();

inline constexpr HostNs kHostForever{INT64_MAX};

// Sleeps while `word` is `expected`, until a FutexWake or the absolute time `until`. Returns for no
// reason at times.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, HostNs until);
void FutexWake(std::atomic<std::uint32_t>& word, int threads);

// One thread sleeps, anybody rings. A ring that comes before the sleep is not lost: it ends the
// next one at once.
class Bell {
 public:
  void Ring() {
    if (word_.exchange(kRung) == kAsleep) FutexWake(word_, 1);
  }
  // By the owning thread only. Returns whether it was rung.
  bool Wait(HostNs until) {
    std::uint32_t quiet = kQuiet;
    if (word_.compare_exchange_strong(quiet, kAsleep)) FutexWait(word_, kAsleep, until);
    return word_.exchange(kQuiet) == kRung;
  }

 private:
  static constexpr std::uint32_t kQuiet = 0;
  static constexpr std::uint32_t kAsleep = 1;
  static constexpr std::uint32_t kRung = 2;

  std::atomic<std::uint32_t> word_{kQuiet};
};

}  // namespace pagestorm
