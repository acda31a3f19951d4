// Many runs of one program, spread over the host's cores: what sweeps and reproductions are made
// of.
//
// Runs of the virtual engine go side by side, one a worker; their results do not depend on how
// many. Runs of the threads engine follow them, each alone on the host.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/config/run_config.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

struct BatchOptions {
  int workers = 0;  // 0: one for each host core
  // Set by a signal handler: runs under way stop with what they have, no other is started.
  const std::atomic<bool>* interrupted = nullptr;
  // Set by `done`, say: runs under way go on to their ends, no other is started.
  const std::atomic<bool>* abandoned = nullptr;
  // Called now and then while run `index` is under way, from its worker, several at a time.
  std::function<void(std::size_t index, int permille)> progress = {};
};

// What came of one run: ExecuteRun()'s answer.
using BatchDone = std::function<void(std::size_t index, absl::StatusOr<RunRecord> record)>;

// Executes `count` runs, started in order of index: configure(i) makes the configuration of one,
// on the worker's thread, several at a time. Calls `done` once for each run that was started, from
// any worker, one call at a time, in the order in which they end. An interrupted run's record is
// partial.
void RunBatch(std::size_t count, const std::function<RunConfig(std::size_t)>& configure,
              const BatchOptions& options, const BatchDone& done);

}  // namespace pagestorm::bench
