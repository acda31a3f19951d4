// A run directory read back: what comparisons need of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/compare/layout.h"
#include "bench/compare/vmstat_rows.h"

namespace pagestorm::bench {

struct StoredRun {
  std::string path;
  std::string version, kernel, engine, workload, machine;
  std::int64_t seed = 0;
  int exit_code = 0;
  std::string verdict;  // why the exit code is not 0
  bool partial = false;
  std::int64_t oom_kills = 0;
  std::map<std::string, std::int64_t, std::less<>> numbers;  // the workload's
  Duration duration;  // elapsed: until the workload's first process ended, else the whole run
  VmGrowth vmstat;
  std::map<std::string, std::string> knobs;  // by name, values as JSON

  // The task that ran out of memory may have been the workload's own: its times say nothing.
  [[nodiscard]] bool oom() const { return oom_kills > 0; }
  // Whether its figures count: it came to its end, and nobody was killed.
  [[nodiscard]] bool counts() const { return exit_code == 0 && !partial && !oom(); }
};

// Reads DIR/result.json, DIR/before/proc/vmstat and DIR/proc/vmstat. InvalidArgument with one line
// that names the file and what is wrong with it.
[[nodiscard]] absl::StatusOr<StoredRun> ReadStoredRun(const std::string& directory);

}  // namespace pagestorm::bench
