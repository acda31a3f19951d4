// A machine that boots: wires an engine, a scheduler, the memory manager and the processes together
// as a RunConfig says, runs a program on it once, and checks that nothing was lost.
//
// Life: Boot() -> Run() once -> look at memory(), engine(), outcome. Several emulators may live
// side by side in one process; none shares anything with another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/config/run_config.h"
#include "bench/emulator/process.h"
#include "bench/emulator/process_table.h"
#include "core/engine.h"
#include "core/wait_queue.h"
#include "mm/memory_manager.h"
#include "numa/topology.h"

namespace pagestorm::bench {

// One point of a run's time series, by emulated time.
struct Sample {
  Ns time;
  std::int64_t free = 0, inactive = 0, active = 0, writeback = 0;  // pages of the machine
  std::int64_t reclaimers = 0, isolated = 0;
  std::int64_t pswpout = 0, pswpin = 0, pgmajfault = 0, allocstall = 0, oom_kills = 0;  // so far
  std::int64_t free_swap = 0;
};

struct MachineOutcome {
  RunResult run;
  ProcessTable::MainEnd main = ProcessTable::MainEnd::kNotStarted;
  Ns main_end;  // when the first process had ended and was reaped; 0: it has not
  Engine::CpuTimes times;
  bool panicked = false;  // out of memory: nothing left to kill, or oom.panic_on_oom
  // What does not hold any more (frames, counters, lists, sleepers); empty: all is well.
  std::string broken;
};

class Emulator {
 public:
  // Boots the machine. InvalidArgument: one line, bad input; ResourceExhausted: the host cannot
  // hold it, with the scale that would fit.
  static absl::StatusOr<std::unique_ptr<Emulator>> Boot(const RunConfig& config);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // Runs `main` as the first process below init, to the end of the machine. Once.
  MachineOutcome Run(const std::string& comm, std::function<void(Process&)> main);
  // On a task, when no process is left: waits for what devices still do and empties the CPUs'
  // pagevecs, so that a machine that has ended by itself is at rest.
  void Settle();
  // Ends the run early; from anywhere, also a signal handler.
  void RequestStop() { engine_->RequestStop(); }
  // Called now and then while the machine runs, without effect on it.
  void set_poll(std::function<void()> poll) { engine_->set_poll(std::move(poll)); }

  // From the poll, with RunConfig::control: writes a kernel parameter as soon as the machine's time
  // allows. Returns the write with that time: as one of RunConfig::sysctls it repeats this run.
  // InvalidArgument: as CheckSysctl(), and nothing is written.
  absl::StatusOr<SysctlWrite> WriteSysctl(const std::string& name, std::int64_t value);
  // Those of the configuration and those of WriteSysctl(), ascending in time.
  [[nodiscard]] std::vector<SysctlWrite> sysctls() const;

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] mm::MemoryManager& memory() { return *memory_; }
  [[nodiscard]] ProcessTable& processes() { return *processes_; }
  [[nodiscard]] const RunConfig& config() const { return config_; }
  [[nodiscard]] const numa::Topology& topology() const { return topology_; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }

 private:
  explicit Emulator(const RunConfig& config);
  absl::Status BootMachine();
  void SpawnHelpers();
  void SpawnNuisance();
  void SpawnSampler();
  void SpawnSysctlWriter();
  std::optional<SysctlWrite> TakeDueSysctl();
  void ApplySysctl(const SysctlWrite& write);
  Sample TakeSample();
  [[nodiscard]] std::string CheckAtRest(const MachineOutcome& outcome);

  const RunConfig config_;
  const numa::Topology topology_;  // as emulated: memory, distances and scale applied
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<mm::MemoryManager> memory_;
  std::unique_ptr<ProcessTable> processes_;
  std::vector<Sample> samples_;

  TaskId sysctl_writer_;
  std::unique_ptr<WaitQueue> sysctl_queue_;  // the writer sleeps here; Engine::WakeAt() wakes it
  mutable std::mutex sysctls_mu_;            // the two below: the writer's and the poll's thread
  std::vector<SysctlWrite> sysctls_;
  std::size_t sysctls_written_ = 0;
};

// What a workload may know before the machine boots. The configuration must be valid.
[[nodiscard]] MachineFacts FactsOf(const RunConfig& config);

// Bytes of this host's memory that the machine's frames take. The configuration must be valid.
[[nodiscard]] std::int64_t HostBytesOf(const RunConfig& config);

// A kernel parameter that can be written while a machine runs. InvalidArgument names those that
// can.
absl::Status CheckSysctl(const RunConfig& config, const SysctlWrite& write);

}  // namespace pagestorm::bench
