#include "mm/pcp.h"

#include <mutex>

#include "core/engine.h"
#include "core/spin_lock.h"
#include "mm/buddy.h"
#include "mm/memory_manager.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

std::uint32_t Tag(MigrateType type) { return static_cast<std::uint32_t>(type); }

// The running CPU's list; nullptr on a service CPU.
Pcp* OwnPcp(Zone& zone) {
  const Cpu& cpu = CurrentCpu();
  return cpu.kind == CpuKind::kService ? nullptr
                                       : zone.pcp[static_cast<std::size_t>(cpu.id.n)].get();
}

// `count` order-0 frames from the buddy under one hold of zone.lock, in the order they were found.
void TakeBatch(Zone& zone, std::int64_t count, MigrateType type, FrameList& batch) {
  FrameTable& frames = zone.mm.frames;
  BuddyWork work;
  SpinGuard guard(zone.lock);
  for (std::int64_t i = 0; i < count; ++i) {
    const FrameNo n = TakeBlockLocked(zone, 0, type, FrameState::kPcp, work);
    if (n == kNoFrame) break;
    frames[n].priv = Tag(type);
    batch.PushTail(frames, n);
  }
  Charge({work.steps * zone.mm.costs.buddy_op_ns});
}

// Gives a batch back under one hold of zone.lock.
void ReturnBatch(Zone& zone, FrameList& batch) {
  if (batch.empty()) return;
  FrameTable& frames = zone.mm.frames;
  BuddyWork work;
  SpinGuard guard(zone.lock);
  NoteBuddyFree(zone);
  while (!batch.empty()) PutBlockLocked(zone, batch.PopHead(frames), 0, work);
  Charge({work.steps * zone.mm.costs.buddy_op_ns});
}

}  // namespace

FrameNo Pcp::Take(FrameTable& frames, MigrateType type, bool cold) {
  const std::lock_guard<RawLock> guard(lock_);
  FrameNo n = cold ? list_.tail() : list_.head();
  while (n != kNoFrame && frames[n].priv != Tag(type)) n = cold ? frames[n].prev : frames[n].next;
  if (n == kNoFrame) return kNoFrame;
  list_.Remove(frames, n);
  NoteCount();
  return n;
}

FrameNo Pcp::RefillAndTake(FrameTable& frames, FrameList& batch) {
  const std::lock_guard<RawLock> guard(lock_);
  list_.SpliceHead(frames, batch);
  const FrameNo n = list_.PopHead(frames);
  NoteCount();
  return n;
}

void Pcp::Put(FrameTable& frames, FrameNo n, bool cold, FrameList& spill) {
  const std::lock_guard<RawLock> guard(lock_);
  if (cold) {
    list_.PushTail(frames, n);
  } else {
    list_.PushHead(frames, n);
  }
  if (list_.size() >= size_.high) {
    for (std::int64_t i = 0; i < size_.batch && !list_.empty(); ++i) {
      spill.PushTail(frames, list_.PopTail(frames));
    }
  }
  NoteCount();
}

void Pcp::Drain(FrameTable& frames, FrameList& out) {
  const std::lock_guard<RawLock> guard(lock_);
  out.SpliceHead(frames, list_);
  NoteCount();
}

FrameNo TakeFromPcp(Zone& zone, MigrateType type, bool cold) {
  FrameTable& frames = zone.mm.frames;
  Pcp* pcp = OwnPcp(zone);
  if (pcp == nullptr) {
    FrameList one;
    TakeBatch(zone, 1, type, one);
    return one.PopHead(frames);
  }
  const FrameNo n = pcp->Take(frames, type, cold);
  if (n != kNoFrame) [[likely]]
    return n;
  FrameList batch;
  TakeBatch(zone, pcp->batch(), type, batch);
  return pcp->RefillAndTake(frames, batch);
}

void PutToPcp(Zone& zone, FrameNo n, bool cold) {
  FrameTable& frames = zone.mm.frames;
  PageFrame& frame = frames[n];
  FrameList spill;
  frame.ResetState(FrameState::kPcp);
  if (Pcp* pcp = OwnPcp(zone); pcp != nullptr) {
    frame.priv = Tag(zone.BlockType(n).load(std::memory_order_relaxed));
    pcp->Put(frames, n, cold, spill);
  } else {
    spill.PushTail(frames, n);
  }
  ReturnBatch(zone, spill);
}

void DrainPcp(Zone& zone, Pcp& pcp) {
  FrameList all;
  pcp.Drain(zone.mm.frames, all);
  ReturnBatch(zone, all);
}

}  // namespace pagestorm::mm
