#include "mm/proc_files.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "mm/memory_manager.h"
#include "mm/page_alloc.h"
#include "mm/swap.h"
#include "mm/throttle.h"

namespace pagestorm::mm {
namespace {

using absl::StrAppendFormat;

// One "label value kB" line of meminfo: the value starts at a fixed column.
void Line(std::string& out, const std::string& prefix, const char* label, std::int64_t pages,
          PageShift shift) {
  StrAppendFormat(&out, "%s%-14s%8d kB\n", prefix, std::string(label) + ":",
                  ToKiB(Pages{pages}, shift));
}

std::int64_t ZoneSum(const MemoryManager& mm, const PgData& node, ZoneStat stat) {
  std::int64_t sum = 0;
  for (const Zone* zone : node.zones) sum += mm.vmstat->Read(zone->ordinal, stat);
  return sum;
}

std::int64_t PresentPages(const PgData& node) {
  std::int64_t sum = 0;
  for (const Zone* zone : node.zones) sum += zone->present.n;
  return sum;
}

bool Shown(const MemoryManager& mm, ZoneStat stat) {
  return ZoneStatPrinted(stat, mm.policy.reclaim.split_lru) ||
         (mm.gate != nullptr && mm.gate->Shows(stat));
}

void AppendCounters(std::string& out, const MemoryManager& mm, const Zone& zone) {
  const bool split = mm.policy.reclaim.split_lru;
  for (std::size_t i = 0; i < kZoneStats; ++i) {
    const auto stat = static_cast<ZoneStat>(i);
    if (!Shown(mm, stat)) continue;
    StrAppendFormat(&out, "    %-12s %d\n", std::string(ZoneStatName(stat, split)),
                    mm.vmstat->Read(zone.ordinal, stat));
  }
}

void AppendPagesets(std::string& out, const MemoryManager& mm, const Zone& zone) {
  out += "  pagesets\n";
  for (std::size_t cpu = 0; cpu < zone.pcp.size(); ++cpu) {
    const Pcp& pcp = *zone.pcp[cpu];
    StrAppendFormat(&out,
                    "    cpu: %d\n"
                    "              count: %d\n"
                    "              high:  %d\n"
                    "              batch: %d\n"
                    "  vm stats threshold: %d\n",
                    cpu, pcp.count(), pcp.high(), pcp.batch(), mm.vmstat->threshold(zone.ordinal));
  }
}

void AppendZone(std::string& out, const MemoryManager& mm, const Zone& zone) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  StrAppendFormat(&out, "Node %d, zone %8s\n", zone.node.n, zone.name);
  StrAppendFormat(&out,
                  "  pages free     %d\n"
                  "        min      %d\n"
                  "        low      %d\n"
                  "        high     %d\n"
                  "        scanned  %d (a: %d i: %d)\n"
                  "        spanned  %d\n"
                  "        present  %d\n",
                  mm.vmstat->Read(zone.ordinal, ZoneStat::kNrFreePages), zone.watermark.min.get(),
                  zone.watermark.low.get(), zone.watermark.high.get(),
                  zone.pages_scanned.load(kRelaxed), zone.nr_scan_active.load(kRelaxed),
                  zone.nr_scan_inactive.load(kRelaxed), zone.spanned.n, zone.present.n);
  AppendCounters(out, mm, zone);
  out += "        protection: (";
  for (int i = 0; i < mm.layout().count; ++i) {
    StrAppendFormat(&out, "%s%d", i == 0 ? "" : ", ",
                    zone.lowmem_reserve[static_cast<std::size_t>(i)].get());
  }
  out += ")\n";
  AppendPagesets(out, mm, zone);
  StrAppendFormat(&out,
                  "  all_unreclaimable: %d\n"
                  "  prev_priority:     %d\n"
                  "  start_pfn:         %d\n",
                  zone.Has(kZoneAllUnreclaimable) ? 1 : 0, zone.prev_priority.load(kRelaxed),
                  zone.start.n);
}

}  // namespace

std::string ProcZoneinfo(const MemoryManager& mm) {
  std::string out;
  for (const auto& zone : mm.zones) AppendZone(out, mm, *zone);
  return out;
}

