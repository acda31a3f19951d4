// A sweep's results as files and as a table. docs/sweep.md describes columns and schema; a change
// that breaks readers raises kSweepSchema.
//
// Everything but HostCsv() is a function of the plan and the rows, so under the virtual engine of
// the plan alone.
#pragma once

#include <string>
#include <vector>

#include "bench/sweep/plan.h"
#include "bench/sweep/row.h"

namespace pagestorm::bench {

inline constexpr int kSweepSchema = 1;

// rows: finished runs by number, ascending; runs may be missing.
struct SweepResults {
  const SweepPlan& plan;
  const std::vector<RunRow>& rows;
};

[[nodiscard]] std::string RunsCsv(const SweepResults& results);
[[nodiscard]] std::string PointsCsv(const SweepResults& results);
[[nodiscard]] std::string HostCsv(const SweepResults& results);
[[nodiscard]] std::string SweepJson(const SweepResults& results);
// One line a point, for people.
[[nodiscard]] std::string SweepTable(const SweepResults& results);

}  // namespace pagestorm::bench
