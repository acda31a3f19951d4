// What is said of a measure over the seeds of a point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pagestorm::bench {

struct Spread {
  std::size_t n = 0;
  double median = 0;  // of an even number of values: the mean of the two in the middle
  double mean = 0;
  std::optional<double> ci95;  // the 95 % interval is mean -+ this (Student t); none for one value
  std::int64_t min = 0;
  std::int64_t max = 0;
};

// Nothing of no values. A function of the set of values: their order does not matter.
[[nodiscard]] std::optional<Spread> SpreadOf(std::vector<std::int64_t> values);

// "12", "12.5", "0.333": three decimals at most, no zeros at the end.
[[nodiscard]] std::string Decimal(double value);

}  // namespace pagestorm::bench
