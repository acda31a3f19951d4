// The engine: what the emulated machine's code asks for instead of the host.
//
// Code in mm/, sched/ and the workloads runs inside tasks and uses the free functions below: the
// current task and CPU, Now(), Charge(), CondResched(). It is written once; an engine chosen at run
// time executes it:
//   - the virtual engine (core/virtual_engine.h): deterministic, one host thread, the CPU with the
//     smallest clock runs until its next charge passes the runner-up;
//   - the threads engine (core/threads_engine.h): one OS thread per CPU, the host's clock.
//
// Rules (each one cost a hang before it was a rule):
//   - never switch fibers while a spin lock is held or preemption is off;
//   - never keep a Cpu& or the address of a thread-local across a call that may switch;
//   - wait predicates neither charge nor take locks, and are evaluated until they first succeed;
//   - nothing blocks in a destructor or catch block.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu.h"
#include "core/raw_lock.h"
#include "core/rng.h"
#include "core/scheduler.h"
#include "core/task.h"
#include "core/units.h"

namespace pagestorm {

class SpinLock;
struct HostReport;

inline constexpr std::int64_t kNever = INT64_MAX;

// Modelled costs of the machine's own operations, ns of emulated time. docs/model.md has the
// sources.
struct EngineCosts {
  std::int64_t lock_ns = 20;              // an uncontended spin lock pair in this CPU's cache
  std::int64_t rmw_ns = 6;                // an atomic read-modify-write in this CPU's cache
  std::int64_t context_switch_ns = 1500;  // one task to another on a CPU
  std::int64_t wake_ns = 700;             // try_to_wake_up, paid by the waker
  std::int64_t wake_latency_ns = 1000;    // from a wake to an idle CPU's first instruction
  std::int64_t fork_ns = 0;  // paid by the caller of Spawn; workloads model fork themselves
};

struct CpuSpec {
  NodeId node;
  CpuKind kind = CpuKind::kOnline;
  int host_cpu = -1;  // threads engine: host PU to bind to; -1: not bound
};

struct EngineConfig {
  std::vector<CpuSpec> cpus;  // CpuId = position; online CPUs first, then service CPUs
  std::uint64_t seed = 1;
  EngineCosts costs;
  // What it costs to fetch a cache line last written by CPU a, in ns: entry a * cpus.size() + b.
  // Empty: no cost. Paid by a lock whose last holder was another CPU.
  std::vector<std::int32_t> transfer_ns;
  bool sync_in_cs = false;  // virtual engine, a test mode: charges under a spin lock let others run
  Ns slack;  // virtual engine: how far a CPU may run ahead of the runner-up; 10 us distorts
  // Threads engine: host ns per emulated ns. > 1 gives a slow host more time for the same work.
  double scale = 1.0;
  HostNs pay{20'000};  // threads engine: debt (charged but not yet lived through) paid by sleeping
  // Threads engine: a timer that fires later than slip_limit ends the run with RunEnd::kSlip.
  bool strict = false;
  HostNs slip_limit{20'000'000};
  bool bind = true;  // threads engine: bind to CpuSpec::host_cpu where given
  // A run in which no foreground task got a CPU for this long is stalled (the kernel's hung-task
  // time).
  Ns stall_after = 120 * kSecond;
  Ns time_limit{kNever};  // emulated time at which the run is stopped
};

struct SpawnOptions {
  std::string name;
  CpuMask allowed{};        // empty: every online CPU
  CpuId cpu_hint = kNoCpu;  // where it should start; kNoCpu: the scheduler places it
  bool daemon = false;      // a run ends when the last task that is no daemon has exited
  int nice = 0;
  void* mm = nullptr;
  std::uint32_t flags = 0;
};

enum class RunEnd : std::uint8_t {
  kDone,       // every foreground task has exited
  kStopped,    // RequestStop(), e.g. Ctrl-C
  kTimeLimit,  // EngineConfig::time_limit reached
  kSlip,       // EngineConfig::strict, and the host could not keep up
  kStalled,    // every foreground task waits and nothing will wake one; see stall_report
};

struct RunResult {
  RunEnd end = RunEnd::kDone;
  Ns emulated;               // when the last foreground task exited (or the run was cut)
  std::string stall_report;  // who waits for what, if stalled
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;  // engine decisions (virtual) or fiber switches (threads)
};

class Engine {
 public:
  Engine(EngineKind kind, const EngineConfig& config, Scheduler& scheduler);
  virtual ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] EngineKind kind() const { return kind_; }
  [[nodiscard]] const Seeds& seeds() const { return seeds_; }
  [[nodiscard]] const EngineConfig& config() const { return config_; }
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] std::size_t cpu_count() const { return cpus_.size(); }
  [[nodiscard]] std::size_t online_cpus() const { return online_cpus_; }
  [[nodiscard]] Cpu& cpu(CpuId id) { return *cpus_[static_cast<std::size_t>(id.n)]; }
  [[nodiscard]] const Cpu& cpu(CpuId id) const { return *cpus_[static_cast<std::size_t>(id.n)]; }

