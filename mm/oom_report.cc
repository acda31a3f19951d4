#include "mm/oom_report.h"

#include <array>

#include "absl/strings/str_format.h"
#include "core/spin_lock.h"
#include "mm/address_space.h"
#include "mm/memcg.h"
#include "mm/pcp.h"
#include "mm/swap.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

std::int64_t KiB(const MemoryManager& mm, std::int64_t pages) {
  return ToKiB({pages}, mm.page_shift());
}

std::string ZoneTitle(const Zone& zone) {
  return absl::StrFormat("Node %d %s", zone.node.n, zone.name);
}

std::string PerCpuLists(const MemoryManager& mm) {
  std::string text;
  for (const auto& zone : mm.zones) {
    absl::StrAppendFormat(&text, "%s per-cpu:\n", ZoneTitle(*zone));
    for (std::size_t cpu = 0; cpu < zone->pcp.size(); ++cpu) {
      const Pcp& pcp = *zone->pcp[cpu];
      absl::StrAppendFormat(&text, "CPU %4d: hi:%5d, btch:%4d usd:%4d\n", cpu, pcp.high(),
                            pcp.batch(), pcp.count());
    }
  }
  return text;
}

std::string Totals(const MemoryManager& mm) {
  const auto global = [&mm](ZoneStat stat) { return mm.vmstat->Global(stat); };
  std::string text;
  if (mm.policy.reclaim.split_lru) {
    absl::StrAppendFormat(&text,
                          "Active_anon:%d active_file:%d inactive_anon:%d\n"
                          " inactive_file:%d unevictable:%d dirty:%d writeback:%d unstable:%d\n",
                          global(ZoneStat::kNrActive), global(ZoneStat::kNrActiveFile),
                          global(ZoneStat::kNrInactive), global(ZoneStat::kNrInactiveFile),
                          global(ZoneStat::kNrUnevictable), global(ZoneStat::kNrDirty),
                          global(ZoneStat::kNrWriteback), global(ZoneStat::kNrUnstable));
  } else {
    absl::StrAppendFormat(&text, "Active:%d inactive:%d dirty:%d writeback:%d unstable:%d\n",
                          global(ZoneStat::kNrActive), global(ZoneStat::kNrInactive),
                          global(ZoneStat::kNrDirty), global(ZoneStat::kNrWriteback),
                          global(ZoneStat::kNrUnstable));
  }
  absl::StrAppendFormat(
      &text, " free:%d slab:%d mapped:%d pagetables:%d bounce:%d\n", global(ZoneStat::kNrFreePages),
      global(ZoneStat::kNrSlabReclaimable) + global(ZoneStat::kNrSlabUnreclaimable),
      global(ZoneStat::kNrMapped), global(ZoneStat::kNrPageTablePages),
      global(ZoneStat::kNrBounce));
  return text;
}

std::string ZoneLines(const MemoryManager& mm) {
  std::string text;
  for (const auto& zone : mm.zones) {
    const auto kib = [&](ZoneStat stat) { return KiB(mm, mm.vmstat->Read(zone->ordinal, stat)); };
    const Watermarks& mark = zone->watermark;
    absl::StrAppendFormat(&text, "%s free:%dkB min:%dkB low:%dkB high:%dkB", ZoneTitle(*zone),
                          kib(ZoneStat::kNrFreePages), KiB(mm, mark.min), KiB(mm, mark.low),
                          KiB(mm, mark.high));
    if (mm.policy.reclaim.split_lru) {
      absl::StrAppendFormat(
          &text,
          " active_anon:%dkB inactive_anon:%dkB active_file:%dkB inactive_file:%dkB"
          " unevictable:%dkB",
          kib(ZoneStat::kNrActive), kib(ZoneStat::kNrInactive), kib(ZoneStat::kNrActiveFile),
          kib(ZoneStat::kNrInactiveFile), kib(ZoneStat::kNrUnevictable));
    } else {
      absl::StrAppendFormat(&text, " active:%dkB inactive:%dkB", kib(ZoneStat::kNrActive),
                            kib(ZoneStat::kNrInactive));
    }
    absl::StrAppendFormat(&text, " present:%dkB pages_scanned:%d all_unreclaimable? %s\n",
                          KiB(mm, zone->present.n),
                          zone->pages_scanned.load(std::memory_order_relaxed),
                          zone->Has(kZoneAllUnreclaimable) ? "yes" : "no");
    text += "lowmem_reserve[]:";
    for (int i = 0; i < mm.layout().count; ++i) {
      absl::StrAppendFormat(&text, " %d", zone->lowmem_reserve[static_cast<std::size_t>(i)].get());
    }
    text += '\n';
  }
  return text;
}

