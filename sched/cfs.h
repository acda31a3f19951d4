// The fair scheduler: run queues by virtual time, placement of forks and wake-ups, idle stealing.
//
// Source: spec numa-balancing-v5 1.1-1.5 and 1.9; docs/scheduler.md follows a wake-up by function
// name. The periodic balancer over domains (1.6-1.8) is not here yet; what stands in for it is in
// docs/adr/0040-balancing-without-domains.md.
//
// Thread-safe: one RawLock a run queue, never two at once; a task on its way between two queues is
// on none. Nothing here calls the engine, charges or switches. Under the virtual engine every
// choice is a function of the calls so far: ties go to the lower CPU and the lower task.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/scheduler.h"
#include "sched/cpu_bits.h"
#include "sched/cpu_topology.h"
#include "sched/entity.h"
#include "sched/run_queue.h"
#include "sched/sched_policy.h"

namespace pagestorm::sched {

class CfsScheduler final : public Scheduler {
 public:
  //   policy: unscaled, valid (SchedPolicy::Validate).
  //   topology: of the online CPUs, in the order the engine has them.
  CfsScheduler(EngineKind kind, const SchedPolicy& policy, CpuTopology topology);

  void Attach(Engine& engine) override;
  void TaskCreated(Task& task, const Task* parent) override;
  void TaskExited(Task& task) override;
  Cpu& Place(Task& task, EnqueueReason reason, Cpu* waker) override;
  bool Enqueue(Cpu& cpu, Task& task, EnqueueReason reason) override;
  Task* PickNext(Cpu& cpu, Task* prev) override;
  void PutPrev(Cpu& cpu, Task& prev) override;
  void Stopped(Cpu& cpu, Task& prev) override;
  std::int64_t SliceEnd(Cpu& cpu, Task& task) override;
  bool Tick(Cpu& cpu, Task& task) override;
  [[nodiscard]] std::int64_t QueuedRacy(const Cpu& cpu) const override {
    return queue(cpu.id).WaitingRacy();
  }

  [[nodiscard]] const SchedPolicy& policy() const { return policy_; }  // scaled
  [[nodiscard]] const CpuTopology& topology() const { return topology_; }
  [[nodiscard]] const RunQueue& queue(CpuId cpu) const {
    return *queues_[static_cast<std::size_t>(cpu.n)];
  }
  // Sums over all CPUs. At a quiescent point.
  [[nodiscard]] RunQueueStats Stats() const;
  // Compute power of a CPU: 1024, or its share of a core with SMT. Source: spec 1.5.
  [[nodiscard]] std::int64_t Power(CpuId cpu) const {
    return power_[static_cast<std::size_t>(cpu.n)];
  }
  // Every queue, and the idle and overloaded sets against them. At a quiescent point.
  void CheckInvariants() const;

 private:
  [[nodiscard]] RunQueue& QueueOf(CpuId cpu) { return *queues_[static_cast<std::size_t>(cpu.n)]; }
  [[nodiscard]] std::int64_t TimeAt(const Cpu& cpu, const RunQueue& rq, const SchedEntity& e) const;
  void NoteOverload(CpuId cpu, const RunQueue& rq) {
    overloaded_.Assign(cpu, rq.nr_running() >= 2 && rq.has_waiting());
  }
  void BuildMasks();

  // cfs_placement.cc: where a task should run.
  CpuId PlaceWoken(const Task& task, CpuId prev, const Cpu* waker) const;
  CpuId PlaceForked(const Task& task, const Cpu* parent) const;
  CpuId IdlestCpu(const Task& task, int node) const;
  bool WakeAffine(CpuId here, CpuId prev, std::int64_t weight) const;
  std::optional<CpuId> IdleSibling(const Task& task, CpuId target) const;
  std::optional<CpuId> IdleIn(const Task& task, const CpuBits& within) const;
  std::optional<CpuId> IdleFarAway(const Task& task, CpuId target) const;
  bool WholeCoreIdle(int core) const;

  // cfs_steal.cc: what a CPU that would go idle does.
  bool PullInto(Cpu& cpu);
  SchedEntity* StealFrom(const CpuBits& ring, const Cpu& thief);
  SchedEntity* TryTake(CpuId victim, const Cpu& thief);

  [[nodiscard]] int CoreOf(CpuId cpu) const {
    return topology_.core[static_cast<std::size_t>(cpu.n)];
  }
  [[nodiscard]] int LlcOf(CpuId cpu) const {
    return topology_.llc[static_cast<std::size_t>(cpu.n)];
  }
  [[nodiscard]] int NodeOf(CpuId cpu) const {
    return topology_.node[static_cast<std::size_t>(cpu.n)];
  }
  [[nodiscard]] const CpuBits& LlcMask(CpuId cpu) const {
    return llc_masks_[static_cast<std::size_t>(LlcOf(cpu))];
  }

  const EngineKind kind_;
  SchedPolicy policy_;
  CpuTopology topology_;
  // Built by Attach(), constant afterwards.
  Engine* engine_ = nullptr;
  std::size_t online_ = 0;
  std::size_t words_ = 0;  // of a CPU set that can be non-zero
  std::vector<std::int64_t> power_;
  std::vector<CpuBits> core_masks_;  // service CPUs are in no mask but their core's
  std::vector<CpuBits> llc_masks_;
  std::vector<CpuBits> node_masks_;
  std::vector<std::vector<int>> nodes_by_distance_;  // by node: all nodes, nearest first

  std::vector<std::unique_ptr<RunQueue>> queues_;
  SharedCpuBits idle_;        // nothing runs or waits there
  SharedCpuBits overloaded_;  // something waits behind another runnable task
  EntityPool entities_;
};

}  // namespace pagestorm::sched
