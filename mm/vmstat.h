// Zone counters and event counters, with the kernel's names and its per-CPU inexactness.
//
// A zone counter is a global value plus a signed 8-bit delta per CPU that is folded when it exceeds
// the zone's threshold, and once a second. Reads are therefore off by up to CPUs * threshold. Event
// counters are per CPU and exact when summed at rest.  Source: spec throttle-2.6.26 2.6.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine.h"
#include "core/units.h"

namespace pagestorm::mm {

// Names in /proc/vmstat follow from these (ZoneStatName). Split-LRU kernels use the four list
// counters and never print nr_active and nr_inactive; older ones use these two for all pages.
enum class ZoneStat : std::uint8_t {
  kNrFreePages,
  kNrInactive,      // 2.6.26: the one inactive list; split LRU: nr_inactive_anon
  kNrActive,        // likewise
  kNrInactiveFile,  // split LRU only
  kNrActiveFile,
  kNrUnevictable,
  kNrMlock,
  kNrAnonPages,
  kNrMapped,  // file pages mapped
  kNrFilePages,
  kNrDirty,
  kNrWriteback,
  kNrSlabReclaimable,
  kNrSlabUnreclaimable,
  kNrPageTablePages,
  kNrUnstable,
  kNrBounce,
  kNrVmscanWrite,
  kNrWritebackTemp,
  kNrKernelStack,   // 2.6.32 on
  kNrIsolatedAnon,  // 2.6.32 on; kept for every kernel, printed where it exists
  kNrIsolatedFile,
  kNrThrottledWritten,  // 5.16 on
  kNumaHit,
  kNumaMiss,
  kNumaForeign,
  kNumaInterleave,
  kNumaLocal,
  kNumaOther,
  kCount
};

enum class VmEvent : std::uint8_t {
  kPgpgin,
  kPgpgout,
  kPswpin,
  kPswpout,
  kPgallocDma,  // the four *_zone events follow the zone index of x86-64: dma, dma32, normal,
                // movable
  kPgallocDma32,
  kPgallocNormal,
  kPgallocMovable,
  kPgfree,
  kPgactivate,
  kPgdeactivate,
  kPgfault,
  kPgmajfault,
  kPgrefillDma,
  kPgrefillDma32,
  kPgrefillNormal,
  kPgrefillMovable,
  kPgstealDma,
  kPgstealDma32,
  kPgstealNormal,
  kPgstealMovable,
  kPgscanKswapdDma,
  kPgscanKswapdDma32,
  kPgscanKswapdNormal,
  kPgscanKswapdMovable,
  kPgscanDirectDma,
  kPgscanDirectDma32,
  kPgscanDirectNormal,
  kPgscanDirectMovable,
  kPginodesteal,
  kSlabsScanned,
  kKswapdSteal,
  kKswapdInodesteal,
  kPageoutrun,
  kAllocstall,
  kPgrotated,
  kPgscanDirectThrottle,  // 3.6 on
  kOomKill,               // printed by kernels that have it; the report always does
  kCount
};
// Whether /proc of 2.6.26, with or without split LRU, shows a counter. What came with a later gate
// is shown where that gate is: Gate::Shows.
[[nodiscard]] bool ZoneStatPrinted(ZoneStat stat, bool split_lru);
[[nodiscard]] bool VmEventPrinted(VmEvent event);

inline constexpr std::size_t kZoneStats = static_cast<std::size_t>(ZoneStat::kCount);
inline constexpr std::size_t kVmEvents = static_cast<std::size_t>(VmEvent::kCount);

// "nr_free_pages", "pgscan_kswapd_dma32"; as printed by a kernel without split LRU, or with it.
[[nodiscard]] std::string_view ZoneStatName(ZoneStat stat, bool split_lru);
[[nodiscard]] std::string_view VmEventName(VmEvent event);
// The event of a per-zone family for a zone kind (numa::ZoneKind order: dma, dma32, normal,
// movable).
[[nodiscard]] constexpr VmEvent ForZone(VmEvent first, int zone_kind) {
  return static_cast<VmEvent>(static_cast<int>(first) + zone_kind);
}

class VmStat {
 public:
  // zones: number of zone ordinals; thresholds are set per zone before use.
  VmStat(Engine& engine, std::size_t zones);

