// What a CPU that would go idle does: pulls one waiting task from the busiest CPU near it.
//
// The rings are the CPUs that share its cache, its node, then the other nodes by distance. Within
// a ring the CPU with the largest load is asked first; one whose tasks may not move is passed over.
#include <mutex>

#include "core/engine.h"
#include "sched/cfs.h"

namespace pagestorm::sched {

bool CfsScheduler::PullInto(Cpu& cpu) {
  if (cpu.kind == CpuKind::kService) return false;  // runs what is sent there, and nothing else
  SchedEntity* entity = StealFrom(LlcMask(cpu.id), cpu);
  for (const int node : nodes_by_distance_[static_cast<std::size_t>(NodeOf(cpu.id))]) {
    if (entity != nullptr) break;
    entity = StealFrom(node_masks_[static_cast<std::size_t>(node)], cpu);
  }
  if (entity == nullptr) return false;
  RunQueue& rq = QueueOf(cpu.id);
  std::lock_guard guard(rq.mu());
  rq.UpdateCurr(cpu.clock);
  rq.Admit(*entity, Arrival::kMove, 0);
  ++rq.stats().pulled;
  idle_.Clear(cpu.id);
  return true;
}

SchedEntity* CfsScheduler::StealFrom(const CpuBits& ring, const Cpu& thief) {
  CpuId busiest = kNoCpu;
  std::int64_t most = 0;
  ForEachCpu(ring, overloaded_, words_, [&](CpuId cpu) {
    const std::int64_t load = queue(cpu).LoadRacy();
    if (cpu != thief.id && load > most) {
      busiest = cpu;
      most = load;
    }
    return false;
  });
  if (busiest == kNoCpu) return nullptr;
  if (SchedEntity* entity = TryTake(busiest, thief)) return entity;
  SchedEntity* entity = nullptr;
  ForEachCpu(ring, overloaded_, words_, [&](CpuId cpu) {
    if (cpu != thief.id && cpu != busiest) entity = TryTake(cpu, thief);
    return entity != nullptr;
  });
  return entity;
}

SchedEntity* CfsScheduler::TryTake(CpuId victim, const Cpu& thief) {
  RunQueue& rq = QueueOf(victim);
  std::lock_guard guard(rq.mu());
  // A lone task is about to run where it waits. The set said otherwise, but it may be stale.
  if (rq.nr_running() < 2) return nullptr;
  SchedEntity* entity = rq.TakeMovable(thief.id, thief.clock);
  NoteOverload(victim, rq);
  return entity;
}

}  // namespace pagestorm::sched
