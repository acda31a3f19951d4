// The threads engine: one OS thread for each CPU of the emulated machine, in real time.
//
// A CPU thread runs tasks by direct fiber-to-fiber hand-over, and its own stack (the base) when it
// idles. There is no scheduler context: the successor publishes its predecessor once that one's
// registers are saved (asleep, back to the run queue, or dead), so that no other CPU can resume a
// half-saved fiber.
//
// Time: a CPU's clock is the larger of what its tasks were charged and what the host's clock says.
// When it is more than EngineConfig::pay ahead of the host, the CPU pauses until the host has
// caught up; where it is behind, the difference is counted as host-bound time. Results vary from
// run to run.
//
// Shutdown: stopping() is set, then every sleeping task is woken; a task that was about to sleep
// sees the flag when it is published. Each unwinds by Cancelled; the threads leave when the last
// task is reaped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "core/engine.h"
#include "core/futex.h"
#include "core/host_report.h"

namespace pagestorm {

class HostBinding;

class ThreadsEngine final : public Engine {
 public:
  ThreadsEngine(const EngineConfig& config, Scheduler& scheduler);
  ~ThreadsEngine() override;

  RunResult Run() override;
  [[nodiscard]] const HostReport* host_report() const override { return &report_; }

  void SyncClock(Cpu& cpu) override;
  std::int64_t ComputeUser(Cpu& cpu, std::int64_t cost) override;
  void ChargeSlow(Cpu& cpu) override;
  void Reschedule() override;
  void Block(std::int64_t deadline, bool housekeeping) override;
  bool Wake(Task& task) override;
  void WakeAt(TaskId id, Ns time) override;
  [[nodiscard]] Ns EarliestWake() const override { return {EmulatedNow()}; }
  [[noreturn]] void ExitCurrent() override;
  void LockSlow(SpinLock& lock) override;
  void UnlockSlow(SpinLock& lock) override;

 private:
  struct Timer {
    std::int64_t deadline;
    TaskId id;  // not an address: the task may have exited since
    std::int64_t generation;
    // std::priority_queue keeps the largest on top.
    friend bool operator<(const Timer& a, const Timer& b) { return a.deadline > b.deadline; }
  };
  enum class Left : std::uint8_t { kSleeps, kPreempted, kDead };

  // What a CPU thread keeps beside its Cpu. Its own, but for the bell and the atomics.
  struct alignas(128) Lane {
    Cpu* cpu = nullptr;
    FiberContext base;         // the thread's own stack, where it idles
    Task* previous = nullptr;  // whom the next context to run has to publish, and why it left
    Left left = Left::kSleeps;
    std::priority_queue<Timer> timers;
    SlipHistogram slip;
    std::int64_t host_bound = 0;  // emulated ns
    std::int64_t paused = 0;      // emulated ns
    Bell bell;
    // For the stall watch: tasks begun, whether a foreground task runs, when one last did.
    std::atomic<std::uint64_t> begun{0};
    std::atomic<bool> runs_foreground{false};
    std::atomic<std::int64_t> last_foreground{0};
    bool bound = true;
    std::thread thread;
  };

  Lane& LaneOf(const Cpu& cpu) { return *lanes_[static_cast<std::size_t>(cpu.id.n)]; }

  // --- threads_engine.cc: CPUs and tasks ---
  void CpuMain(Lane& lane);
  void Idle(Lane& lane);
  void Publish(FiberContext& predecessor) override;
  void PublishOn(Lane& lane);
  void Activate(Task& task, CpuId hint) override;
  void SignalSent() override { RingAll(); }  // rare; where the task runs is not known for sure
  // Hands this CPU to the next task, or to the base; returns when `self` is resumed, maybe on
  // another CPU.
  void SwitchAway(Lane& lane, Task& self, Left why);
  void SwitchTo(Lane& lane, Task& self, Task* next, Left why);
  void BeginTask(Lane& lane, Task& task);
  void EnqueueWoken(Task& task, Cpu* waker);
  // Wakes a task that may have exited, if it sleeps. Returns whether it did.
  //   generation: of the sleep that is meant; -1: whichever, also one that is only announced.
  bool WakeById(TaskId id, std::int64_t generation);
  void Notify(Cpu& target, bool preempt);

  // --- threads_clock.cc: time ---
  [[nodiscard]] std::int64_t EmulatedNow() const;
  [[nodiscard]] HostNs HostTime(std::int64_t emulated) const;
  // clock = max(clock, host); returns the host's emulated time. `task` is charged what was lost.
  std::int64_t CatchUp(Lane& lane, Task* task);
  void Pay(Lane& lane);
  void SetHorizon(Lane& lane, std::int64_t now);
  void FireTimers(Lane& lane, std::int64_t now);
  [[nodiscard]] static std::int64_t NextTimer(const Lane& lane) {
    return lane.timers.empty() ? kNever : lane.timers.top().deadline;
  }
  // Until the host's clock reaches emulated `time` or somebody wants this CPU.
  void Pause(Lane& lane, std::int64_t time);

  // --- threads_watch.cc: start, stall, stop ---
  void Watch();
  void CheckEnd();
  void BeginStopping(RunEnd why, std::int64_t when);
  [[nodiscard]] bool EverybodySleeps();
  [[nodiscard]] bool ForegroundHangs(std::int64_t now);
  void EndStalled(std::int64_t now);
  void ParkAll();
  void UnparkAll();
  void Park();
  void RingAll();
  void FillReport();

  std::vector<std::unique_ptr<Lane>> lanes_;  // by CpuId
  const std::int64_t pay_;                    // emulated ns of debt that are paid at once
  HostNs start_;
  HostNs steal_period_;  // how often an idle CPU looks for work elsewhere
  bool running_ = false;
  bool crowded_ = false;  // more CPU threads than host cores
  std::unique_ptr<HostBinding> binding_;
  Bell watch_bell_;
  std::atomic<std::size_t> lanes_left_{0};  // CPU threads that have not returned
  std::atomic<std::uint32_t> parking_{0};   // 1: CPU threads stand still for a report
  std::atomic<std::size_t> parked_{0};
  std::atomic<bool> slipped_{false};
  std::atomic<bool> ended_{false};  // whoever sets it decides end_ and end_time_
  RunEnd end_ = RunEnd::kDone;
  std::int64_t end_time_ = 0;
  std::string stall_report_;
  HostReport report_;
};

}  // namespace pagestorm
