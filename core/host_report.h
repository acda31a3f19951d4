// How well the host kept up with a run of the threads engine: what host.json says.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/units.h"

namespace pagestorm {

// How late timers fired, in host time: bucket i counts delays of [2^i, 2^(i+1)) ns, bucket 0 also
// 0.
struct SlipHistogram {
  std::array<std::uint64_t, 40> buckets{};
  std::uint64_t timers = 0;
  HostNs max;

  void Add(HostNs late) {
    const auto width = std::bit_width(static_cast<std::uint64_t>(late.n < 1 ? 1 : late.n)) - 1;
    ++buckets[std::min<std::size_t>(static_cast<std::size_t>(width), buckets.size() - 1)];
    ++timers;
    if (late > max) max = late;
  }
  void Merge(const SlipHistogram& other) {
    for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
    timers += other.timers;
    if (other.max > max) max = other.max;
  }
};

struct HostReport {
  HostNs elapsed;  // of the run
  // Summed over CPUs, while a task was on them: how much longer the host took than the modelled
  // work (the model was behind the host), and how long CPUs paused because it was ahead.
  HostNs host_bound;
  HostNs paused;
  SlipHistogram slip;
  int emulated_cpus = 0;        // online and service CPUs: each is one OS thread
  int host_cores = 0;           // host CPUs this process may use
  bool oversubscribed = false;  // more emulated CPUs than host cores: lock contention measured here
                                // is that of the host's scheduler
  bool bound = false;           // every CPU thread that asked for a host CPU got it
};

}  // namespace pagestorm
