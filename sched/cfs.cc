#include "sched/cfs.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "core/engine.h"

namespace pagestorm::sched {

CfsScheduler::CfsScheduler(EngineKind kind, const SchedPolicy& policy, CpuTopology topology)
    : kind_(kind),
      policy_(policy),
      topology_(std::move(topology)),
      idle_(kind),
      overloaded_(kind),
      entities_(kind) {
  const absl::Status valid = policy.Validate();
  PS_CHECK(valid.ok(), std::string(valid.message()));
}

void CfsScheduler::Attach(Engine& engine) {
  PS_CHECK(engine_ == nullptr, "a scheduler serves one engine");
  PS_CHECK(topology_.cpus() == engine.online_cpus(), "topology and engine differ in CPUs");
  engine_ = &engine;
  online_ = engine.online_cpus();
  policy_ = policy_.Scaled(static_cast<int>(online_));
  words_ = (engine.cpu_count() + 63) / 64;
  for (std::size_t i = 0; i < engine.cpu_count(); ++i) {
    const CpuId id{static_cast<std::int32_t>(i)};
    if (i >= online_) topology_.AddServiceCpu(engine.cpu(id).node);
    queues_.push_back(std::make_unique<RunQueue>(kind_, id, policy_));
    idle_.Set(id);
  }
  BuildMasks();
}

void CfsScheduler::BuildMasks() {
  const auto groups = [](const std::vector<int>& of) {
    return static_cast<std::size_t>(*std::max_element(of.begin(), of.end())) + 1;
  };
  core_masks_.resize(groups(topology_.core));
  llc_masks_.resize(groups(topology_.llc));
  node_masks_.resize(topology_.nodes());
  std::vector<std::int64_t> threads(core_masks_.size(), 0);
  for (std::size_t i = 0; i < topology_.cpus(); ++i) {
    const CpuId id{static_cast<std::int32_t>(i)};
    core_masks_[static_cast<std::size_t>(CoreOf(id))].Set(id);
    ++threads[static_cast<std::size_t>(CoreOf(id))];
    if (i >= online_) continue;
    llc_masks_[static_cast<std::size_t>(LlcOf(id))].Set(id);
    node_masks_[static_cast<std::size_t>(NodeOf(id))].Set(id);
  }
  for (std::size_t i = 0; i < topology_.cpus(); ++i) {
    const std::int64_t siblings = threads[static_cast<std::size_t>(topology_.core[i])];
    constexpr std::int64_t kSmtGain = 1178;  // a core's power with SMT; spec 1.5
    power_.push_back(siblings == 1 ? kNice0Weight : kSmtGain / siblings);
  }
  for (int from = 0; from < static_cast<int>(topology_.nodes()); ++from) {
    std::vector<std::pair<int, int>> order;
    for (int to = 0; to < static_cast<int>(topology_.nodes()); ++to) {
      order.emplace_back(topology_.Distance(from, to), to);
    }
    std::sort(order.begin(), order.end());
    auto& nearest = nodes_by_distance_.emplace_back();
    for (const auto& entry : order) nearest.push_back(entry.second);
  }
}

void CfsScheduler::TaskCreated(Task& task, const Task* parent) {
  SchedEntity& entity = entities_.Take(task);
  if (parent == nullptr) return;
  const SchedEntity& model = EntityOf(*parent);
  // The parent runs, but others may charge it while they wake tasks on its CPU.
  std::lock_guard guard(QueueOf(model.cpu).mu());
  entity.vruntime = model.vruntime;
  entity.cpu = model.cpu;
}

void CfsScheduler::TaskExited(Task& task) { entities_.Return(EntityOf(task)); }

// How far the task that runs on `cpu` has come. The virtual engine can tell exactly; under the
// threads engine the clock of another CPU is not ours to read, but the waker's own shows the same
// time.
std::int64_t CfsScheduler::TimeAt(const Cpu& cpu, const RunQueue& rq, const SchedEntity& e) const {
  if (kind_ == EngineKind::kVirtual) return std::max(cpu.clock, rq.latest());
  return std::max(rq.latest(), e.wake_clock);
}

bool CfsScheduler::Enqueue(Cpu& cpu, Task& task, EnqueueReason reason) {
  PS_CHECK(task.allowed.test(static_cast<std::size_t>(cpu.id.n)), "queued on a forbidden CPU");
  SchedEntity& entity = EntityOf(task);
  RunQueue& rq = QueueOf(cpu.id);
  const std::int64_t old_min =
      entity.cpu == kNoCpu || entity.cpu == cpu.id ? 0 : QueueOf(entity.cpu).MinVruntimeRacy();
  std::lock_guard guard(rq.mu());
  rq.UpdateCurr(TimeAt(cpu, rq, entity));
  rq.Admit(entity, reason == EnqueueReason::kFork ? Arrival::kFork : Arrival::kWake, old_min);
  idle_.Clear(cpu.id);
  NoteOverload(cpu.id, rq);
  return rq.ShouldPreempt(entity);
}

Task* CfsScheduler::PickNext(Cpu& cpu, Task* prev) {
  RunQueue& rq = QueueOf(cpu.id);
  if (prev == nullptr && rq.WaitingRacy() == 0 && policy_.idle_stealing) PullInto(cpu);
  std::lock_guard guard(rq.mu());
  PS_CHECK((prev != nullptr) == (rq.curr() != nullptr), "the engine lost track of who runs");
  rq.UpdateCurr(cpu.clock);
  SchedEntity* next = rq.Pick(cpu.clock);
  NoteOverload(cpu.id, rq);
  if (next != nullptr) return next->task;
  idle_.Set(cpu.id);
  return nullptr;
}

void CfsScheduler::PutPrev(Cpu& cpu, Task& prev) {
  RunQueue& rq = QueueOf(cpu.id);
  std::lock_guard guard(rq.mu());
  rq.PutBack(EntityOf(prev));
  NoteOverload(cpu.id, rq);
}

void CfsScheduler::Stopped(Cpu& cpu, Task& prev) {
  RunQueue& rq = QueueOf(cpu.id);
  std::lock_guard guard(rq.mu());
  PS_CHECK(rq.curr() == &EntityOf(prev), "a task stops that does not run here");
  rq.UpdateCurr(cpu.clock);
  rq.Leave();
  NoteOverload(cpu.id, rq);
}

std::int64_t CfsScheduler::SliceEnd(Cpu& cpu, Task& task) {
  RunQueue& rq = QueueOf(cpu.id);
  std::lock_guard guard(rq.mu());
  PS_CHECK(rq.curr() == &EntityOf(task), "a task starts that was not picked");
  rq.Begin(cpu.clock);
  rq.UpdateCurr(cpu.clock);
  return rq.NextLook(cpu.clock);
}

bool CfsScheduler::Tick(Cpu& cpu, Task& task) {
  RunQueue& rq = QueueOf(cpu.id);
  std::lock_guard guard(rq.mu());
  PS_CHECK(rq.curr() == &EntityOf(task));
  rq.UpdateCurr(cpu.clock);
  rq.AccountTicks(cpu.clock);
  return rq.TickPreempts();
}

RunQueueStats CfsScheduler::Stats() const {
  RunQueueStats sum;
  for (const auto& rq : queues_) {
    const RunQueueStats& stats = rq->stats();
    sum.wakeups += stats.wakeups;
    sum.forks += stats.forks;
    sum.wakeup_preemptions += stats.wakeup_preemptions;
    sum.tick_preemptions += stats.tick_preemptions;
    sum.yields += stats.yields;
    sum.pulled += stats.pulled;
    sum.pulled_away += stats.pulled_away;
  }
  return sum;
}

void CfsScheduler::CheckInvariants() const {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const CpuId id{static_cast<std::int32_t>(i)};
    const RunQueue& rq = *queues_[i];
    std::lock_guard guard(rq.mu());
    rq.CheckInvariants();
    if (idle_.Test(id)) PS_CHECK(rq.nr_running() == 0);
    PS_CHECK(overloaded_.Test(id) == (rq.nr_running() >= 2 && rq.has_waiting()));
  }
}

}  // namespace pagestorm::sched
