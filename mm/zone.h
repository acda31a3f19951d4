// A zone of a node: its size, watermarks, buddy free lists, per-CPU page lists, and reclaim state.
//
// Lock lock (kZone) guards the free lists; lru_lock (kLru) guards the LRU lists (mm/lru.h). Per-CPU
// lists see to themselves (mm/pcp.h). Reclaim's shared scan state is updated without any lock, as
// in the kernel: concurrent increments may be lost.  Source: spec throttle-2.6.26 2.1, 2.4-2.8.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine.h"
#include "core/spin_lock.h"
#include "core/units.h"
#include "mm/gfp.h"
#include "mm/migrate_type.h"
#include "mm/page_frame.h"
#include "mm/pcp.h"
#include "mm/relaxed.h"
#include "mm/watermarks.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {

class MemoryManager;
class Lru;

enum class Mark : std::uint8_t { kMin, kLow, kHigh };

enum ZoneFlag : std::uint32_t {
  kZoneAllUnreclaimable = 1,
  kZoneReclaimLocked = 2,
  kZoneOomLocked = 4,
  kZoneCongested = 8,  // 2.6.37: every dirty page of the last batch could not be written
};

struct FreeArea {
  std::array<FrameList, kMigrateTypes> list;
  Relaxed<std::int64_t> nr_free = 0;  // blocks; watermark checks read it without the lock
};

// Alloc flags of a free-list walk.
enum AllocFlag : std::uint32_t {
  kAllocNoWatermarks = 1,
  kAllocHarder = 2,
  kAllocHigh = 4,
};

struct Zone {
  // absent: frames of the span that the allocator never gets.
  Zone(MemoryManager& mm, std::size_t ordinal, int node_position, const numa::ZoneSpan& span,
       Pages absent, bool grouped);
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;
  ~Zone();

  [[nodiscard]] std::int64_t MarkOf(Mark mark) const {
    return mark == Mark::kMin ? watermark.min : mark == Mark::kLow ? watermark.low : watermark.high;
  }
  [[nodiscard]] bool populated() const { return present.n != 0; }
  [[nodiscard]] bool Has(ZoneFlag flag) const {
    return (flags.load(std::memory_order_relaxed) & flag) != 0;
  }

  MemoryManager& mm;
  const std::size_t ordinal;  // position among all zones of the machine, as in PageFrame::zone()
  const int node_position;    // position of its node in MemoryManager::nodes
  const NodeId node;
  const int index;         // zone index within the architecture's layout
  const int kind;          // numa::ZoneKind as a number: its place in per-zone event families
  const std::string name;  // "DMA32"
  const Pfn start;
  const Pages spanned;
  const Pages present;  // = managed here: what the buddy allocator was given
  const FrameNo
      first;          // frames before it are absent: holes, memmap, memory taken at boot (ADR 0010)
  const FrameNo end;  // first frame behind the zone
  const int pageblock_order;
  const bool grouped;  // by mobility; false: the machine is too small, all types are UNMOVABLE

  // Written when the watermarks are computed; read without a lock by everyone.
  Watermarks watermark;
  std::array<Relaxed<std::int64_t>, numa::kMaxZones> lowmem_reserve{};
  std::int64_t min_unmapped_pages = 0;
  std::int64_t min_slab_pages = 0;

  SpinLock lock;  // guards what is declared down to the next blank line
  std::array<FreeArea, kMaxOrder + 1> free_area;

  // One type a pageblock, from start rounded down. Written under `lock`, read without it when a
  // page is freed to a per-CPU list: a stale type puts one page on the wrong list, as in the
  // kernel.
  std::vector<std::atomic<MigrateType>> pageblock;
  [[nodiscard]] std::atomic<MigrateType>& BlockType(FrameNo n) {
    return pageblock[(n >> pageblock_order) - (start.n >> pageblock_order)];
  }

  std::vector<std::unique_ptr<Pcp>> pcp;  // by CpuId, online CPUs

  SpinLock lru_lock;
  std::unique_ptr<Lru> lru;  // its lists: lru_lock

  // Reclaim's shared state, unlocked.
  std::atomic<std::int64_t> nr_scan_active{0};
  std::atomic<std::int64_t> nr_scan_inactive{0};
  std::array<std::atomic<std::int64_t>, 2> nr_scan_file{};  // split LRU: inactive, active
  std::atomic<std::int64_t> pages_scanned{0};
  std::atomic<int> prev_priority{kDefPriority};
  std::atomic<std::uint32_t> flags{0};

  std::array<std::atomic<std::int64_t>, 2> recent_scanned{};  // split LRU: anon, file
  std::array<std::atomic<std::int64_t>, 2> recent_rotated{};
  std::int64_t inactive_ratio = 1;
};

}  // namespace pagestorm::mm
