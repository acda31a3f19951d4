// What an allocation does once a direct reclaim has left it without a page: fail, reclaim again,
// start over, or call the OOM killer. A policy object chosen once at boot (AllocPolicy::retry).
//   2.6.26: any progress is worth another try; none at all leads to the OOM killer at once.
//   4.7: as long as what could be reclaimed, discounted by the rounds that achieved nothing, would
//   lift a zone above its min watermark.
// Source: spec throttle-2.6.26 2.10 steps 9 and 10, 5.4; kswapd-4.11 2.4, 2.5, 2.7.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "mm/gfp.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

class RetryRule {
 public:
  virtual ~RetryRule() = default;

  struct Request {
    Gfp gfp = 0;
    int order = 0;
    std::span<Zone* const> zonelist{};
    std::uint32_t alloc_flags = 0;  // of the walk at the min mark
  };
  // Of one allocation, from its first reclaim on.
  struct State {
    std::int64_t reclaimed = 0;  // pages, in all rounds
    int no_progress_loops = 0;
  };
  enum class Next : std::uint8_t {
    kFail,
    kReclaim,  // nap HZ/50, then reclaim again
    kWalk,     // wake kswapd and walk the free lists first
    kOom,
  };
  // `progress`: pages that the reclaim reports. May nap.
  virtual Next AfterReclaim(const Request& request, std::int64_t progress, State& state) = 0;

  enum class Kill : std::uint8_t { kYes, kSpare /* try again without a kill */, kFail };
  // The last walk, under the OOM lock, has found nothing either.
  virtual Kill MayKill(const Request& request) = 0;
  // The killer was called, by this task or another. Returns whether to walk at the low mark first.
  virtual bool AfterOom(State& state) = 0;
};

std::unique_ptr<RetryRule> MakeRetryRule(MemoryManager& mm);

// Fruitless rounds after which 4.7 stops; each takes off that share of what could be reclaimed.
inline constexpr int kMaxReclaimRetries = 16;
// ceil(loops * reclaimable / 16).
[[nodiscard]] constexpr std::int64_t RetryDiscount(int loops, std::int64_t reclaimable) {
  return (loops * reclaimable + kMaxReclaimRetries - 1) / kMaxReclaimRetries;
}

}  // namespace pagestorm::mm
