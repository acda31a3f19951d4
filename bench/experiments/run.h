// Running one configuration: boot, storm, gather what is left.
#pragma once

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "bench/config/loader.h"
#include "bench/config/run_config.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

class ControlPipe;

struct RunOptions {
  bool progress = false;  // on stderr
  // Set by a signal handler; the run then stops with what it has. nullptr: cannot be interrupted.
  const std::atomic<bool>* interrupted = nullptr;
  // Called now and then while the machine runs, with the share of the work that is done.
  std::function<void(int permille)> on_permille = {};
  // Kernel parameters written while the machine runs; needs RunConfig::control. Looked at now and
  // then; what came of each line is said on stderr. nullptr: none come.
  ControlPipe* control = nullptr;
};

// Runs the machine once, to its end. InvalidArgument: bad input, found before anything ran;
// ResourceExhausted: the host cannot hold the machine. How the run itself went is in the record.
absl::StatusOr<RunRecord> ExecuteRun(const RunConfig& config, const RunOptions& options);

// The workload's part of what ExecuteRun() checks before it runs; fills in its "auto" parameters.
absl::Status PrepareRun(RunConfig& config);
// Everything ExecuteRun() checks before it runs: boots the machine and lets it go.
absl::Status CheckRun(RunConfig config);

// The workloads of this program, for the loader.
LoadContext MakeLoadContext(ConfigRoots roots);

}  // namespace pagestorm::bench
