// One run of a sweep as a row of figures: what is kept of it, in the journal and in the tables.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

struct RunRow {
  std::size_t run = 0;  // its number in the plan
  int exit_code = 0;
  std::string end{};         // "done", "stalled", ...
  std::string verdict{};     // why the exit code is not 0
  std::string trace_hash{};  // equal hashes are equal runs; of zeros under the threads engine
  Counters numbers{};        // the workload's
  Counters measures{};       // the machine's; the same names for every run
  double host_seconds = 0;

  // Took its whole course: no OOM kill, no failure. Only then its times compare with others'.
  [[nodiscard]] bool survived() const;
  [[nodiscard]] std::int64_t Measure(std::string_view name) const;  // 0 if there is none
};

[[nodiscard]] RunRow RowOf(std::size_t run, const RunRecord& record);

// One line of JSON, without the newline, and back. InvalidArgument: no such line.
[[nodiscard]] std::string RowText(const RunRow& row);
absl::StatusOr<RunRow> ParseRow(const std::string& line);

}  // namespace pagestorm::bench
