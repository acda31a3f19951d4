// How a RunConfig becomes the configuration of each part: CPUs, costs, memory map, disk.
// Plain functions of their arguments; Emulator::Boot() calls them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "bench/config/run_config.h"
#include "core/engine.h"
#include "core/scheduler.h"
#include "mm/memory_manager.h"
#include "numa/topology.h"

namespace pagestorm::bench {

// Service CPUs come after the online ones. Virtual engine: one, for the disk. Threads engine: one a
// node; the disk runs on the first.
EngineConfig EngineConfigOf(const RunConfig& config, const numa::Topology& topology);

// kswapd runs on the node's own CPUs (virtual) or on its service CPU (threads, unless
// machine.kswapd_shares_cpus).
absl::StatusOr<mm::MmConfig> MmConfigOf(const RunConfig& config, const numa::Topology& topology);

std::unique_ptr<Scheduler> SchedulerOf(const RunConfig& config, const numa::Topology& topology);

}  // namespace pagestorm::bench
