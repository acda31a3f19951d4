#include "bench/stats/interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "bench/stats/distributions.h"
#include "core/check.h"
#include "core/rng.h"

namespace pagestorm::stats {
namespace {

void CheckProportion(std::int64_t successes, std::int64_t trials) {
  PS_CHECK(trials > 0);
  PS_CHECK(successes >= 0);
  PS_CHECK(successes <= trials);
}

void DrawAgain(const Sample& sample, Rng& rng, Sample& drawn) {
  for (double& value : drawn) value = sample[rng.Below(sample.size())];
}

}  // namespace

std::optional<Interval> MeanInterval(const Sample& sample, double confidence) {
  if (sample.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(sample.size());
  const double half = StudentCritical(confidence, n - 1) * SampleStddev(sample) / std::sqrt(n);
  const double mean = Mean(sample);
  return Interval{mean - half, mean + half};
}

std::optional<Interval> QuantileInterval(const Sample& sample, double q, double confidence) {
  PS_CHECK(q > 0);
  PS_CHECK(q < 1);
  const auto n = static_cast<std::int64_t>(sample.size());
  if (n == 0) return std::nullopt;
  // The number of values below the quantile is Binomial(n, q). The value of rank r (from 1) lies
  // above the quantile with P(at most r - 1 below).
  const double tail = RoundTo6((1 - confidence) / 2);
  std::int64_t low = 0;
  while (low < n && BinomialAtMost(low, n, q) <= tail) ++low;
  if (low == 0) return std::nullopt;
  std::int64_t high = low;
  while (high <= n && 1 - BinomialAtMost(high - 1, n, q) > tail) ++high;
  if (high > n) return std::nullopt;
  const Sample sorted = Sorted(sample);
  return Interval{sorted[static_cast<std::size_t>(low - 1)],
                  sorted[static_cast<std::size_t>(high - 1)]};
}

std::optional<Interval> MedianInterval(const Sample& sample, double confidence) {
  return QuantileInterval(sample, 0.5, confidence);
}

Interval WilsonInterval(std::int64_t successes, std::int64_t trials, double confidence) {
  CheckProportion(successes, trials);
  const auto n = static_cast<double>(trials);
  const double p = static_cast<double>(successes) / n;
  const double z = NormalCritical(confidence);
  const double z2 = z * z / n;
  const double centre = (p + z2 / 2) / (1 + z2);
  const double half = z * std::sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2);
  // The ends are exact there, and what rounding leaves of them is not.
  return {successes == 0 ? 0 : centre - half, successes == trials ? 1 : centre + half};
}

Interval ClopperPearsonInterval(std::int64_t successes, std::int64_t trials, double confidence) {
  CheckProportion(successes, trials);
  const auto k = static_cast<double>(successes);
  const auto n = static_cast<double>(trials);
  const double tail = (1 - confidence) / 2;
  return {successes == 0 ? 0 : BetaQuantile(tail, k, n - k + 1),
          successes == trials ? 1 : BetaQuantile(1 - tail, k + 1, n - k)};
}

std::optional<Interval> BootstrapInterval(const std::vector<Sample>& samples,
                                          const JointStatistic& statistic,
                                          const BootstrapOptions& options) {
  PS_CHECK(options.resamples > 0);
  PS_CHECK(options.confidence > 0);
  PS_CHECK(options.confidence < 1);
  if (std::any_of(samples.begin(), samples.end(), [](const Sample& s) { return s.empty(); })) {
    return std::nullopt;
  }
  Rng rng = Seeds(options.seed).Stream("bootstrap");
  std::vector<Sample> drawn = samples;
  Sample values;
  for (int i = 0; i < options.resamples; ++i) {
    for (std::size_t j = 0; j < samples.size(); ++j) DrawAgain(samples[j], rng, drawn[j]);
    values.push_back(statistic(drawn));
  }
  const double tail = RoundTo6((1 - options.confidence) / 2);
  return Interval{Quantile(values, tail), Quantile(values, 1 - tail)};
}

std::optional<Interval> BootstrapInterval(const Sample& sample, const Statistic& statistic,
                                          const BootstrapOptions& options) {
  return BootstrapInterval(
      std::vector<Sample>{sample},
      [&statistic](const std::vector<Sample>& drawn) { return statistic(drawn.front()); }, options);
}

}  // namespace pagestorm::stats
