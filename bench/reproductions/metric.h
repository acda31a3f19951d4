// What a reproduced table measures of each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/experiments/record.h"

namespace pagestorm::bench::reproductions {

struct Metric {
  std::string name;  // "time_s": in table files and JSON
  std::string unit;  // "s"; empty: a count
  std::string label;
  double (*of)(const RunRecord& record);
};

// All there are, in a fixed order; a metric is known by its index.
const std::vector<Metric>& Metrics();
std::optional<std::size_t> FindMetric(std::string_view name);
[[nodiscard]] std::string MetricTitle(std::size_t metric);  // "time [s]"

// One run in figures. A run that ended in an OOM kill is censored: it counts in rates, and its
// values take part in nothing else.
struct RunOutcome {
  enum class End : std::uint8_t {
    kNotRun,  // interrupted before it ended
    kFinished,
    kOom,
    kFailed,  // by itself: stalled, an invariant broken, cut by a limit; `trouble` says which
  };
  End end = End::kNotRun;
  std::vector<double> values;  // by metric; empty unless it ran to an end
  std::int64_t oom_kills = 0;
  int isolated_at_oom_permille = 0;  // share of the LRU that was isolated at the first kill
  std::string trouble;
  ExitCode exit_code = kExitDone;
  std::uint64_t trace_hash = 0;
  double host_s = 0;
};

[[nodiscard]] RunOutcome Measure(const RunRecord& record);
[[nodiscard]] const char* EndName(RunOutcome::End end);

}  // namespace pagestorm::bench::reproductions
