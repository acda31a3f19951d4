// The memory manager of one machine: owns every part and is what the parts find each other through.
//
// Built before the engine runs (no task exists, nothing is charged), then used from tasks only. It
// outlives all tasks. Parts: frames, vmstat, zones and nodes, allocator, LRU and reclaim, gate,
// swap, disk, page cache, reverse mapping, address spaces, OOM killer, dmesg. Each part has its own
// file and takes a MemoryManager& at construction; none calls another in its constructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine.h"
#include "core/units.h"
#include "mm/mm_policy.h"
#include "mm/page_frame.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {

class AddressSpaces;
class BlockDevice;
class Dmesg;
class Gate;
class Kswapd;
class MemCgroups;
class OomKiller;
class PageAllocator;
class PageCache;
class PageLocks;
class Pagevecs;
class Reclaimer;
class Rmap;
class SlabCaches;
class Swap;
class Writeback;

struct DiskConfig {
  std::int64_t positioning_ns = 8'000'000;  // paid when a request does not continue the last one
  std::int64_t bytes_per_second = 120'000'000;
  std::int64_t nr_requests = 128;                // per direction; congested on 113, off 103
  std::int64_t max_request_bytes = 1280 * 1024;  // contiguous pages merge up to this
  std::int64_t read_slice_ns = 100'000'000;  // while both wait, reads and writes take turns (CFQ)
  std::int64_t write_slice_ns = 40'000'000;
};

// A memory cgroup; a group comes after its parent.
struct MemCgroupSpec {
  std::string name;  // letters, digits and . _ -
  int parent = -1;   // position of the group above; -1: the root
  Pages limit;       // at least 1
};

struct MmConfig {
  numa::MemoryMap map;
  std::vector<int> distance;        // nodes x nodes, by position in map.nodes; empty: 10 / 20
  std::vector<bool> node_has_cpus;  // by position; empty: those with online CPUs of the engine
  std::vector<Pages>
      boot_reserved;  // by position: pages the kernel took at boot, beyond the memmap
  MmPolicy policy;
  MmCosts costs;
  bool stamps = true;                       // content stamps (8 more bytes a frame)
  std::int64_t slab_reclaimable_pages = 0;  // SlabCaches::FillAtBoot, of all nodes together
  std::int64_t page_cache_pages = 0;        // PageCache::FillAtBoot, likewise
  Pages swap;                               // slots of the one swap device; 0: no swap
  DiskConfig disk;                          // of every device: swap and files
  CpuMask device_cpus;               // where the disk's task runs (a service CPU); empty: any CPU
  std::vector<CpuMask> kswapd_cpus;  // by node position; empty mask: the node's online CPUs
  std::vector<MemCgroupSpec> cgroups{};  // empty: the machine has no memory cgroups
};

enum NodeFlag : std::uint32_t {
  kNodeCongested = 1,  // every dirty page of the last batch could not be written
  kNodeWriteback = 2,  // every page of the last batch was being written
};

// One node: its zones, its zonelists and its kswapd.
struct PgData {
  NodeId id;
  int position = 0;
  int memory_node = 0;                  // position of the nearest node with memory: itself, usually
  std::vector<Zone*> zones;             // populated ones, by ascending zone index
  std::vector<Zone*> zonelist;          // of all nodes, in fallback order, all zone indices
  std::vector<Zone*> own_list;          // this node only (__GFP_THISNODE)
  std::unique_ptr<Kswapd> kswapd;       // nullptr on a node without memory
  std::atomic<std::uint32_t> flags{0};  // of later kernels: NodeFlag
};

class MemoryManager {
 public:
  // Validates the configuration and sets up frames, zones, watermarks and free lists, in parallel
  // on the host where that pays. InvalidArgument: one line; ResourceExhausted: the host cannot map
  // the frames.
  static absl::StatusOr<std::unique_ptr<MemoryManager>> Boot(Engine& engine, MmConfig config);
  // The same without reclaim, swap, address spaces and OOM killer: those members stay null, and
  // reclaim makes no progress. For tests of the allocator, which may put a part of their own into
  // its place.
  static absl::StatusOr<std::unique_ptr<MemoryManager>> BootForTest(Engine& engine,
                                                                    MmConfig config);
  ~MemoryManager();

  // Spawns the daemons: kswapd per node, the disk, counter folding (vmstat, housekeeping), pdflush.
  void StartDaemons();

  // Frames are conserved in every zone, and LRU and buddy counters agree with the lists. Call at
  // rest (after Run(), or with no reclaim under way). Returns an empty string, or what is wrong.
  //   expect_idle: additionally nothing is isolated, in a pagevec or under I/O.
  [[nodiscard]] std::string CheckInvariants(bool expect_idle);

  [[nodiscard]] Zone& ZoneOf(FrameNo n) { return *zones[frames[n].zone()]; }
  [[nodiscard]] PgData& NodeAt(int position) { return *nodes[static_cast<std::size_t>(position)]; }
  // Position of the node nearest to a CPU that has memory (its own, usually).
  [[nodiscard]] int MemoryNodeOf(const Cpu& cpu) const;
  [[nodiscard]] const numa::ZoneLayout& layout() const { return numa::LayoutOf(config.map.arch); }
  [[nodiscard]] PageShift page_shift() const { return config.map.page_shift; }
  [[nodiscard]] std::int64_t vm_total_pages() const { return vm_total_pages_; }

  Engine& engine;
  const MmConfig config;
  const MmPolicy& policy;  // config.policy; knobs that change while the machine runs are in Sysctls
  const MmCosts& costs;    // config.costs
  FrameTable frames;
  std::vector<std::unique_ptr<Zone>> zones;  // populated ones; ordinal = position
  std::vector<std::unique_ptr<PgData>> nodes;
  std::unique_ptr<VmStat> vmstat;
  std::unique_ptr<PageAllocator> allocator;
  std::unique_ptr<PageLocks> page_locks;  // made once frames are mapped
  std::unique_ptr<Pagevecs> pagevecs;
  std::unique_ptr<SlabCaches> slab;
  std::unique_ptr<Reclaimer> reclaimer;
  std::unique_ptr<Gate> gate;
  std::unique_ptr<Writeback> writeback;
  std::unique_ptr<BlockDevice> disk;
  std::unique_ptr<Swap> swap;
  std::unique_ptr<PageCache> page_cache;
  std::unique_ptr<Rmap> rmap;
  std::unique_ptr<AddressSpaces> spaces;
  std::unique_ptr<OomKiller> oom;
  std::unique_ptr<Dmesg> dmesg;
  std::unique_ptr<MemCgroups> cgroups;  // nullptr: there are none

 private:
  MemoryManager(Engine& engine, MmConfig boot_config);
  absl::Status Check() const;  // the configuration
  absl::Status BuildMemory();  // frames, zones, free lists, zonelists, watermarks
  void BuildParts();           // everything else
  void BuildZones();
  void FillZones();

  std::int64_t vm_total_pages_ = 0;
};

}  // namespace pagestorm::mm
