// Quantiles and tail probabilities of the distributions that intervals and tests rest on.
//
// They come from Boost.Math and are rounded to 6 significant digits here, so that what is computed
// from them with + - * / and sqrt is the same bits from every compiler and mathematics library.
#pragma once

#include <cstdint>

namespace pagestorm::stats {

// The nearest number of 6 significant decimal digits.
[[nodiscard]] double RoundTo6(double value);

// Two-sided critical values: P(|X| <= result) = confidence.   confidence: in (0, 1). df: > 0.
[[nodiscard]] double NormalCritical(double confidence);
[[nodiscard]] double StudentCritical(double confidence, double df);

// P(|X| >= |x|).
[[nodiscard]] double NormalTwoSidedP(double x);
[[nodiscard]] double StudentTwoSidedP(double t, double df);

// P(X <= successes) of Binomial(trials, p); 0 for successes < 0.   trials: > 0. p: in [0, 1].
[[nodiscard]] double BinomialAtMost(std::int64_t successes, std::int64_t trials, double p);

// The q-quantile of Beta(a, b).   q: in (0, 1). a, b: > 0.
[[nodiscard]] double BetaQuantile(double q, double a, double b);

}  // namespace pagestorm::stats
