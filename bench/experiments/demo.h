// The first minute of a new user: the false OOM of parallel reclaim, and the throttle that removes
// it, under both engines, with an explanation of what was seen.
#pragma once

#include <atomic>

#include "absl/status/statusor.h"
#include "bench/config/loader.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

struct DemoOptions {
  std::int64_t seed = 1;
  const std::atomic<bool>* interrupted = nullptr;
};

// Runs configs/experiments/demo-{virtual,threads}.toml with and without the throttle and prints
// what happened to stdout, progress to stderr. InvalidArgument, NotFound: bad configuration. The
// exit code says whether the runs could be made, not what came out of them.
absl::StatusOr<ExitCode> RunDemo(const DemoOptions& options, const LoadContext& context);

}  // namespace pagestorm::bench
