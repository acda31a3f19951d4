// What of a workload's numbers is worth comparing, and which way is better.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/compare/layout.h"

namespace pagestorm::bench {

using WorkloadNumbers = std::map<std::string, std::int64_t, std::less<>>;

struct Metric {
  std::string name;    // the operation's name in a table: "p99-access"
  std::string number;  // of result.json's workload.numbers
  std::string unit;    // "s"
  Better better = Better::kLower;
  std::int64_t scale = 1;       // the number is this many units
  std::string per_second = {};  // a number in ns: the metric is a rate over it
  int decimals = 2;
  std::string factor = {};  // a number that tells tests of one benchmark apart: "groups"
};

// Of a workload that is known here, in order of weight. Of another: its numbers whose names say
// what they are ("_ns" times, "_per_second" rates).
[[nodiscard]] std::vector<Metric> MetricsOf(std::string_view workload,
                                            const WorkloadNumbers& numbers);

// None if the run has no such number, or a negative one: it was not measured.
[[nodiscard]] std::optional<double> ValueOf(const Metric& metric, const WorkloadNumbers& numbers);

}  // namespace pagestorm::bench
