// One run of one machine, completely described: workload, kernel, machine, engine, seed.
//
// Plain data, filled by ConfigLoader (bench/config/loader.h) from files and the command line, and
// written back by EffectiveToml(). Every member has a knob (bench/config/knobs.h); nothing else
// steers a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/config/cgroups.h"
#include "bench/config/workload_param.h"
#include "core/engine.h"
#include "mm/mm_policy.h"
#include "numa/machine_spec.h"
#include "sched/sched_policy.h"

namespace pagestorm::bench {

enum class SchedulerKind : std::uint8_t {
  kCfs,   // sched::CfsScheduler
  kFifo,  // core's FifoScheduler: one queue a CPU, a fixed slice
};

// How the engine executes the machine. Times in ns of emulated time unless said.
struct EngineSettings {
  EngineKind kind = EngineKind::kVirtual;
  std::int64_t slack_ns = 0;
  bool sync_in_cs = false;
  double time_scale = 1.0;  // threads: host ns per emulated ns
  bool strict = false;      // threads: a host that cannot keep up is a failure
  bool bind = true;         // threads: bind emulated CPUs to host CPUs
  std::int64_t stall_after_s = 120;
  std::int64_t time_limit_s = 0;  // 0: none
};

// A kernel parameter written while the machine runs.
struct SysctlWrite {
  std::int64_t at_ns = 0;
  std::string name;  // "vm.max_nr_task_per_zone"
  std::int64_t value = 0;

  friend bool operator==(const SysctlWrite&, const SysctlWrite&) = default;
};

struct RunConfig {
  std::string workload = "press";
  std::vector<WorkloadParam> params;  // of that workload, with the values in force
  std::uint64_t seed = 1;
  EngineSettings engine;
  std::int64_t sample_ms = 0;  // period of the time series, emulated; 0: none
  bool stamps = true;          // content stamps: 8 bytes more a frame

  CgroupSettings cgroup;  // memory cgroups; none unless set

  mm::MmPolicy policy;  // policy.name is the kernel's name
  sched::SchedPolicy sched = sched::SchedPolicy::Linux2626();
  SchedulerKind scheduler = SchedulerKind::kCfs;
  std::int64_t fifo_slice_ns = 6'000'000;

  numa::MachineSpec machine;
  // What operations cost on that machine. page_zero_ns and page_copy_ns = 0: from the machine's
  // latency and bandwidth.
  mm::MmCosts costs;
  EngineCosts engine_costs;

  std::vector<SysctlWrite> sysctls;  // ascending in time
  // The task that writes them is there even without any, for those that come while the machine runs
  // (Emulator::WriteSysctl()). So a run of which some came is repeated by one that has them here.
  bool control = false;

  RunConfig() { costs.page_zero_ns = costs.page_copy_ns = 0; }
};

[[nodiscard]] std::string_view EngineName(EngineKind kind);  // "virtual", "threads"

}  // namespace pagestorm::bench
