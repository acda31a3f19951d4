// The rows that mmtests derives from /proc/vmstat before and after a test.
//
// Source: spec workloads-and-reports 3.6, formulas, spellings, formats and their slip.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/compare/compat.h"
#include "bench/compare/layout.h"

namespace pagestorm::bench {

// How far the counters of /proc/vmstat moved while a test ran; means over several runs have
// fractions.
struct VmGrowth {
  std::map<std::string, double, std::less<>> counters;  // after - before, by name
  std::set<std::string, std::less<>> zones;             // that the machine has: "dma32"
  double elapsed_s = 0;

  [[nodiscard]] bool Has(std::string_view name) const;
  [[nodiscard]] double Of(std::string_view name) const;  // 0 if there is no such counter
  // Over the zones: name_dma + name_dma32 + ..., and `name` itself where zones are not told apart.
  [[nodiscard]] double Sum(std::string_view name) const;
};

using VmCounters = std::map<std::string, double, std::less<>>;
// The text of a /proc/vmstat; InvalidArgument with the line that is none.
[[nodiscard]] absl::StatusOr<VmCounters> ParseVmstat(const std::string& text);

// Every row of the generation, in its order and formats. Rows of zones that no column has are left
// out. `keep_zeros`: also rows that are 0 in every column.
struct VmstatOptions {
  Style style;
  bool keep_zeros = true;
};
[[nodiscard]] std::string VmstatTable(const std::vector<std::string>& names,
                                      const std::vector<VmGrowth>& columns,
                                      const VmstatOptions& options = {});

// The same as numbers.
struct VmstatValues {
  std::string label;
  std::vector<double> values;
};
[[nodiscard]] std::vector<VmstatValues> VmstatNumbers(const std::vector<VmGrowth>& columns,
                                                      Compat compat);

}  // namespace pagestorm::bench
