// One column of a comparison: the runs of one configuration that differ in their seed alone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/compare/stored_run.h"

namespace pagestorm::bench {

struct Column {
  std::string name;             // as short as it can be while it differs from the others
  std::string directory;        // as given
  std::vector<StoredRun> runs;  // by number of their directory; at least one

  [[nodiscard]] const StoredRun& first() const { return runs.front(); }
  [[nodiscard]] int ooms() const;
  // Ended without an OOM kill and yet not well: their figures count no more than those of an OOM.
  [[nodiscard]] int failures() const;
  [[nodiscard]] int counting() const;
  // Those that count; all, if none does.
  [[nodiscard]] std::vector<const StoredRun*> Shown() const;
};

// Reads a directory: a run's, or one of seed-1, seed-2, ... (`run --repeat`) or iter-0, iter-1, ...
// InvalidArgument with one line if it is neither, or if its runs are not repeats of one another:
// another workload, machine or knob, or one seed twice where that is the same run twice.
[[nodiscard]] absl::StatusOr<Column> ReadColumn(const std::string& directory);

// All of them, the baseline first: the first one, or the one of that name. InvalidArgument if they
// ran different workloads, a directory is given twice, or there is no such baseline.
[[nodiscard]] absl::StatusOr<std::vector<Column>> ReadColumns(
    const std::vector<std::string>& directories, const std::string& baseline);

// A knob whose values are not all the same, one value a column.
struct KnobDifference {
  std::string knob;
  std::vector<std::string> values;  // as JSON; "-": this column's version has no such knob
};
// By name, without the seed.
[[nodiscard]] std::vector<KnobDifference> KnobDifferences(const std::vector<Column>& columns);

}  // namespace pagestorm::bench
