#include "mm/writeback.h"

#include <algorithm>

#include "mm/vmstat.h"

namespace pagestorm::mm {
namespace {

constexpr std::int64_t kDirtyRatioMin = 5;

std::int64_t Dirtyable(const VmStat& stat) {
  std::int64_t pages = stat.Global(ZoneStat::kNrFreePages) + 1;
  for (const ZoneStat list : {ZoneStat::kNrInactive, ZoneStat::kNrActive, ZoneStat::kNrInactiveFile,
                              ZoneStat::kNrActiveFile}) {
    pages += stat.Global(list);
  }
  return pages;
}

}  // namespace

DirtyLimits DirtyLimitsFor(std::int64_t dirtyable, const DirtyPolicy& policy) {
  const std::int64_t dirty_ratio = std::max(kDirtyRatioMin, policy.dirty_ratio);
  std::int64_t background_ratio = policy.dirty_background_ratio;
  if (background_ratio >= dirty_ratio) background_ratio = dirty_ratio / 2;
  return {.background = background_ratio * dirtyable / 100, .dirty = dirty_ratio * dirtyable / 100};
}

Writeback::Writeback(MemoryManager& mm)
    : mm_(mm),
      queues_{WaitQueue(mm.engine, "congestion_wait", 0),
              WaitQueue(mm.engine, "congestion_wait", 1)} {}

void Writeback::CongestionWait(IoDirection direction, Ns timeout) {
  congestion_naps_.fetch_add(1, std::memory_order_relaxed);
  static_cast<void>(queues_[static_cast<std::size_t>(direction)].WaitForWake(timeout));
}

void Writeback::NoteReleased(IoDirection direction) {
  WaitQueue& queue = queues_[static_cast<std::size_t>(direction)];
  if (queue.WaitersRacy() > 0) queue.WakeAll();
}

DirtyLimits Writeback::Limits() const {
  return DirtyLimitsFor(Dirtyable(*mm_.vmstat), mm_.policy.dirty);
}

void Writeback::ThrottleVmWriteout(Gfp gfp) {
  const VmStat& stat = *mm_.vmstat;
  for (;;) {
    const std::int64_t dirty = Limits().dirty;
    const std::int64_t writing =
        stat.Global(ZoneStat::kNrUnstable) + stat.Global(ZoneStat::kNrWriteback);
    if (writing <= dirty + dirty / 10) return;
    writeout_naps_.fetch_add(1, std::memory_order_relaxed);
    CongestionWait(IoDirection::kWrite, {kSecond.n / 10});
    if (!HasIoAndFs(gfp)) return;
  }
}

Writeback::Naps Writeback::naps() const {
  return {.congestion = congestion_naps_.load(std::memory_order_relaxed),
          .writeout = writeout_naps_.load(std::memory_order_relaxed)};
}

}  // namespace pagestorm::mm
