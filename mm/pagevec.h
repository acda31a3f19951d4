// Pagevecs: frames on their way to an LRU list, or to its tail, wait on the CPU that sent them
// until 14 are together and move as one batch: one hold of lru_lock in the kernel's design.
//
// A waiting frame is referenced by its pagevec. One that waits to be added is in state kPagevec, on
// no list and in no counter; one that waits to be rotated stays on its list. Preemption off is what
// guards a CPU's pagevecs in the kernel; the host lock in here stands in for the interrupts that
// drain those of others. Source: spec throttle-2.6.26 2.15 (rotation), 2.18.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "core/engine.h"
#include "core/raw_lock.h"
#include "mm/gfp.h"
#include "mm/memory_manager.h"
#include "mm/page_frame.h"

namespace pagestorm::mm {

// Drops one reference of each frame that may be on an LRU list; who had the last one is taken off
// its list and freed. May take zone->lru_lock (by the LRU's design) and zone->lock. `cold` frees go
// to the cold end of the per-CPU lists.
void ReleasePages(MemoryManager& mm, std::span<const FrameNo> frames, bool cold = false);
inline void ReleasePage(MemoryManager& mm, FrameNo n, bool cold = false) {
  ReleasePages(mm, {&n, 1}, cold);
}

class Pagevecs {
 public:
  explicit Pagevecs(MemoryManager& mm);

  // lru_cache_add, lru_cache_add_active: queues a frame that is in no list (state kInUse) and not
  // free. Takes a reference of its own. Anonymous faults use AddActive.
  void Add(FrameNo n) { Queue(n, Kind::kAdd); }
  void AddActive(FrameNo n) { Queue(n, Kind::kAddActive); }
  // At the end of a write whose kPageReclaim bit was set: the frame goes to the inactive tail, to
  // be freed next. Nothing if it is locked, dirty, active or on no LRU list just now (on a
  // reclaimer's batch, say).
  void RotateReclaimable(FrameNo n);

  // Empties the pagevecs of the running CPU (lru_add_drain), and those of service CPUs: a device's
  // completions would be interrupts of the CPUs that drain.
  void DrainLocal();
  void DrainAll();
  // Frames waiting to be added, or rotated, on all CPUs; racy.
  [[nodiscard]] std::int64_t WaitingRacy() const;

  // mark_page_accessed: an inactive, referenced frame on a list becomes active; else it gets
  // referenced.
  void MarkAccessed(FrameNo n);

 private:
  enum class Kind : std::uint8_t { kAdd, kAddActive, kRotate };
  static constexpr std::size_t kKinds = 3;
  struct Pagevec {
    std::array<FrameNo, kPagevecSize> frame{};
    int count = 0;
  };
  struct alignas(64) PerCpu {
    explicit PerCpu(EngineKind engine_kind) : mu(engine_kind) {}
    RawLock mu;
    std::array<Pagevec, kKinds> vec;
    std::atomic<std::int32_t> waiting{0};
  };

  void Queue(FrameNo n, Kind kind);
  void Flush(const Pagevec& vec, Kind kind);
  void FlushRun(std::span<const FrameNo> frames, Kind kind);
  void Drain(PerCpu& cpu);

  MemoryManager& mm_;
  std::deque<PerCpu> cpus_;  // by CpuId, service CPUs included
};

}  // namespace pagestorm::mm
