// A CPU's own free pages of one zone: order 0, mixed migrate types, hot at the head, cold at the
// tail.
//
// The kernel guards it by running on that CPU with interrupts off. Here it has a host lock instead,
// which costs nothing under the virtual engine and which one other party takes: a drain of all
// CPUs, for which the kernel interrupts them. Nothing under it charges, blocks or takes zone.lock,
// so no other CPU runs meanwhile; refill and spill work on a private batch. Its pages are in no
// counter and invisible to other CPUs. A frame on the list has state kPcp and its migrate type in
// `priv`.  Source: spec throttle-2.6.26 2.7.
#pragma once

#include <cstdint>

#include "core/raw_lock.h"
#include "core/units.h"
#include "mm/migrate_type.h"
#include "mm/page_frame.h"
#include "mm/relaxed.h"
#include "mm/watermarks.h"

namespace pagestorm::mm {

struct Zone;

class alignas(64) Pcp {
 public:
  Pcp(EngineKind kind, PcpSize size) : lock_(kind), size_(size) {}

  // The frame nearest to the head (cold: to the tail) of that type; kNoFrame: none.
  [[nodiscard]] FrameNo Take(FrameTable& frames, MigrateType type, bool cold);
  // The head, after `batch` (possibly empty) has been put before it; kNoFrame: there is none.
  [[nodiscard]] FrameNo RefillAndTake(FrameTable& frames, FrameList& batch);
  // Adds a free frame. If that makes the list full, its `batch` coldest frames end up on `spill`.
  void Put(FrameTable& frames, FrameNo n, bool cold, FrameList& spill);
  // Moves everything to `out`.
  void Drain(FrameTable& frames, FrameList& out);

  [[nodiscard]] std::int64_t count() const { return count_; }  // a glance
  [[nodiscard]] std::int64_t high() const { return size_.high; }
  [[nodiscard]] std::int64_t batch() const { return size_.batch; }
  // At rest only.
  [[nodiscard]] const FrameList& list() const { return list_; }

  int expire = 0;  // ticks until a remote node's idle list is drained; for the owner's counter tick

 private:
  void NoteCount() { count_ = list_.size(); }

  RawLock lock_;  // guards the list
  FrameList list_;
  const PcpSize size_;
  Relaxed<std::int64_t> count_ = 0;
};

// What the allocator does with the running CPU's list of a zone. Both charge what they do under
// zone.lock.

// An order-0 frame in state kPcp, taken off the list or, on a service CPU, from the buddy; refills
// `batch` under one hold of zone.lock. kNoFrame: the zone has none.
[[nodiscard]] FrameNo TakeFromPcp(Zone& zone, MigrateType type, bool cold);
// Frees an order-0 frame (state kInUse, refcount 0). Spills `batch` under one hold of zone.lock
// when full.
void PutToPcp(Zone& zone, FrameNo n, bool cold);
// Returns one list to the buddy.
void DrainPcp(Zone& zone, Pcp& pcp);

}  // namespace pagestorm::mm