std::string ProcBuddyinfo(const MemoryManager& mm) {
  std::string out;
  for (const auto& zone : mm.zones) {
    StrAppendFormat(&out, "Node %d, zone %8s ", zone->node.n, zone->name);
    for (const FreeArea& area : zone->free_area) StrAppendFormat(&out, "%6d ", area.nr_free.get());
    out += '\n';
  }
  return out;
}

std::string ProcPagetypeinfo(const MemoryManager& mm) {
  const int block_order = mm.allocator->effective_pageblock_order();
  std::string out =
      absl::StrFormat("Page block order: %d\nPages per block:  %d\n\n%-43s ", block_order,
                      1 << block_order, "Free pages count per migrate type at order");
  for (int order = 0; order <= kMaxOrder; ++order) StrAppendFormat(&out, "%6d ", order);
  out += '\n';
  for (const auto& zone : mm.zones) {
    for (std::size_t type = 0; type < kMigrateTypes; ++type) {
      StrAppendFormat(&out, "Node %4d, zone %8s, type %12s ", zone->node.n, zone->name,
                      std::string(MigrateTypeName(static_cast<MigrateType>(type))));
      for (const FreeArea& area : zone->free_area) {
        StrAppendFormat(&out, "%6d ", area.list[type].size());
      }
      out += '\n';
    }
  }
  StrAppendFormat(&out, "\n%-23s", "Number of blocks type ");
  for (std::size_t type = 0; type < kMigrateTypes; ++type) {
    StrAppendFormat(&out, "%12s ", std::string(MigrateTypeName(static_cast<MigrateType>(type))));
  }
  out += '\n';
  for (const auto& zone : mm.zones) {
    std::array<std::int64_t, kMigrateTypes> blocks{};
    for (const auto& type : zone->pageblock) {
      ++blocks[static_cast<std::size_t>(type.load(std::memory_order_relaxed))];
    }
    StrAppendFormat(&out, "Node %d, zone %8s ", zone->node.n, zone->name);
    for (const std::int64_t count : blocks) StrAppendFormat(&out, "%12d ", count);
    out += '\n';
  }
  return out;
}

std::string ProcVmstat(const MemoryManager& mm) {
  const bool split = mm.policy.reclaim.split_lru;
  std::string out;
  for (std::size_t i = 0; i < kZoneStats; ++i) {
    const auto stat = static_cast<ZoneStat>(i);
    if (!Shown(mm, stat)) continue;
    StrAppendFormat(&out, "%s %d\n", std::string(ZoneStatName(stat, split)),
                    mm.vmstat->Global(stat));
  }
  for (std::size_t i = 0; i < kVmEvents; ++i) {
    const auto event = static_cast<VmEvent>(i);
    if (!VmEventPrinted(event) && (mm.gate == nullptr || !mm.gate->Shows(event))) continue;
    StrAppendFormat(&out, "%s %d\n", std::string(VmEventName(event)), mm.vmstat->Event(event));
  }
  return out;
}

