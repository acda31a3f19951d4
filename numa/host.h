// Facts about the machine pagestorm runs on: the only place in numa/ that asks the host, apart from
// Topology::FromHost(). Nothing of it may reach a result of the virtual engine.
#pragma once

#include <cstdint>

namespace pagestorm::numa {

struct HostFacts {
  int cores = 1;                            // CPUs this process may run on
  std::int64_t memory_total_bytes = 0;      // of the host, or the cgroup's limit when lower
  std::int64_t memory_available_bytes = 0;  // what can be used without swapping; 0: unknown
};

// Reads the affinity mask, /proc/meminfo and the memory cgroup (v2, else v1) that is mounted.
// Whatever cannot be read keeps its default.
[[nodiscard]] HostFacts ReadHostFacts();

}  // namespace pagestorm::numa
