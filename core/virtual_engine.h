// The virtual engine: deterministic emulated time on one host thread.
//
// Every CPU has a clock. The CPU with the smallest clock runs, until a charge takes its clock past
// the runner-up's; then its fiber hands over directly to the runner-up's fiber. Ties are broken by
// seeded random bits. Same binary, configuration and seed give the same run, event by event, which
// trace_hash() proves. Independent engines may run on different host threads at once.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "core/engine.h"
#include "core/rng.h"
#include "core/trace_hash.h"
#include "core/winner_tree.h"

namespace pagestorm {

class VirtualEngine final : public Engine {
 public:
  VirtualEngine(const EngineConfig& config, Scheduler& scheduler);
  ~VirtualEngine() override;

  RunResult Run() override;

  void ChargeSlow(Cpu& cpu) override;
  void Reschedule() override;
  void Block(std::int64_t deadline, bool housekeeping) override;
  bool Wake(Task& task) override;
  void WakeAt(TaskId id, Ns time) override;
  [[nodiscard]] Ns EarliestWake() const override;
  [[noreturn]] void ExitCurrent() override;
  void LockSlow(SpinLock& lock) override;
  void UnlockSlow(SpinLock& lock) override;

 private:
  struct Timer {
    std::int64_t deadline;
    std::uint64_t sequence;   // equal deadlines fire in the order they were set; WakeAt()'s have 0
    TaskId id;                // not an address: the task may have exited since
    std::int64_t generation;  // of the sleep that is meant; kAnySleep: WakeAt()'s
    bool housekeeping;
    // std::priority_queue keeps the largest on top.
    friend bool operator<(const Timer& a, const Timer& b) {
      return a.deadline != b.deadline ? a.deadline > b.deadline : a.sequence > b.sequence;
    }
  };

  static constexpr std::int64_t kAnySleep = -1;

  void Publish(FiberContext& predecessor) override;
  void Activate(Task& task, CpuId hint) override;

  // Lets CPUs whose clocks are behind run, then returns on the same task.
  void Sync(Cpu& cpu);
  // Hands over to the context with the smallest key; `self` is resumed when its turn comes.
  void Dispatch(FiberContext& self, bool finished = false);
  // The context to run: the task of the CPU with the smallest clock, or the host stack when the run
  // is over.
  FiberContext& NextContext();
  void Resume(Cpu& cpu, const Task& task);
  void ReapDead();
  // Starts a task on an idle CPU at its key's time. False: nothing to run there.
  bool StartCpu(Cpu& cpu);
  void BeginTask(Cpu& cpu, Task& task);
  void FireTimer();
  void ArmTimer(Task& task, std::int64_t deadline, bool housekeeping);
  void DisarmTimer(Task& task);
  void ArmTimerLeaf();
  void LeaveCpu(Cpu& cpu);
  void PutInTree(Cpu& cpu);
  void WakeIdle(Cpu& cpu);
  void SetHorizon(Cpu& cpu);
  void LowerRunningHorizon(std::int64_t time);
  void Tick(Cpu& cpu);
  void BeginStopping(RunEnd why);
  bool Stalled() const;
  void NoteIdleUntil(Cpu& cpu, std::int64_t time);
  // The time at which something now happens: of the running CPU, or of the firing timer.
  std::int64_t EventTime() const;
  void PollHost();

  WinnerTree tree_;
  const std::size_t timer_leaf_;
  const std::int64_t time_limit_;  // the configured one, or the end of what the tree can order
  Rng ties_;
  std::priority_queue<Timer> timers_;
  std::uint64_t timer_sequence_ = 0;
  std::size_t armed_ = 0;             // timers that mean progress: not housekeeping
  std::size_t armed_foreground_ = 0;  // of these, of foreground tasks
  std::int64_t timer_now_ = 0;
  Cpu* running_ = nullptr;  // whose task executes; nullptr between contexts
  Task* dead_ = nullptr;    // exited, its stack still in use until the next switch is over
  FiberContext host_;
  EhGlobals* eh_ = nullptr;
  RunEnd end_ = RunEnd::kDone;
  std::string stall_report_;
  std::int64_t last_foreground_ = 0;  // emulated time a foreground task last got a CPU
  std::int64_t end_time_ = 0;
  std::uint64_t events_ = 0;
  TraceHash hash_;
  std::vector<Task*> lock_waiter_next_;  // by CPU: FIFO links of waiters seen by sync_in_cs
};

}  // namespace pagestorm
