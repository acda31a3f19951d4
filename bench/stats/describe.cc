#include "bench/stats/describe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/check.h"

namespace pagestorm::stats {
namespace {

double Size(const Sample& sample) { return static_cast<double>(sample.size()); }

double SquaredDeviations(const Sample& sample) {
  const double mean = Mean(sample);
  double sum = 0;
  for (const double value : sample) sum += (value - mean) * (value - mean);
  return sum;
}

}  // namespace

double Mean(const Sample& sample) {
  PS_CHECK(!sample.empty());
  double sum = 0;
  for (const double value : sample) sum += value;
  return sum / Size(sample);
}

double Min(const Sample& sample) {
  PS_CHECK(!sample.empty());
  return *std::min_element(sample.begin(), sample.end());
}

double Max(const Sample& sample) {
  PS_CHECK(!sample.empty());
  return *std::max_element(sample.begin(), sample.end());
}

double PopulationStddev(const Sample& sample) {
  return std::sqrt(SquaredDeviations(sample) / Size(sample));
}

double SampleVariance(const Sample& sample) {
  PS_CHECK(sample.size() >= 2);
  return SquaredDeviations(sample) / (Size(sample) - 1);
}

double SampleStddev(const Sample& sample) { return std::sqrt(SampleVariance(sample)); }

double Quantile(const Sample& sample, double q) {
  PS_CHECK(!sample.empty());
  PS_CHECK(q >= 0);
  PS_CHECK(q <= 1);
  const Sample sorted = Sorted(sample);
  // The smallest rank with rank / n >= q. A product like 0.95 * 20 may come out a bit above the
  // integer that it stands for, hence the allowance.
  const double exact = q * Size(sample);
  auto rank = static_cast<std::size_t>(std::ceil(exact - exact * 1e-12));
  rank = std::clamp(rank, std::size_t{1}, sample.size());
  return sorted[rank - 1];
}

double Median(const Sample& sample) {
  PS_CHECK(!sample.empty());
  const Sample sorted = Sorted(sample);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

Sample Sorted(Sample sample) {
  std::sort(sample.begin(), sample.end());
  return sample;
}

}  // namespace pagestorm::stats
