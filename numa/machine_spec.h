// A machine as configured: everything the emulator needs to boot one, as plain data.
//
// configs/machines/*.toml mirrors the names of these fields (docs/machine-files.md has them all);
// reading TOML is the business of bench/. Defaults are a small one-node machine, so a test fills in
// what it is about.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/units.h"
#include "numa/latency_model.h"
#include "numa/memory_map.h"
#include "numa/topology.h"

namespace pagestorm::numa {

// One disk that serves one request at a time. Source: spec kswapd-4.11 6.5; nr_requests from spec
// throttle-2.6.26 2.22.
struct DiskSpec {
  std::int64_t transfer_mb_per_s = 120;  // 10^6 bytes/s
  Ns positioning{8'000'000};             // before a request that does not continue the last one
  int nr_requests = 128;                 // of each direction; more submitters sleep
  int max_request_kib = 1280;            // contiguous pages are merged up to this

  friend bool operator==(const DiskSpec&, const DiskSpec&) = default;
};

struct SwapSpec {
  std::int64_t mib = 0;  // of all devices together; 0: no swap; -1: twice the memory
  int devices = 1;       // equal parts, each on a disk of its own, at one priority

  friend bool operator==(const SwapSpec&, const SwapSpec&) = default;
};

// What differs from boot to boot on a real machine. Each seed draws from these ranges.
struct NuisanceSpec {
  int free_ram_per_mille = 0;  // usable RAM varies by +- this share
  int daemons = 0;             // background tasks: each wakes, touches its pages, sleeps
  std::int64_t daemon_pages = 64;
  Ns daemon_period{1'000'000'000};  // mean time between two wake-ups

  friend bool operator==(const NuisanceSpec&, const NuisanceSpec&) = default;
};

struct MachineSpec {
  std::string name = "unnamed";
  std::string topology_source = "built";  // what `topology` was loaded from, for reports
  Topology topology = Topology::Synthetic({});
  Arch arch = Arch::kX86_64;
  PageShift page_shift{12};
  // Replaces the topology's memory: one value for all nodes that have memory, or one for each node
  // in order of its number; empty: as the topology says.
  std::vector<std::int64_t> memory_mib;
  // Where memory_mib is empty: so much for each CPU of a node, and as for one in a node without; 0:
  // as the topology says.
  std::int64_t mib_per_cpu = 0;
  std::vector<std::int64_t> movable_mib;  // ZONE_MOVABLE: none, one for all nodes, or one each
  std::vector<int> distances;             // replaces the matrix; row-major in node order
  std::vector<Hole> holes;                // of the physical address space, in pages
  int scale = 1;  // memory, swap, boot reserve, slab and cache are divided by it; workloads follow
  LatencyParams latency;
  SwapSpec swap;
  DiskSpec disk;  // of every device: swap and data
  // Pages of each node that the kernel takes at boot (text, data, hash tables) and never gives
  // back: none, one value for all nodes, or one for each.
  std::vector<std::int64_t> boot_reserve_pages;
  // Pages of dentries, inodes and buffer heads, of all nodes together, that there are after boot.
  std::int64_t slab_reclaimable_pages = 0;
  // Pages of files, of all nodes together, that are in the page cache after boot: clean, read once.
  std::int64_t page_cache_pages = 0;
  NuisanceSpec nuisance;
  // Threads engine: kswapd runs on its node's CPUs, where it runs under the virtual engine; false:
  // on a service CPU of its own.
  bool kswapd_shares_cpus = false;
};

// Ok, or InvalidArgument with one line "machine NAME: key = value: what is allowed". Looks at the
// machine only; whether its zones suit a kernel's watermarks is mm's to say.
absl::Status Validate(const MachineSpec& spec);

// `spec.topology` with memory_mib, distances and scale applied. The spec must be valid.
[[nodiscard]] Topology EffectiveTopology(const MachineSpec& spec);
// The physical memory map of the effective topology. The spec must be valid.
absl::StatusOr<MemoryMap> EffectiveMemoryMap(const MachineSpec& spec);
// Pages the kernel takes of the node at `position`, after scaling. The spec must be valid.
[[nodiscard]] Pages BootReserve(const MachineSpec& spec, std::size_t position);
[[nodiscard]] Pages SwapPages(const MachineSpec& spec);  // of all devices, after scaling

// A topology by name, as machine files and the command line give it: "host", a path that ends in
// .xml (relative to `base_directory` unless absolute), or an hwloc synthetic description.
absl::StatusOr<Topology> LoadTopology(const std::string& source, const std::string& base_directory);

// Whether the host can hold the emulated machine's state.
struct HostMemoryVerdict {
  bool fits = true;
  int suggested_scale = 1;  // power of two by which memory must shrink to fit; 1 when it fits
  std::string line;         // why not, and what to do; empty when it fits
};
//   needed_bytes: frame arrays and whatever else grows with emulated memory.
//   available_bytes: HostFacts::memory_available_bytes; 0 (unknown) fits everything.
// An eighth of the available memory is left for the rest of the process.
[[nodiscard]] HostMemoryVerdict HostMemoryCheck(std::int64_t needed_bytes,
                                                std::int64_t available_bytes);

}  // namespace pagestorm::numa
