#include "mm/pagevec.h"

#include <mutex>

#include "mm/lru.h"
#include "mm/memcg.h"
#include "mm/page_alloc.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

// The end of the run of frames that starts at `first` and lies in one zone.
std::size_t EndOfZoneRun(MemoryManager& mm, std::span<const FrameNo> frames, std::size_t first) {
  std::size_t end = first + 1;
  while (end < frames.size() && mm.frames[frames[end]].zone() == mm.frames[frames[first]].zone()) {
    ++end;
  }
  return end;
}

// Takes frames that nobody refers to any more off their lists. Entries that somebody else will free
// become kNoFrame.
void DeleteFromLru(MemoryManager& mm, std::span<FrameNo> dead) {
  for (std::size_t first = 0; first < dead.size();) {
    const std::size_t end = EndOfZoneRun(mm, dead, first);
    mm.ZoneOf(dead[first]).lru->Del(dead.subspan(first, end - first));
    first = end;
  }
}

void ReleaseSome(MemoryManager& mm, std::span<const FrameNo> frames, bool cold) {
  std::array<FrameNo, kPagevecSize> dead{};
  std::size_t dead_count = 0;
  std::array<FrameNo, kPagevecSize> listed{};
  std::array<std::size_t, kPagevecSize> listed_at{};  // its place in `dead`
  std::size_t listed_count = 0;
  for (const FrameNo n : frames) {
    PageFrame& frame = mm.frames[n];
    if (frame.refcount.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    // Nobody can isolate a frame without references, so one that is on no list now stays so.
    const FrameState state = frame.state();
    if (state == FrameState::kLru || state == FrameState::kClaimed) {
      listed_at[listed_count] = dead_count;
      listed[listed_count++] = n;
    }
    dead[dead_count++] = n;
  }
  if (listed_count > 0) DeleteFromLru(mm, {listed.data(), listed_count});
  for (std::size_t i = 0; i < listed_count; ++i) dead[listed_at[i]] = listed[i];
  for (std::size_t i = 0; i < dead_count; ++i) {
    if (dead[i] == kNoFrame) continue;
    mm.frames[dead[i]].refcount.store(1,
                                      std::memory_order_relaxed);  // Free() takes over the last one
    mm.allocator->Free(dead[i], 0, cold);
  }
}

}  // namespace

void ReleasePages(MemoryManager& mm, std::span<const FrameNo> frames, bool cold) {
  for (std::size_t first = 0; first < frames.size(); first += kPagevecSize) {
    ReleaseSome(mm,
                frames.subspan(first, std::min<std::size_t>(kPagevecSize, frames.size() - first)),
                cold);
  }
}

Pagevecs::Pagevecs(MemoryManager& mm) : mm_(mm) {
  for (std::size_t i = 0; i < mm.engine.cpu_count(); ++i) cpus_.emplace_back(mm.engine.kind());
}

// No fiber switches in here (nothing charges), so the CPU cannot change under us.
void Pagevecs::Queue(FrameNo n, Kind kind) {
  PageFrame& frame = mm_.frames[n];
  frame.refcount.fetch_add(1, std::memory_order_relaxed);
  if (kind != Kind::kRotate) frame.SetState(FrameState::kPagevec);
  Pagevec full;
  {
    PerCpu& cpu = cpus_[static_cast<std::size_t>(CurrentCpu().id.n)];
    std::lock_guard guard(cpu.mu);
    Pagevec& vec = cpu.vec[static_cast<std::size_t>(kind)];
    vec.frame[static_cast<std::size_t>(vec.count++)] = n;
    cpu.waiting.fetch_add(1, std::memory_order_relaxed);
    if (vec.count < kPagevecSize) return;
    full = vec;
    vec.count = 0;
    cpu.waiting.fetch_sub(kPagevecSize, std::memory_order_relaxed);
  }
  Flush(full, kind);
}

void Pagevecs::Flush(const Pagevec& vec, Kind kind) {
  const std::span<const FrameNo> frames(vec.frame.data(), static_cast<std::size_t>(vec.count));
  for (std::size_t first = 0; first < frames.size();) {
    const std::size_t end = EndOfZoneRun(mm_, frames, first);
    FlushRun(frames.subspan(first, end - first), kind);
    first = end;
  }
  ReleasePages(mm_, frames);
}

// Frames of one zone.
void Pagevecs::FlushRun(std::span<const FrameNo> frames, Kind kind) {
  Lru& lru = *mm_.ZoneOf(frames.front()).lru;
  if (kind == Kind::kRotate) {
    const std::int64_t moved = lru.RotateTail(frames);
    if (moved > 0) mm_.vmstat->Count(VmEvent::kPgrotated, moved);
  } else {
    lru.Add(frames, kind == Kind::kAddActive);
  }
}

void Pagevecs::RotateReclaimable(FrameNo n) {
  const PageFrame& frame = mm_.frames[n];
  if (frame.Test(kPageLocked | kPageDirty | kPageActive | kPageUnevictable)) return;
  if (frame.state() != FrameState::kLru) return;
  Queue(n, Kind::kRotate);
}

void Pagevecs::Drain(PerCpu& cpu) {
  if (cpu.waiting.load(std::memory_order_relaxed) == 0) return;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    Pagevec some;
    {
      std::lock_guard guard(cpu.mu);
      some = cpu.vec[kind];
      cpu.vec[kind].count = 0;
      cpu.waiting.fetch_sub(some.count, std::memory_order_relaxed);
    }
    if (some.count > 0) Flush(some, static_cast<Kind>(kind));
  }
}

void Pagevecs::DrainLocal() {
  Drain(cpus_[static_cast<std::size_t>(CurrentCpu().id.n)]);
  for (std::size_t i = mm_.engine.online_cpus(); i < cpus_.size(); ++i) Drain(cpus_[i]);
}

void Pagevecs::DrainAll() {
  for (PerCpu& cpu : cpus_) Drain(cpu);
}

std::int64_t Pagevecs::WaitingRacy() const {
  std::int64_t waiting = 0;
  for (const PerCpu& cpu : cpus_) waiting += cpu.waiting.load(std::memory_order_relaxed);
  return waiting;
}

void Pagevecs::MarkAccessed(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  if (frame.Test(kPageActive | kPageUnevictable) || !frame.Test(kPageReferenced) ||
      frame.state() != FrameState::kLru) {
    if (!frame.Test(kPageReferenced)) frame.Set(kPageReferenced);
    return;
  }
  if (mm_.ZoneOf(n).lru->SetActive(n, true)) mm_.vmstat->Count(VmEvent::kPgactivate);
  if (mm_.cgroups != nullptr) [[unlikely]]
    mm_.cgroups->NoteMoved(n);
  frame.Clear(kPageReferenced);
}

}  // namespace pagestorm::mm
