#include "bench/stats/distributions.h"

#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cstdlib>

#include "core/check.h"
#include "fmt/format.h"

namespace pagestorm::stats {
namespace {

namespace math = boost::math;

void CheckConfidence(double confidence) {
  PS_CHECK(confidence > 0);
  PS_CHECK(confidence < 1);
}

double Magnitude(double x) { return x < 0 ? -x : x; }

}  // namespace

double RoundTo6(double value) { return std::strtod(fmt::format("{:.5e}", value).c_str(), nullptr); }

double NormalCritical(double confidence) {
  CheckConfidence(confidence);
  return RoundTo6(math::quantile(math::complement(math::normal(), (1 - confidence) / 2)));
}

double StudentCritical(double confidence, double df) {
  CheckConfidence(confidence);
  PS_CHECK(df > 0);
  return RoundTo6(math::quantile(math::complement(math::students_t(df), (1 - confidence) / 2)));
}

double NormalTwoSidedP(double x) {
  return RoundTo6(2 * math::cdf(math::complement(math::normal(), Magnitude(x))));
}

double StudentTwoSidedP(double t, double df) {
  PS_CHECK(df > 0);
  return RoundTo6(2 * math::cdf(math::complement(math::students_t(df), Magnitude(t))));
}

double BinomialAtMost(std::int64_t successes, std::int64_t trials, double p) {
  PS_CHECK(trials > 0);
  if (successes < 0) return 0;
  if (successes >= trials) return 1;
  return RoundTo6(
      math::cdf(math::binomial(static_cast<double>(trials), p), static_cast<double>(successes)));
}

double BetaQuantile(double q, double a, double b) {
  CheckConfidence(q);
  return RoundTo6(math::quantile(math::beta_distribution<>(a, b), q));
}

}  // namespace pagestorm::stats