  // min(125, 2 * fls(cpus) * (1 + fls(present >> (27 - page shift)))), the stat threshold.
  [[nodiscard]] static int ThresholdFor(std::size_t online_cpus, Pages present, PageShift shift);
  void SetThreshold(std::size_t zone, int threshold);
  [[nodiscard]] int threshold(std::size_t zone) const { return thresholds_[zone]; }

  // Adds to a zone counter on the running CPU. Nothing in here can switch, so the CPU's delta needs
  // no lock and no atomic read-modify-write; service CPUs have none and add to the global at once.
  void Add(std::size_t zone, ZoneStat stat, std::int64_t delta) {
    const Cpu& cpu = CurrentCpu();
    if (cpu.kind == CpuKind::kService) [[unlikely]]
      return AddGlobal(zone, stat, delta);
    auto& own = Deltas(zone, static_cast<std::size_t>(cpu.id.n)).n[static_cast<std::size_t>(stat)];
    std::int64_t sum = own.load(std::memory_order_relaxed) + delta;
    const int threshold = thresholds_[zone];
    if (sum > threshold || -sum > threshold) [[unlikely]] {
      AddGlobal(zone, stat, sum);
      sum = 0;
    }
    own.store(static_cast<std::int8_t>(sum), std::memory_order_relaxed);
  }
  // The zone's value as the kernel sees it: may be stale; never negative. For a whole machine:
  // Global().
  [[nodiscard]] std::int64_t Read(std::size_t zone, ZoneStat stat) const {
    const std::int64_t value =
        zone_[zone][static_cast<std::size_t>(stat)].load(std::memory_order_relaxed);
    return value < 0 ? 0 : value;
  }
  [[nodiscard]] std::int64_t Global(ZoneStat stat) const;
  // Zone value plus all per-CPU deltas; exact at rest.
  [[nodiscard]] std::int64_t Exact(std::size_t zone, ZoneStat stat) const;
  // Folds one CPU's deltas of a zone; on that CPU, or at rest. Returns whether there was anything
  // to fold.
  bool FoldZone(std::size_t zone, CpuId cpu);
  // Folds the running CPU's deltas of all zones (refresh_cpu_vm_stats, once a second).
  void FoldCpu(CpuId cpu);
  // Adds to the global value at once, on behalf of no CPU: for boot.
  void AddGlobal(std::size_t zone, ZoneStat stat, std::int64_t delta);

  void Count(VmEvent event, std::int64_t n = 1) {
    auto& own =
        events_[static_cast<std::size_t>(CurrentCpu().id.n)].n[static_cast<std::size_t>(event)];
    own.store(own.load(std::memory_order_relaxed) + n,
              std::memory_order_relaxed);  // its one writer
  }
  // Sum over CPUs (get_vm_event); racy while others count.
  [[nodiscard]] std::int64_t Event(VmEvent event) const;

 private:
  struct alignas(64) CpuEvents {
    std::array<std::atomic<std::int64_t>, kVmEvents> n{};
  };
  struct alignas(64) CpuDeltas {
    std::array<std::atomic<std::int8_t>, kZoneStats> n{};
  };
  [[nodiscard]] CpuDeltas& Deltas(std::size_t zone, std::size_t cpu) {
    return deltas_[zone * online_ + cpu];
  }

  const std::size_t zones_;
  const std::size_t online_;  // CPUs with deltas
  std::vector<int> thresholds_;
  std::vector<std::array<std::atomic<std::int64_t>, kZoneStats>> zone_;
  std::array<std::atomic<std::int64_t>, kZoneStats> global_{};
  std::vector<CpuDeltas> deltas_;
  std::vector<CpuEvents> events_;
};

}  // namespace pagestorm::mm
