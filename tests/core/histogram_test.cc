#include "core/histogram.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "core/rng.h"

namespace pagestorm {
namespace {

TEST_CASE("Histogram: small values are exact, large ones within 0.1 %", "[core]") {
  const auto seed = GENERATE(take(4, random(0U, 0xffff'ffffU)));
  CAPTURE(seed);
  Rng rng(seed);
  Histogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<std::int64_t>(rng.Next() >> rng.Between(20, 60)));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const std::int64_t p : {1'000, 50'000, 90'000, 99'000, 99'900, 100'000}) {
    const std::int64_t exact =
        values[static_cast<std::size_t>((20'000 * p + 99'999) / 100'000 - 1)];
    CHECK(histogram.Percentile(p) >= exact);
    CHECK(histogram.Percentile(p) <= exact + exact / 1000);
  }
  CHECK(histogram.max() == values.back());
  CHECK(histogram.min() == values.front());
}

TEST_CASE("Histogram: merging equals recording into one", "[core]") {
  Histogram a;
  Histogram b;
  Histogram both;
  for (std::int64_t v : {5, 70, 3000, 123'456}) {
    a.Record(v);
    both.Record(v);
  }
  for (std::int64_t v : {1, 70, 9'999'999}) {
    b.Record(v, 3);
    both.Record(v, 3);
  }
  a.Merge(b);
  CHECK(a.count() == 13);
  CHECK(a.min() == 1);
  for (const std::int64_t p : {10'000, 50'000, 75'000, 99'000}) {
    CHECK(a.Percentile(p) == both.Percentile(p));
  }
  CHECK(a.mean() == both.mean());
}

TEST_CASE("Histogram: an empty one answers 0", "[core]") {
  CHECK(Histogram{}.Percentile(50'000) == 0);
  CHECK(Histogram{}.mean() == 0);
}

}  // namespace
}  // namespace pagestorm
