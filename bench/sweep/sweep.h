// Running a sweep: the runs that are still missing, on all cores of the host, into a directory.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/experiments/record.h"
#include "bench/sweep/plan.h"

namespace pagestorm::bench {

struct SweepOptions {
  std::string out{};      // the sweep's directory; empty: nothing is kept
  int workers = 0;        // runs of the virtual engine at a time; 0: one for each host core
  bool progress = false;  // on stderr
  // Set by a signal handler: runs under way are dropped, no other is started.
  const std::atomic<bool>* interrupted = nullptr;
  std::function<void()> started{};  // `out` can be written; the first run is about to begin
};

struct SweepOutcome {
  std::size_t runs = 0;       // finished, now or before
  std::size_t resumed = 0;    // of these, found in the directory
  int workers = 0;            // as many as the host's memory allowed
  int exit_code = kExitDone;  // the largest of its runs; interrupted: kExitInterrupted
  std::string table;          // for stdout; of what there is
};

// Runs what `options.out` lacks and writes its files, also when interrupted. InvalidArgument or
// ResourceExhausted: one line; the directory keeps what was finished.
absl::StatusOr<SweepOutcome> RunSweep(const SweepPlan& plan, const SweepOptions& options);

}  // namespace pagestorm::bench
