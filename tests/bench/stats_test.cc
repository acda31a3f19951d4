// Worked examples, from closed forms where there are some.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "bench/stats/comparison.h"
#include "bench/stats/describe.h"
#include "bench/stats/distributions.h"
#include "bench/stats/interval.h"

namespace pagestorm::stats {
namespace {

Sample Ascending(int n) {
  Sample sample(static_cast<std::size_t>(n));
  std::iota(sample.begin(), sample.end(), 1.0);
  return sample;
}

// 6 significant digits.
bool Near(double value, double expected) {
  return value == Approx(expected).epsilon(2e-6).margin(1e-12);
}

TEST_CASE("describe: mean, deviations, median and quantiles", "[bench][stats]") {
  // Deviations -3 -1 -1 -1 0 0 2 4, squares 32: population sqrt(32/8), sample sqrt(32/7).
  const Sample sample{2, 4, 4, 4, 5, 5, 7, 9};
  CHECK(Mean(sample) == 5);
  CHECK(Min(sample) == 2);
  CHECK(Max(sample) == 9);
  CHECK(PopulationStddev(sample) == 2);
  CHECK(SampleStddev(sample) == std::sqrt(32.0 / 7));
  CHECK(Median(sample) == 4.5);
  CHECK(Median({3, 1, 2}) == 2);
  CHECK(PopulationStddev({7}) == 0);
}

TEST_CASE("Quantile: a value of the sample that a share q does not exceed", "[bench][stats]") {
  const Sample sample = Ascending(20);
  CHECK(Quantile(sample, 0) == 1);
  CHECK(Quantile(sample, 0.05) == 1);
  CHECK(Quantile(sample, 0.051) == 2);
  CHECK(Quantile(sample, 0.5) == 10);
  CHECK(Quantile(sample, 0.95) == 19);  // 0.95 * 20 is a bit above 19 in binary
  CHECK(Quantile(sample, 1) == 20);
}

TEST_CASE("distributions: rounded to 6 digits", "[bench][stats]") {
  CHECK(RoundTo6(1234567.0) == 1234570.0);
  CHECK(RoundTo6(-0.000123456789) == -0.000123457);
  CHECK(RoundTo6(0) == 0);
  CHECK(NormalCritical(0.95) == 1.95996);
  CHECK(StudentCritical(0.95, 4) == 2.77645);
  CHECK(StudentCritical(0.95, 1) == 12.7062);          // tan(0.475 pi)
  CHECK(StudentTwoSidedP(-2, 2) == 0.183503);          // 1 - t / sqrt(2 + t^2)
  CHECK(NormalTwoSidedP(std::sqrt(2.0)) == 0.157299);  // erfc(1)
  CHECK(BinomialAtMost(2, 4, 0.5) == 0.6875);          // 11 of 16
  CHECK(BinomialAtMost(-1, 4, 0.5) == 0);
  CHECK(BinomialAtMost(4, 4, 0.5) == 1);
  CHECK(BetaQuantile(0.25, 2, 1) == 0.5);  // the square of a uniform number's maximum
}

TEST_CASE("MeanInterval: Student's t, none for a single value", "[bench][stats]") {
  // s = sqrt(2.5), t(4) = 2.77645: 3 -+ 2.77645 * sqrt(0.5)
  const auto interval = MeanInterval(Ascending(5));
  REQUIRE(interval);
  CHECK(Near(interval->low, 1.036753));
  CHECK(Near(interval->high, 4.963247));
  CHECK(MeanInterval({4, 4, 4}) == Interval{4, 4});
  CHECK_FALSE(MeanInterval({4}));
  CHECK_FALSE(MeanInterval({}));
}

TEST_CASE("QuantileInterval: two of the sample's values, where it is large enough",
          "[bench][stats]") {
  // The median lies outside all of n values with probability 2 / 2^n: 6 are needed for 95 %.
  CHECK_FALSE(MedianInterval({}));
  CHECK_FALSE(MedianInterval(Ascending(5)));
  CHECK(MedianInterval(Ascending(6)) == Interval{1, 6});
  CHECK(MedianInterval(Ascending(10)) == Interval{2, 9});  // 11 of 1024 on each side
  CHECK(MedianInterval(Ascending(20)) == Interval{6, 15});
  CHECK(MedianInterval(Ascending(5), 0.9) == Interval{1, 5});
  // 0.95^n <= 0.025 from n = 72 on.
  CHECK_FALSE(QuantileInterval(Ascending(71), 0.95));
  CHECK(QuantileInterval(Ascending(72), 0.95) == Interval{64, 72});
}

TEST_CASE("WilsonInterval and ClopperPearsonInterval: of a proportion", "[bench][stats]") {
  // Nobody of n: z^2 / (n + z^2), and 1 - 0.025^(1/n).
  CHECK(WilsonInterval(0, 10).low == 0);
  CHECK(Near(WilsonInterval(0, 10).high, 0.277532));
  CHECK(WilsonInterval(10, 10).high == 1);
  CHECK(Near(WilsonInterval(10, 10).low, 1 - 0.277532));
  CHECK(Near(WilsonInterval(5, 10).low, 0.2365935));  // 1/2 -+ z / (2 sqrt(n + z^2))
  CHECK(ClopperPearsonInterval(0, 10).low == 0);
  CHECK(ClopperPearsonInterval(0, 10).high == 0.308497);
  CHECK(ClopperPearsonInterval(10, 10).low == 0.691503);
  CHECK(ClopperPearsonInterval(1, 10).low == 0.00252858);  // 1 - 0.975^(1/10)
  CHECK(Near(ClopperPearsonInterval(1, 10).high, 0.445016));
}

TEST_CASE("BootstrapInterval: a function of sample and seed", "[bench][stats]") {
  const Sample sample = Ascending(10);
  const auto mean = BootstrapInterval(sample, Mean, {});
  REQUIRE(mean);
  CHECK(*mean == *BootstrapInterval(sample, Mean, {}));
  CHECK_FALSE(*mean == *BootstrapInterval(sample, Max, {.seed = 2}));
  // The same bits from every compiler: a resample's mean is its integer sum over 10. Roughly
  // 5.5 -+ 1.96 * sqrt(8.25 / 10).
  CHECK(*mean == Interval{3.6, 7.3});
  CHECK(*BootstrapInterval({4, 4, 4}, Mean, {}) == Interval{4, 4});
  CHECK(*BootstrapInterval({4}, Median, {}) == Interval{4, 4});
  // 1 - 0.9^10 of all resamples hold the largest value.
  CHECK(BootstrapInterval(sample, Max, {})->high == 10);
  CHECK_FALSE(BootstrapInterval(Sample{}, Mean, {}));
}

TEST_CASE("BootstrapInterval: samples are drawn each from itself", "[bench][stats]") {
  const auto ratio = [](const std::vector<Sample>& s) { return Mean(s[1]) / Mean(s[0]); };
  CHECK(*BootstrapInterval({{2, 2, 2}, {6, 6}}, ratio, {}) == Interval{3, 3});
  const auto interval = BootstrapInterval({{2, 2, 2}, {4, 6, 8}}, ratio, {});
  REQUIRE(interval);
  CHECK(*interval == Interval{2, 4});  // all three drawn alike: 1 of 27 on each side
  CHECK_FALSE(BootstrapInterval({{2}, {}}, ratio, {}));
}

TEST_CASE("WelchTest: t, degrees of freedom, p and interval", "[bench][stats]") {
  // Equal variances 2.5 and sizes 5: error 1, df 8.
  const auto equal = WelchTest(Ascending(5), {3, 4, 5, 6, 7});
  REQUIRE(equal);
  CHECK(equal->difference == 2);
  CHECK(equal->t == 2);
  CHECK(equal->df == 8);
  CHECK(equal->p == 0.0805162);
  CHECK(Near(equal->interval.low, 2 - 2.30600));
  CHECK(Near(equal->interval.high, 2 + 2.30600));
  // One side does not vary: the other's single degree of freedom. p = 1 - 2 atan(9) / pi.
  const auto still = WelchTest({0, 2}, {10, 10});
  REQUIRE(still);
  CHECK(still->df == 1);
  CHECK(Near(still->p, 1 - 2 * std::atan(9.0) / std::acos(-1.0)));
  CHECK_FALSE(WelchTest({1, 1}, {2, 2}));
  CHECK_FALSE(WelchTest({1}, {2, 3}));
}

TEST_CASE("MannWhitneyTest: exact for few values, approximate with ties", "[bench][stats]") {
  // All of b above a: 2 of C(6,3) = 20 arrangements, 2 of C(10,5) = 252.
  CHECK(MannWhitneyTest({1, 2, 3}, {4, 5, 6})->p == 0.1);
  const auto five = MannWhitneyTest({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10});
  CHECK(five->exact);
  CHECK(five->share == 1);
  CHECK(five->p == 0.00793651);
  // b wins 1 + 2 + 3 of 9; 1 + 1 + 2 + 3 arrangements have 3 or fewer.
  const auto mixed = MannWhitneyTest({1, 3, 5}, {2, 4, 6});
  CHECK(mixed->u == 6);
  CHECK(mixed->p == 0.7);
  CHECK(MannWhitneyTest({2, 4, 6}, {1, 3, 5})->p == 0.7);
  // u = 8; variance 9/12 * (7 - (24 + 6) / 30) = 4.5; (8 - 4.5 - 0.5) / sqrt(4.5) = sqrt(2).
  const auto ties = MannWhitneyTest({1, 2, 2}, {2, 3, 3});
  CHECK_FALSE(ties->exact);
  CHECK(ties->u == 8);
  CHECK(ties->p == 0.157299);
  CHECK(MannWhitneyTest({1, 1}, {1, 1})->p == 1);
  CHECK_FALSE(MannWhitneyTest({}, {1}));
}

TEST_CASE("KendallTauB: agreement of two orders, ties against it", "[bench][stats]") {
  CHECK(KendallTauB({1, 2, 3}, {4, 5, 6}) == 1);
  CHECK(KendallTauB({1, 2, 3}, {6, 5, 4}) == -1);
  CHECK(KendallTauB({1, 2, 3, 4, 5}, {3, 4, 1, 2, 5}) == 0.2);  // 6 pairs agree, 4 do not
  CHECK(KendallTauB({1, 2, 2, 3}, {1, 2, 3, 3}) == 0.8);        // 4 / sqrt(5 * 5)
  CHECK_FALSE(KendallTauB({1, 1}, {1, 2}));
  CHECK_FALSE(KendallTauB({}, {}));
  // Without the pair that disagrees.
  const auto but_first = [](std::size_t i, std::size_t j) { return !(i == 0 && j == 1); };
  CHECK(KendallTauB({1, 2, 3}, {2, 1, 3}, but_first) == 1);
}

}  // namespace
}  // namespace pagestorm::stats