  // Creates a task that will run `body`. Before Run() or from a task. PS_CHECKs that the host gives
  // it a stack; workloads validate their task count first (max_tasks()).
  Task& Spawn(SpawnOptions options, std::function<void()> body);
  // Tasks the host's mapping limit allows to live at once.
  [[nodiscard]] static std::size_t max_tasks();

  // Runs until one of RunEnd. On return every task has been unwound (Cancelled) and freed.
  virtual RunResult Run() = 0;
  // Ends the run from anywhere, also from a signal handler.
  void RequestStop() { stop_requested_.store(true, std::memory_order_relaxed); }
  // True once the machine shuts down; every sleep then throws Cancelled.
  [[nodiscard]] bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  // Makes `task` die at its next return to user mode, CondResched or interruptible sleep.
  //   memdie: the OOM killer chose it (TIF_MEMDIE).
  void Kill(Task& task, bool memdie);

  // Wakes a task, if it sleeps, at emulated `time`, as no task of the machine does it: from
  // outside, before Run() or from the poll. Under the virtual engine nothing before `time` depends
  // on it, so a run that is told from the poll is the same as one that was told before it began;
  // `time` must not be before EarliestWake() then. The threads engine does it at once when told
  // from the poll.
  virtual void WakeAt(TaskId id, Ns time) = 0;
  // From the poll: the earliest time that no CPU has reached.
  [[nodiscard]] virtual Ns EarliestWake() const = 0;

