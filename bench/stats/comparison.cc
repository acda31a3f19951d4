#include "bench/stats/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "bench/stats/distributions.h"
#include "core/check.h"

namespace pagestorm::stats {
namespace {

constexpr std::size_t kExactAtMost = 40;  // values: 20 + 20 have 1.4e11 arrangements

// counts[u]: arrangements of n_a and n_b different values in which b's is the larger of u pairs.
std::vector<double> CountArrangements(std::size_t n_a, std::size_t n_b) {
  // counts[b][u] for the values of a seen so far: the largest of all belongs to a, and beats
  // nobody, or to b, and beats every a.
  std::vector<std::vector<double>> counts(n_b + 1, std::vector<double>(n_a * n_b + 1, 0));
  for (auto& row : counts) row[0] = 1;  // no value of a: one arrangement
  for (std::size_t a = 1; a <= n_a; ++a) {
    for (std::size_t b = 1; b <= n_b; ++b) {
      for (std::size_t u = n_a * n_b + 1; u-- > a;) counts[b][u] += counts[b - 1][u - a];
    }
  }
  return counts[n_b];
}

double ExactP(double u, std::size_t n_a, std::size_t n_b) {
  const std::vector<double> counts = CountArrangements(n_a, n_b);
  const auto pairs = static_cast<double>(n_a * n_b);
  const auto extreme = static_cast<std::size_t>(std::min(u, pairs - u));
  double all = 0;
  double tail = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    if (i <= extreme) tail += counts[i];
  }
  return RoundTo6(std::min(1.0, 2 * tail / all));
}

// Sum of t^3 - t over groups of t equal values.
double TieTerm(const Sample& sorted) {
  double sum = 0;
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t end = first;
    while (end < sorted.size() && sorted[end] == sorted[first]) ++end;
    const auto t = static_cast<double>(end - first);
    sum += t * t * t - t;
    first = end;
  }
  return sum;
}

double ApproximateP(double u, double n_a, double n_b, double ties) {
  const double n = n_a + n_b;
  const double variance = n_a * n_b / 12 * (n + 1 - ties / (n * (n - 1)));
  if (variance <= 0) return 1;  // all values are equal
  const double away = std::abs(u - n_a * n_b / 2);
  return NormalTwoSidedP(std::max(0.0, away - 0.5) / std::sqrt(variance));
}

int Order(double first, double second) {
  return (first < second ? 1 : 0) - (second < first ? 1 : 0);
}

}  // namespace

std::optional<Welch> WelchTest(const Sample& a, const Sample& b, double confidence) {
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  const auto n_a = static_cast<double>(a.size());
  const auto n_b = static_cast<double>(b.size());
  const double part_a = SampleVariance(a) / n_a;
  const double part_b = SampleVariance(b) / n_b;
  const double error = std::sqrt(part_a + part_b);
  if (error <= 0) return std::nullopt;
  Welch welch;
  welch.difference = Mean(b) - Mean(a);
  welch.t = welch.difference / error;
  welch.df = (part_a + part_b) * (part_a + part_b) /
             (part_a * part_a / (n_a - 1) + part_b * part_b / (n_b - 1));
  welch.p = StudentTwoSidedP(welch.t, welch.df);
  const double half = StudentCritical(confidence, welch.df) * error;
  welch.interval = {welch.difference - half, welch.difference + half};
  return welch;
}

std::optional<MannWhitney> MannWhitneyTest(const Sample& a, const Sample& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  MannWhitney test;
  for (const double x : a) {
    for (const double y : b) test.u += 0.5 * (1 + Order(x, y));
  }
  test.share = test.u / static_cast<double>(a.size() * b.size());
  Sample all = a;
  all.insert(all.end(), b.begin(), b.end());
  const double ties = TieTerm(Sorted(all));
  test.exact = ties <= 0 && all.size() <= kExactAtMost;
  test.p = test.exact ? ExactP(test.u, a.size(), b.size())
                      : ApproximateP(test.u, static_cast<double>(a.size()),
                                     static_cast<double>(b.size()), ties);
  return test;
}

std::optional<double> KendallTauB(const std::vector<double>& x, const std::vector<double>& y,
                                  const PairFilter& looked_at) {
  PS_CHECK(x.size() == y.size());
  std::int64_t agree = 0;  // concordant - discordant
  std::int64_t untied_x = 0;
  std::int64_t untied_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = i + 1; j < x.size(); ++j) {
      if (looked_at && !looked_at(i, j)) continue;
      const int in_x = Order(x[i], x[j]);
      const int in_y = Order(y[i], y[j]);
      agree += in_x * in_y;
      untied_x += in_x * in_x;
      untied_y += in_y * in_y;
    }
  }
  if (untied_x == 0 || untied_y == 0) return std::nullopt;
  return static_cast<double>(agree) /
         std::sqrt(static_cast<double>(untied_x) * static_cast<double>(untied_y));
}

}  // namespace pagestorm::stats
