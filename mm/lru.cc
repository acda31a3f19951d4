#include "mm/lru.h"

#include <algorithm>

#include "mm/entry_ring.h"
#include "mm/lru_per_cgroup.h"
#include "mm/memcg.h"
#include "mm/memory_manager.h"
#include "mm/pagevec.h"
#include "mm/zone.h"

namespace pagestorm::mm {

bool GetFrameUnlessZero(PageFrame& frame) {
  std::uint16_t count = frame.refcount.load(std::memory_order_relaxed);
  while (count != 0) {
    if (frame.refcount.compare_exchange_weak(count, static_cast<std::uint16_t>(count + 1),
                                             std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

VisiblePin::VisiblePin(MemoryManager& mm, FrameNo n) : mm_(mm), frame_(n) {
  if (!mm.policy.reclaim.isolated_visible) return;
  needed_ = true;
  if (!GetFrameUnlessZero(mm.frames[n])) return;
  held_ = true;
  // With a reference held it cannot leave the lists any more.
  if (mm.frames[n].state() != FrameState::kLru) Drop(/*cold=*/false);
}

void VisiblePin::Drop(bool cold) {
  if (!held_) return;
  held_ = false;
  ReleasePages(mm_, {&frame_, 1}, cold);
}

void IsolatedBatch::ForgetFreed() {
  const auto freed = [](const BatchEntry& entry) { return entry.frame == kNoFrame; };
  entries.erase(std::remove_if(entries.begin(), entries.end(), freed), entries.end());
}

std::int64_t IsolatedBatch::PutBack() {
  ForgetFreed();
  std::int64_t active = 0;
  const std::size_t count = entries.size();
  for (std::size_t first = 0; first < count; first += kPagevecSize) {
    const std::size_t size = std::min<std::size_t>(kPagevecSize, count - first);
    const std::span<const BatchEntry> chunk(entries.data() + first, size);
    zone_.lru->PutBack(chunk);
    if (mm_.cgroups != nullptr) [[unlikely]]
      mm_.cgroups->NoteMoved(chunk);
    if (mm_.policy.reclaim.isolated_visible) {
      active +=
          std::count_if(chunk.begin(), chunk.end(), [](const BatchEntry& e) { return e.activate; });
      continue;  // it holds no references
    }
    std::array<FrameNo, kPagevecSize> release{};
    for (std::size_t i = 0; i < size; ++i) {
      release[i] = chunk[i].frame;
      if (chunk[i].activate) ++active;
    }
    ReleasePages(mm_, {release.data(), size});
  }
  entries.clear();
  return active;
}

std::unique_ptr<Lru> MakeLru(MemoryManager& mm, Zone& zone) {
  if (mm.cgroups != nullptr && mm.cgroups->owns_lists()) {
    return std::make_unique<PerCgroupLru>(mm, *mm.cgroups, zone);
  }
  switch (mm.policy.lru) {
    case LruDesign::kRing:
      return MakeRingLru(mm, zone);
    case LruDesign::kClock:
      return MakeClockLru(mm, zone);
    case LruDesign::kLocked:
      break;
  }
  return MakeLockedLru(mm, zone);
}

// Two lists of two rings each, and a sequence a frame. Every ring is rounded up to a power of two.
std::size_t LruBytesFor(LruDesign design, std::int64_t frames, std::size_t cpus) {
  if (design != LruDesign::kRing) return 0;
  return 4 * EntryRing::BytesFor(frames, cpus) +
         static_cast<std::size_t>(frames) * sizeof(std::uint32_t);
}

}  // namespace pagestorm::mm
