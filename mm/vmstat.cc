#include "mm/vmstat.h"

#include <algorithm>
#include <bit>

namespace pagestorm::mm {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr std::array<std::string_view, kZoneStats> kZoneStatNames{
    "nr_free_pages",
    "nr_inactive",
    "nr_active",
    "nr_inactive_file",
    "nr_active_file",
    "nr_unevictable",
    "nr_mlock",
    "nr_anon_pages",
    "nr_mapped",
    "nr_file_pages",
    "nr_dirty",
    "nr_writeback",
    "nr_slab_reclaimable",
    "nr_slab_unreclaimable",
    "nr_page_table_pages",
    "nr_unstable",
    "nr_bounce",
    "nr_vmscan_write",
    "nr_writeback_temp",
    "nr_kernel_stack",
    "nr_isolated_anon",
    "nr_isolated_file",
    "nr_throttled_written",
    "numa_hit",
    "numa_miss",
    "numa_foreign",
    "numa_interleave",
    "numa_local",
    "numa_other",
};

constexpr std::array<std::string_view, kVmEvents> kVmEventNames{
    "pgpgin",
    "pgpgout",
    "pswpin",
    "pswpout",
    "pgalloc_dma",
    "pgalloc_dma32",
    "pgalloc_normal",
    "pgalloc_movable",
    "pgfree",
    "pgactivate",
    "pgdeactivate",
    "pgfault",
    "pgmajfault",
    "pgrefill_dma",
    "pgrefill_dma32",
    "pgrefill_normal",
    "pgrefill_movable",
    "pgsteal_dma",
    "pgsteal_dma32",
    "pgsteal_normal",
    "pgsteal_movable",
    "pgscan_kswapd_dma",
    "pgscan_kswapd_dma32",
    "pgscan_kswapd_normal",
    "pgscan_kswapd_movable",
    "pgscan_direct_dma",
    "pgscan_direct_dma32",
    "pgscan_direct_normal",
    "pgscan_direct_movable",
    "pginodesteal",
    "slabs_scanned",
    "kswapd_steal",
    "kswapd_inodesteal",
    "pageoutrun",
    "allocstall",
    "pgrotated",
    "pgscan_direct_throttle",
    "oom_kill",
};
static_assert(!kZoneStatNames.back().empty() && !kVmEventNames.back().empty());

int Fls(std::int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value)));
}

}  // namespace

std::string_view ZoneStatName(ZoneStat stat, bool split_lru) {
  if (split_lru && stat == ZoneStat::kNrInactive) return "nr_inactive_anon";
  if (split_lru && stat == ZoneStat::kNrActive) return "nr_active_anon";
  return kZoneStatNames[static_cast<std::size_t>(stat)];
}

std::string_view VmEventName(VmEvent event) {
  return kVmEventNames[static_cast<std::size_t>(event)];
}

bool ZoneStatPrinted(ZoneStat stat, bool split_lru) {
  using enum ZoneStat;
  switch (stat) {
    case kNrInactiveFile:
    case kNrActiveFile:
    case kNrUnevictable:
    case kNrMlock:
      return split_lru;
    case kNrKernelStack:  // 2.6.32 on
    case kNrIsolatedAnon:
    case kNrIsolatedFile:
    case kNrThrottledWritten:
    case kCount:
      return false;
    default:
      return true;
  }
}

bool VmEventPrinted(VmEvent event) {
  return event != VmEvent::kOomKill && event != VmEvent::kPgscanDirectThrottle;
}

VmStat::VmStat(Engine& engine, std::size_t zones)
    : zones_(zones),
      online_(engine.online_cpus()),
      thresholds_(zones, 1),
      zone_(zones),
      deltas_(zones * online_),
      events_(engine.cpu_count()) {}

int VmStat::ThresholdFor(std::size_t online_cpus, Pages present, PageShift shift) {
  const int memory = Fls(present.n >> (27 - shift.n));  // in 128 MiB
  return std::min(125, 2 * Fls(static_cast<std::int64_t>(online_cpus)) * (1 + memory));
}

void VmStat::SetThreshold(std::size_t zone, int threshold) {
  PS_CHECK(threshold >= 1 && threshold <= 125, "a delta has 8 bits");
  thresholds_[zone] = threshold;
}

void VmStat::AddGlobal(std::size_t zone, ZoneStat stat, std::int64_t delta) {
  const auto item = static_cast<std::size_t>(stat);
  zone_[zone][item].fetch_add(delta, kRelaxed);
  global_[item].fetch_add(delta, kRelaxed);
}

std::int64_t VmStat::Global(ZoneStat stat) const {
  return std::max<std::int64_t>(0, global_[static_cast<std::size_t>(stat)].load(kRelaxed));
}

std::int64_t VmStat::Exact(std::size_t zone, ZoneStat stat) const {
  const auto item = static_cast<std::size_t>(stat);
  std::int64_t sum = zone_[zone][item].load(kRelaxed);
  for (std::size_t cpu = 0; cpu < online_; ++cpu) {
    sum += deltas_[zone * online_ + cpu].n[item].load(kRelaxed);
  }
  return sum;
}

bool VmStat::FoldZone(std::size_t zone, CpuId cpu) {
  bool any = false;
  CpuDeltas& deltas = Deltas(zone, static_cast<std::size_t>(cpu.n));
  for (std::size_t item = 0; item < kZoneStats; ++item) {
    const std::int64_t delta = deltas.n[item].load(kRelaxed);
    if (delta == 0) continue;
    deltas.n[item].store(0, kRelaxed);
    AddGlobal(zone, static_cast<ZoneStat>(item), delta);
    any = true;
  }
  return any;
}

void VmStat::FoldCpu(CpuId cpu) {
  for (std::size_t zone = 0; zone < zones_; ++zone) static_cast<void>(FoldZone(zone, cpu));
}

std::int64_t VmStat::Event(VmEvent event) const {
  std::int64_t sum = 0;
  for (const CpuEvents& cpu : events_) sum += cpu.n[static_cast<std::size_t>(event)].load(kRelaxed);
  return sum;
}

}  // namespace pagestorm::mm