std::string ProcMeminfo(const MemoryManager& mm) {
  const auto stat = [&mm](ZoneStat item) { return mm.vmstat->Global(item); };
  const std::int64_t slab_r = stat(ZoneStat::kNrSlabReclaimable);
  const std::int64_t slab_u = stat(ZoneStat::kNrSlabUnreclaimable);
  const bool swap = mm.swap != nullptr;
  const std::int64_t swap_total = swap ? mm.swap->total_slots() : 0;
  const std::int64_t swap_cached = swap ? mm.swap->cache_stats().pages : 0;
  const std::int64_t active = stat(ZoneStat::kNrActive) + stat(ZoneStat::kNrActiveFile);
  const std::int64_t inactive = stat(ZoneStat::kNrInactive) + stat(ZoneStat::kNrInactiveFile);
  std::string out;
  const auto line = [&](const char* label, std::int64_t pages) {
    Line(out, "", label, pages, mm.page_shift());
  };
  line("MemTotal", mm.vm_total_pages());
  line("MemFree", stat(ZoneStat::kNrFreePages));
  line("Buffers", 0);  // no block device files
  line("Cached", std::max<std::int64_t>(0, stat(ZoneStat::kNrFilePages) - swap_cached));
  line("SwapCached", swap_cached);
  line("Active", active);
  line("Inactive", inactive);
  line("SwapTotal", swap_total);
  line("SwapFree", swap ? mm.swap->free_slots() : 0);
  line("Dirty", stat(ZoneStat::kNrDirty));
  line("Writeback", stat(ZoneStat::kNrWriteback));
  line("AnonPages", stat(ZoneStat::kNrAnonPages));
  line("Mapped", stat(ZoneStat::kNrMapped));
  line("Slab", slab_r + slab_u);
  line("SReclaimable", slab_r);
  line("SUnreclaim", slab_u);
  line("PageTables", stat(ZoneStat::kNrPageTablePages));
  line("NFS_Unstable", stat(ZoneStat::kNrUnstable));
  line("Bounce", stat(ZoneStat::kNrBounce));
  line("WritebackTmp", stat(ZoneStat::kNrWritebackTemp));
  line("CommitLimit", mm.vm_total_pages() / 2 + swap_total);  // overcommit_ratio 50
  line("Committed_AS", 0);                                    // overcommit is not accounted for
  // Kernel address space is not modelled; 32 TiB is what x86-64 has.
  out += "VmallocTotal: 34359738367 kB\nVmallocUsed:         0 kB\nVmallocChunk: 34359738367 kB\n";
  out +=
      "HugePages_Total:     0\nHugePages_Free:      0\nHugePages_Rsvd:      0\n"
      "HugePages_Surp:      0\n";
  StrAppendFormat(
      &out, "Hugepagesize:    %5d kB\n",
      ToKiB(Pages{std::int64_t{1} << mm.policy.alloc.pageblock_order}, mm.page_shift()));
  return out;
}

std::string NodeMeminfo(const MemoryManager& mm, int position) {
  const PgData& node = *mm.nodes[static_cast<std::size_t>(position)];
  const auto stat = [&](ZoneStat item) { return ZoneSum(mm, node, item); };
  const std::string prefix = absl::StrFormat("Node %d ", node.id.n);
  const std::int64_t total = PresentPages(node);
  const std::int64_t free = stat(ZoneStat::kNrFreePages);
  const std::int64_t slab_r = stat(ZoneStat::kNrSlabReclaimable);
  const std::int64_t slab_u = stat(ZoneStat::kNrSlabUnreclaimable);
  std::string out = "\n";
  const auto line = [&](const char* label, std::int64_t pages) {
    Line(out, prefix, label, pages, mm.page_shift());
  };
  line("MemTotal", total);
  line("MemFree", free);
  line("MemUsed", total - free);
  line("Active", stat(ZoneStat::kNrActive) + stat(ZoneStat::kNrActiveFile));
  line("Inactive", stat(ZoneStat::kNrInactive) + stat(ZoneStat::kNrInactiveFile));
  line("Dirty", stat(ZoneStat::kNrDirty));
  line("Writeback", stat(ZoneStat::kNrWriteback));
  line("FilePages", stat(ZoneStat::kNrFilePages));
  line("Mapped", stat(ZoneStat::kNrMapped));
  line("AnonPages", stat(ZoneStat::kNrAnonPages));
  line("PageTables", stat(ZoneStat::kNrPageTablePages));
  line("NFS_Unstable", stat(ZoneStat::kNrUnstable));
  line("Bounce", stat(ZoneStat::kNrBounce));
  line("WritebackTmp", stat(ZoneStat::kNrWritebackTemp));
  line("Slab", slab_r + slab_u);
  line("SReclaimable", slab_r);
  line("SUnreclaim", slab_u);
  for (const char* huge : {"Total", "Free", "Surp"}) {
    StrAppendFormat(&out, "%s%-16s%6d\n", prefix, absl::StrFormat("HugePages_%s:", huge), 0);
  }
  return out;
}

}  // namespace pagestorm::mm
