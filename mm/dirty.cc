#include "mm/dirty.h"

#include <algorithm>

#include "mm/flusher.h"
#include "mm/page_cache.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"

namespace pagestorm::mm {
namespace {

constexpr std::int64_t kRatelimitMin = 16;
constexpr std::int64_t kRatelimitMaxBytes = 4096 * 1024;
constexpr std::int64_t kRatelimitExceeded = 8;

}  // namespace

std::int64_t RatelimitPages(std::int64_t vm_total_pages, std::size_t online_cpus, PageShift shift) {
  const std::int64_t pages = vm_total_pages / (32 * static_cast<std::int64_t>(online_cpus));
  // With 64 KiB pages 4 MiB are 64 pages: the maximum is never below the minimum.
  return std::clamp(pages, kRatelimitMin, PagesFromBytes(kRatelimitMaxBytes, shift).n);
}

DirtyThrottle::DirtyThrottle(MemoryManager& mm, PageCache& cache)
    : mm_(mm),
      cache_(cache),
      ratelimit_(RatelimitPages(mm.vm_total_pages(), mm.engine.online_cpus(), mm.page_shift())),
      cpus_(mm.engine.cpu_count()) {}

void DirtyThrottle::BalanceRatelimited() {
  const std::int64_t limit = exceeded() ? kRatelimitExceeded : ratelimit_;
  // Nothing switches between the two lines, so the count is this CPU's alone.
  Relaxed<std::int64_t>& dirtied = cpus_[static_cast<std::size_t>(CurrentCpu().id.n)].dirtied;
  dirtied += 1;
  if (dirtied < limit) return;
  dirtied = 0;
  Balance();
}

std::int64_t DirtyThrottle::Balance() {
  const VmStat& stat = *mm_.vmstat;
  const auto reclaimable = [&stat] {
    return stat.Global(ZoneStat::kNrDirty) + stat.Global(ZoneStat::kNrUnstable);
  };
  const auto of_disk = [this] { return cache_.dirty_pages() + cache_.writeback_pages(); };
  checks_.fetch_add(1, std::memory_order_relaxed);
  std::int64_t naps = 0;
  std::int64_t written = 0;
  DirtyLimits limits;
  for (;;) {
    limits = mm_.writeback->Limits();
    if (of_disk() <= limits.dirty) break;
    // A writer waits only where the flusher alone cannot keep up.
    const std::int64_t all = reclaimable() + stat.Global(ZoneStat::kNrWriteback);
    if (all < (limits.background + limits.dirty) / 2) break;
    exceeded_.store(true, std::memory_order_relaxed);
    if (cache_.dirty_pages() > 0) {
      WritebackControl control{.nr_to_write = write_chunk()};
      cache_.flusher().WriteInodes(control);
      written += write_chunk() - control.nr_to_write;
      limits = mm_.writeback->Limits();
    }
    if (of_disk() <= limits.dirty || written >= write_chunk()) break;
    ++naps;
    naps_.fetch_add(1, std::memory_order_relaxed);
    mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
  }
  written_.fetch_add(written, std::memory_order_relaxed);
  if (of_disk() < limits.dirty) exceeded_.store(false, std::memory_order_relaxed);
  if (cache_.flusher().busy()) return naps;
  const bool start =
      mm_.policy.reclaim.laptop_mode ? written > 0 : reclaimable() > limits.background;
  if (start) cache_.flusher().WakeBackground(0);
  return naps;
}

DirtyThrottle::Counts DirtyThrottle::counts() const {
  return {.checks = checks_.load(std::memory_order_relaxed),
          .naps = naps_.load(std::memory_order_relaxed),
          .written = written_.load(std::memory_order_relaxed)};
}

}  // namespace pagestorm::mm
