#include "bench/experiments/gather.h"

#include "bench/experiments/proc_tree.h"
#include "mm/lru.h"
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
    zones.push_back(std::move(record));
  }
  return zones;
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
