// Two samples against each other, and two orders.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "bench/stats/describe.h"
#include "bench/stats/interval.h"

namespace pagestorm::stats {

// Welch's t-test of two means whose variances need not be equal.
struct Welch {
  double difference = 0;  // mean of b - mean of a
  double t = 0;           // difference in standard errors
  double df = 0;          // Welch and Satterthwaite's degrees of freedom
  double p = 1;           // two-sided
  Interval interval;      // of the difference
};

// None if a sample has fewer than 2 values, or if neither varies: there is nothing to judge by.
[[nodiscard]] std::optional<Welch> WelchTest(const Sample& a, const Sample& b,
                                             double confidence = kConfidence);

// Mann and Whitney's test whether values of one sample tend to be larger.
struct MannWhitney {
  double u = 0;        // pairs in which b's value is larger; a tie counts half
  double share = 0.5;  // u as a share of all pairs
  double p = 1;        // two-sided
  bool exact = false;  // by counting arrangements; else by the normal approximation
};

// Exact where no values are equal and there are at most 40 of them. None if a sample is empty.
[[nodiscard]] std::optional<MannWhitney> MannWhitneyTest(const Sample& a, const Sample& b);

// Whether a pair (i, j), i < j, is looked at.
using PairFilter = std::function<bool(std::size_t i, std::size_t j)>;

// Kendall's tau-b of two orders of the same things: 1 same order, -1 reversed. A tie in one counts
// against it. None if one of them ties all pairs that are looked at. x and y have one size.
[[nodiscard]] std::optional<double> KendallTauB(const std::vector<double>& x,
                                                const std::vector<double>& y,
                                                const PairFilter& looked_at = {});

}  // namespace pagestorm::stats
