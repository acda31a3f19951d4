// Running one configuration: boot, storm, gather what is left.
#pragma once

#include <atomic>

#include "absl/status/statusor.h"
#include "bench/config/loader.h"
#include "bench/config/run_config.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

struct RunOptions {
  bool progress = false;  // on stderr
  // Set by a signal handler; the run then stops with what it has. nullptr: cannot be interrupted.
  const std::atomic<bool>* interrupted = nullptr;
};

// Runs the machine once, to its end. InvalidArgument: bad input, found before anything ran;
// ResourceExhausted: the host cannot hold the machine. How the run itself went is in the record.
absl::StatusOr<RunRecord> ExecuteRun(const RunConfig& config, const RunOptions& options);

// Everything ExecuteRun() checks before it runs; fills in the workload's "auto" parameters.
absl::Status PrepareRun(RunConfig& config);

// The workloads of this program, for the loader.
LoadContext MakeLoadContext(ConfigRoots roots);

}  // namespace pagestorm::bench
