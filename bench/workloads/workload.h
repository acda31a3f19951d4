// A workload: what the emulated machine's user does. Written once, runs under both engines.
//
// Life: Make() by name -> Configure() with its parameters (bad values: one line) -> Main() as the
// body of the first process once the machine has booted -> Report() after the run. A workload never
// asks the host for anything; randomness comes from the machine's seed
// (Engine::seeds().Stream(...)).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "bench/config/workload_param.h"
#include "bench/emulator/process.h"
#include "core/units.h"

namespace pagestorm::bench {

// Numbers and lines a workload leaves behind; keys are stable names (result.json, "workload").
struct WorkloadReport {
  bool ok = true;  // false: the run failed (exit code 1), failure says why
  std::string failure;
  std::vector<std::string> out;  // what the program would have printed to stdout
  std::vector<std::pair<std::string, std::int64_t>> numbers;  // in a fixed order
};

// Fails the report if pages came back with another content than was written last.
void FailIfLost(WorkloadReport& report, std::int64_t pages_lost);

class Workload {
 public:
  virtual ~Workload() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Parameters with defaults; the loader overwrites `value` and calls Validate().
  [[nodiscard]] virtual std::vector<WorkloadParam>& params() = 0;
  // Checks the values against each other and the machine; fills in those left at "auto" (0).
  virtual absl::Status Validate(const MachineFacts& machine) = 0;
  // Tasks alive at once, at most; checked against Engine::max_tasks().
  [[nodiscard]] virtual std::int64_t max_tasks() const = 0;
  // Processes that may share one page after fork, at most.
  [[nodiscard]] virtual std::int64_t max_sharers() const { return max_tasks(); }
  // The body of the first process.
  virtual void Main(Process& self) = 0;
  // After the run, at rest. Emulated times only.
  [[nodiscard]] virtual WorkloadReport Report() = 0;
  // The number of Report() that says how well it went: a throughput, or a time. For tables.
  struct Headline {
    std::string_view number;
    bool more_is_better;
  };
  [[nodiscard]] virtual Headline headline() const { return {"elapsed_ns", false}; }
  // 0..1000 of the work done, racy; for the progress line.
  [[nodiscard]] virtual int progress_permille() const = 0;
};

using WorkloadFactory = std::function<std::unique_ptr<Workload>()>;
// nullptr: no workload of that name.
std::unique_ptr<Workload> MakeWorkload(std::string_view name);
std::vector<std::string> KnownWorkloads();  // sorted

}  // namespace pagestorm::bench