  // Called about every few thousand events (virtual) or 100 ms (threads) with no emulated effect: a
  // progress display. Set before Run().
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  // Adds lines to a stall report (throttle tickets, disk queue). Set before Run().
  void AddStallReporter(std::function<std::string()> reporter) {
    stall_reporters_.push_back(std::move(reporter));
  }
  // The live tasks in order of creation. Virtual engine, or while the threads engine is stopped or
  // `task_list_lock` is held.
  template <class F>
  void ForEachTask(F f) {
    for (auto& task : tasks_) {
      if (task) f(*task);
    }
  }
  [[nodiscard]] RawLock& task_list_lock() { return tasks_lock_; }
  // How well the host kept up; nullptr under the virtual engine. Complete after Run().
  [[nodiscard]] virtual const HostReport* host_report() const { return nullptr; }
  [[nodiscard]] std::size_t live_tasks() const { return live_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t foreground_tasks() const {
    return foreground_.load(std::memory_order_relaxed);
  }
  // Sum of utime and stime of all tasks so far, and idle time of online CPUs.
  struct CpuTimes {
    Ns user, system, idle;
    Ns daemon_system;  // of `system`: what daemons took (kernel threads and devices among them)
    // As time(1) counts a load: its own tasks, not the kernel threads that work for it.
    [[nodiscard]] Ns load_system() const { return system - daemon_system; }
  };
  [[nodiscard]] CpuTimes Times() const;
  [[nodiscard]] std::int32_t TransferNs(CpuId from, CpuId to) const {
    return config_.transfer_ns.empty()
               ? 0
               : config_.transfer_ns[static_cast<std::size_t>(from.n) * cpus_.size() +
                                     static_cast<std::size_t>(to.n)];
  }

  // --- for the primitives of core/ only ---

  // Brings the CPU's clock up to date: in the threads engine it falls behind the host's between
  // charges.
  virtual void SyncClock(Cpu&) {}
  // Threads engine: `cost` ns of user-mode work, cut short when the CPU is wanted. Returns the part
  // done.
  virtual std::int64_t ComputeUser(Cpu& cpu, std::int64_t cost) {
    cpu.clock += cost;
    return cost;
  }
  // A charge reached the CPU's horizon. May run other CPUs; never preempts the task.
  virtual void ChargeSlow(Cpu& cpu) = 0;
  // Gives the CPU to whoever the scheduler prefers; the current task stays runnable.
  virtual void Reschedule() = 0;
  // Sleeps until Wake() or `deadline` (absolute emulated ns, or kNever). The caller has announced
  // it with SetState(kSleeping); if a wake came in between it returns at once. May return
  // spuriously.
  //   housekeeping: a timer that keeps a stalled machine busy without meaning progress.
  virtual void Block(std::int64_t deadline, bool housekeeping) = 0;
  // Ends the sleep of `task` if it sleeps. Returns whether it did. Any CPU, or a timer.
  virtual bool Wake(Task& task) = 0;
  // The body of the current task has returned. Never returns.
  [[noreturn]] virtual void ExitCurrent() = 0;
  // Contended halves of SpinLock; lock() has found the lock taken. See core/spin_lock.h.
  virtual void LockSlow(SpinLock& lock) = 0;
  virtual void UnlockSlow(SpinLock& lock) = 0;

  // "task 12 (hackbench) sleeps on N0 reclaim throttle ..." for all tasks, aggregated per queue.
  [[nodiscard]] std::string DescribeWaits();

 protected:
  // Where every fiber starts: publishes its predecessor, runs the body, exits.
  static void TaskMain(FiberContext& predecessor);
  // Called on the successor's side of every switch, with what was suspended.
  virtual void Publish(FiberContext& predecessor) = 0;
  // A fatal signal is pending somewhere: a CPU that pauses in user mode must look.
  virtual void SignalSent() {}
  // Puts a new task onto a run queue.
  virtual void Activate(Task& task, CpuId hint) = 0;
  // The current task is about to exit: counts it out. Returns true if it was the last foreground
  // task.
  bool NoteExit(Task& task);
  // Removes a dead task; its stack returns to the pool. Not on that stack.
  void Reap(Task& task);
  void CheckCancelled(Task& task);
  [[noreturn]] static void ThrowCancelled(Task& task);

  const EngineKind kind_;
  const EngineConfig config_;
  const Seeds seeds_;
  Scheduler& scheduler_;
  std::vector<std::unique_ptr<Cpu>> cpus_;
  std::size_t online_cpus_ = 0;
  CpuMask online_mask_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> stopping_{false};
  std::function<void()> poll_;
  std::vector<std::function<std::string()>> stall_reporters_;

  mutable RawLock tasks_lock_;                // the three below
  std::vector<std::unique_ptr<Task>> tasks_;  // by id - 1; empty once reaped
  StackPool stacks_;
  CpuTimes exited_times_{};

  std::atomic<std::size_t> live_{0};
  std::atomic<std::size_t> foreground_{0};

  friend void CondReschedSlow();
  friend void ReturnToUser();
};

// --- what tasks call ---

// The running task; its CPU (reload after anything that may switch); its engine.
inline Task& Current() { return *static_cast<Task*>(StackOwner()); }
inline Cpu& CurrentCpu() { return *Current().cpu; }
inline Engine& CurrentEngine() { return *CurrentCpu().engine; }
// Emulated time on this CPU.
inline Ns Now() { return {CurrentCpu().clock}; }
// The same, but under the threads engine first brought up to the host's clock: what a deadline is
// counted from.
inline Ns FreshNow() {
  Cpu& cpu = CurrentCpu();
  if (cpu.engine->kind() == EngineKind::kThreads) cpu.engine->SyncClock(cpu);
  return {cpu.clock};
}

// Time that the modelled hardware would take here, in kernel mode. Never preempts; other CPUs may
// run. Under a spin lock it only advances this CPU's clock.
inline void Charge(Ns cost) {
  Task& task = Current();
  task.stime += cost.n;
  Cpu& cpu = *task.cpu;
  cpu.clock += cost.n;
  if (cpu.clock >= cpu.horizon.load(std::memory_order_relaxed)) [[unlikely]] {
    cpu.engine->ChargeSlow(cpu);
  }
}
// The same in user mode, where the task can be preempted at any moment and dies of a pending
// signal.
void ChargeUser(Ns cost);

void CondReschedSlow();
// A voluntary preemption point of the kernel (cond_resched). Throws Cancelled at shutdown.
inline void CondResched() {
  Cpu& cpu = CurrentCpu();
  if (cpu.need_resched.load(std::memory_order_relaxed) || cpu.engine->stopping()) [[unlikely]] {
    CondReschedSlow();
  }
}
// The end of a system call or fault: preemption point; throws Cancelled if a fatal signal is
// pending.
void ReturnToUser();
// Gives up the CPU once if someone else can run.
void Yield();
// Uninterruptible sleep of (at least) that long.
void SleepFor(Ns duration);
// The same for a periodic timer (counter folding, say) that must not hide a stall.
void SleepForHousekeeping(Ns duration);

void PreemptEnableSlow(Cpu& cpu);
// Preemption off: per-CPU data without a lock. Nothing inside may block; charges do not switch.
class PreemptGuard {
 public:
  PreemptGuard() {
    Cpu& cpu = CurrentCpu();
    if (cpu.preempt++ == 0 && cpu.engine->kind() == EngineKind::kVirtual) {
      cpu.horizon.store(kNever, std::memory_order_relaxed);
    }
  }
  ~PreemptGuard() {
    Cpu& cpu = CurrentCpu();
    if (--cpu.preempt == 0) PreemptEnableSlow(cpu);
  }
  PreemptGuard(const PreemptGuard&) = delete;
  PreemptGuard& operator=(const PreemptGuard&) = delete;
};

}  // namespace pagestorm
