#include "bench/experiments/gather.h"

#include "bench/experiments/proc_tree.h"
#include "mm/lru.h"
#include "mm/memcg.h"
#include "mm/reclaim.h"
#include "mm/throttle.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::bench {
namespace {

Counters ReadCounters(mm::MemoryManager& memory) {
  Counters counters;
  const bool split = memory.policy.reclaim.split_lru;
  for (std::size_t i = 0; i < mm::kZoneStats; ++i) {
    const auto stat = static_cast<mm::ZoneStat>(i);
    const std::string_view name = mm::ZoneStatName(stat, split);
    std::int64_t sum = 0;
    for (std::size_t zone = 0; zone < memory.zones.size(); ++zone) {
      sum += memory.vmstat->Exact(zone, stat);
    }
    counters.emplace_back(name, sum);
  }
  for (std::size_t i = 0; i < mm::kVmEvents; ++i) {
    const auto event = static_cast<mm::VmEvent>(i);
    counters.emplace_back(mm::VmEventName(event), memory.vmstat->Event(event));
  }
  return counters;
}

std::vector<ZoneRecord> ReadZones(mm::MemoryManager& memory) {
  std::vector<ZoneRecord> zones;
  for (const auto& zone : memory.zones) {
    ZoneRecord record;
    record.node = zone->node.n;
    record.name = zone->name;
    record.present = zone->present.n;
    record.spanned = zone->spanned.n;
    record.free = memory.vmstat->Exact(zone->ordinal, mm::ZoneStat::kNrFreePages);
    record.min = zone->watermark.min;
    record.low = zone->watermark.low;
    record.high = zone->watermark.high;
    record.lock = zone->lock.stats();
    record.lru_lock = zone->lru_lock.stats();
    record.lru_line = zone->lru->line_stats();
    if (memory.cgroups != nullptr) record.cgroup_lock = memory.cgroups->LockStatsOf(*zone);
    zones.push_back(std::move(record));
  }
  return zones;
}

std::vector<CgroupRecord> ReadCgroups(mm::MemoryManager& memory) {
  std::vector<CgroupRecord> groups;
  if (memory.cgroups == nullptr) return groups;
  for (const mm::MemCgroup& group : memory.cgroups->all()) {
    if (group.parent == nullptr) continue;
    groups.push_back({.path = group.path,
                      .limit = group.limit == mm::kNoLimit ? -1 : group.limit.n,
                      .usage = group.usage.load(),
                      .max_usage = group.max_usage.load(),
                      .failcnt = group.failcnt.load(),
                      .reclaims = group.reclaims.load(),
                      .fruitless = group.fruitless.load(),
                      .scanned = group.pages_scanned.load(),
                      .reclaimed = group.pages_reclaimed.load(),
                      .kills = group.kills.load(),
                      .bypassed = group.bypassed.load()});
  }
  return groups;
}

}  // namespace

void GatherBefore(Emulator& emulator, RunRecord& record) {
  record.topology = emulator.topology();
  record.before = ReadCounters(emulator.memory());
  record.files_before = ProcTree(emulator);
}

void GatherAfter(Emulator& emulator, RunRecord& record) {
  mm::MemoryManager& memory = emulator.memory();
  record.after = ReadCounters(memory);
  record.files_after = ProcTree(emulator);
  record.zones = ReadZones(memory);
  record.cgroups = ReadCgroups(memory);
  record.peaks = memory.reclaimer->PeaksNow();
  record.gate = memory.gate->peak();
  record.gate_numbers = memory.gate->numbers();
  record.oom_kills = memory.oom->kills();
  record.ooms = memory.oom->snapshots();
  record.samples = emulator.samples();
  record.dmesg = memory.dmesg->Text();
  const RunEnd end = record.outcome.run.end;
  record.partial = end != RunEnd::kDone && end != RunEnd::kStalled;
  if (const HostReport* report = emulator.engine().host_report(); report != nullptr) {
    record.host.threads = *report;
  }
}

}  // namespace pagestorm::bench
