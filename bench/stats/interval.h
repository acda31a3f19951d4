// Intervals that cover the true value with a given confidence, 95 % unless said otherwise.
//
// "None" is an everyday answer: a sample may be too small to say anything.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "bench/stats/describe.h"

namespace pagestorm::stats {

struct Interval {
  double low = 0;
  double high = 0;
  friend bool operator==(Interval, Interval) = default;
};

inline constexpr double kConfidence = 0.95;

// Of the mean of a normal population: mean -+ t(n - 1) * s / sqrt(n). None for fewer than 2 values.
[[nodiscard]] std::optional<Interval> MeanInterval(const Sample& sample,
                                                   double confidence = kConfidence);

// Of the q-quantile of any continuous population: two of the sample's own values, chosen by the
// binomial distribution, each side missing it with at most half of what the confidence leaves.
// None if the sample is too small: a median needs 6 values at 95 %.   q: in (0, 1).
[[nodiscard]] std::optional<Interval> QuantileInterval(const Sample& sample, double q,
                                                       double confidence = kConfidence);
[[nodiscard]] std::optional<Interval> MedianInterval(const Sample& sample,
                                                     double confidence = kConfidence);

// Of a proportion of which `successes` in `trials` were seen; trials > 0.
//   Wilson's score interval: near its confidence on average.
//   Clopper and Pearson's: never below its confidence, and wider.
[[nodiscard]] Interval WilsonInterval(std::int64_t successes, std::int64_t trials,
                                      double confidence = kConfidence);
[[nodiscard]] Interval ClopperPearsonInterval(std::int64_t successes, std::int64_t trials,
                                              double confidence = kConfidence);

struct BootstrapOptions {
  std::uint64_t seed = 1;  // the same seed gives the same interval
  int resamples = 2000;
  double confidence = kConfidence;
};

using Statistic = std::function<double(const Sample&)>;
// Of several samples, each drawn anew from itself: the ratio of two means, say.
using JointStatistic = std::function<double(const std::vector<Sample>&)>;

// Percentile bootstrap of any statistic: the middle share of its values over resamples drawn with
// replacement. None if a sample is empty; a point for one value.
[[nodiscard]] std::optional<Interval> BootstrapInterval(const Sample& sample,
                                                        const Statistic& statistic,
                                                        const BootstrapOptions& options);
[[nodiscard]] std::optional<Interval> BootstrapInterval(const std::vector<Sample>& samples,
                                                        const JointStatistic& statistic,
                                                        const BootstrapOptions& options);

}  // namespace pagestorm::stats
