#include "mm/zone_reclaimable.h"

#include <algorithm>

#include "mm/lru.h"
#include "mm/reclaim.h"
#include "mm/swap.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {

std::int64_t ReclaimablePages(const MemoryManager& mm, const Zone& zone) {
  const std::int64_t all = mm.reclaimer->LruPages(zone);
  if (mm.swap->free_slots() > 0) return all;
  const auto read = [&](ZoneStat stat) { return mm.vmstat->Read(zone.ordinal, stat); };
  if (mm.policy.reclaim.split_lru) {
    return read(ZoneStat::kNrInactiveFile) + read(ZoneStat::kNrActiveFile);
  }
  return std::max<std::int64_t>(0, all - read(ZoneStat::kNrAnonPages));
}

std::int64_t WritePending(const MemoryManager& mm, const Zone& zone) {
  const auto read = [&](ZoneStat stat) { return mm.vmstat->Read(zone.ordinal, stat); };
  return read(ZoneStat::kNrDirty) + read(ZoneStat::kNrWriteback) + read(ZoneStat::kNrUnstable);
}

}  // namespace pagestorm::mm