std::string FreeLists(const MemoryManager& mm) {
  std::string text;
  for (const auto& zone : mm.zones) {
    std::array<std::int64_t, kMaxOrder + 1> blocks{};
    {
      SpinGuard guard(zone->lock);
      for (std::size_t order = 0; order < blocks.size(); ++order) {
        blocks[order] = zone->free_area[order].nr_free;
      }
    }
    std::int64_t total = 0;
    absl::StrAppendFormat(&text, "%s:", ZoneTitle(*zone));
    for (std::size_t order = 0; order < blocks.size(); ++order) {
      const std::int64_t block_kib = KiB(mm, std::int64_t{1} << order);
      absl::StrAppendFormat(&text, " %d*%dkB", blocks[order], block_kib);
      total += blocks[order] * block_kib;
    }
    absl::StrAppendFormat(&text, " = %dkB\n", total);
  }
  return text;
}

std::string SwapLines(const MemoryManager& mm) {
  const Swap::CacheStats cache = mm.swap->cache_stats();
  return absl::StrFormat(
      "%d total pagecache pages\n"
      "Swap cache: add %d, delete %d, find %d/%d\n"
      "Free swap  = %dkB\n"
      "Total swap = %dkB\n",
      mm.vmstat->Global(ZoneStat::kNrFilePages), cache.add, cache.del, cache.find_success,
      cache.find_total, KiB(mm, mm.swap->free_slots()), KiB(mm, mm.swap->total_slots()));
}

// References beyond the first of every frame in use.
std::int64_t SharedPages(const MemoryManager& mm) {
  std::int64_t shared = 0;
  for (const auto& zone : mm.zones) {
    for (FrameNo n = zone->first; n < zone->end; ++n) {
      const int references = mm.frames[n].refcount.load(std::memory_order_relaxed);
      if (references > 1) shared += references - 1;
    }
  }
  return shared;
}

std::string RamLines(const MemoryManager& mm) {
  const std::int64_t ram = mm.config.map.TotalExisting().n;
  std::int64_t present = 0;
  for (const auto& zone : mm.zones) present += zone->present.n;
  return absl::StrFormat(
      "%d pages of RAM\n%d reserved pages\n%d pages shared\n%d pages swap cached\n", ram,
      ram - present, SharedPages(mm), mm.swap->cache_stats().pages);
}

std::string Stack(const MemoryManager& mm, const Task& task, const char* innermost) {
  return absl::StrFormat("Pid: %d, comm: %s Not tainted %s\n\nCall Trace:\n %s\n __alloc_pages\n",
                         // lint: message only
                         task.id.n, CommOf(task), mm.policy.name, innermost);
}

}  // namespace

std::string MemInfoReport(const MemoryManager& mm) {
  return "Mem-info:\n" + PerCpuLists(mm) + Totals(mm) + ZoneLines(mm) + FreeLists(mm) +
         SwapLines(mm) + RamLines(mm);
}

std::string OomHeader(const MemoryManager& mm, const Task& task, int oom_adj, Gfp gfp, int order) {
  return absl::StrFormat("%s invoked oom-killer: gfp_mask=0x%x, order=%d, oomkilladj=%d\n",
                         CommOf(task), gfp, order, oom_adj) +
         Stack(mm, task, "out_of_memory");
}

std::string CgroupReport(const MemoryManager& mm, const MemCgroup& task_group,
                         const MemCgroup& full) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  std::int64_t anon = 0;
  std::int64_t cache = 0;
  for (const MemCgroup* group : full.subtree) {
    anon += group->anon.load(kRelaxed);
    cache += group->cache.load(kRelaxed);
  }
  return absl::StrFormat(
      "Task in %s killed as a result of limit of %s\n"
      "memory: usage %dkB, limit %dkB, failcnt %d\n"
      "Memory cgroup stats for %s: cache:%dKB rss:%dKB\n",
      task_group.path, full.path, KiB(mm, full.usage.load(kRelaxed)), KiB(mm, full.limit.n),
      full.failcnt.load(kRelaxed), full.path, KiB(mm, cache), KiB(mm, anon));
}

std::string AllocationFailureHeader(const MemoryManager& mm, const Task& task, Gfp gfp, int order) {
  return absl::StrFormat("%s: page allocation failure. order:%d, mode:0x%x\n", CommOf(task), order,
                         gfp) +
         Stack(mm, task, "get_page_from_freelist");
}

std::string TaskTable(const MemoryManager& mm, const TaskList& tasks) {
  std::string text = "[ pid ]   uid  tgid total_vm      rss cpu oom_adj name\n";
  for (const auto& [id, task] : tasks) {
    if (task->space == nullptr) continue;
    const AddressSpaces::Usage usage = mm.spaces->UsageOf(*task->space);
    absl::StrAppendFormat(&text, "[%5d] %5d %5d %8d %8d %3d     %3d %s\n", id, 0, id,
                          usage.total_vm, usage.rss, task->last_cpu.load(std::memory_order_relaxed),
                          task->oom_adj, CommOf(*task->task));
  }
  return text;
}

}  // namespace pagestorm::mm
