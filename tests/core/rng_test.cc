#include "core/rng.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <set>

namespace pagestorm {
namespace {

TEST_CASE("SplitMix64: reproduces the published sequence", "[core][rng]") {
  // The reference values that circulate with the algorithm, for the seed 1234567.
  std::uint64_t state = 1234567;
  CHECK(SplitMix64(state) == 6457827717110365317U);
  CHECK(SplitMix64(state) == 3203168211198807973U);
  CHECK(SplitMix64(state) == 9817491932198370423U);
}

TEST_CASE("Rng: gives the same numbers for a seed for ever", "[core][rng]") {
  // From a second implementation, in Python, that also gives the published xoshiro256++ vector for
  // the state {1, 2, 3, 4}: a run's seed must mean the same in every later version.
  struct Row {
    std::uint64_t seed;
    std::array<std::uint64_t, 4> numbers;
  };
  const std::array<Row, 3> rows{{
      {0, {5987356902031041503U, 7051070477665621255U, 6633766593972829180U, 211316841551650330U}},
      {1,
       {14971601782005023387U, 13781649495232077965U, 1847458086238483744U, 13765271635752736470U}},
      {std::numeric_limits<std::uint64_t>::max(),
       {6254647548650071986U, 16610832622747802512U, 16422857234328439435U, 5048281510058307187U}},
  }};
  for (const Row& row : rows) {
    CAPTURE(row.seed);
    Rng rng(row.seed);
    for (const std::uint64_t number : row.numbers) CHECK(rng.Next() == number);
  }
}

TEST_CASE("Rng: Below stays below its bound and reaches every value evenly", "[core][rng]") {
  Rng rng(GENERATE(take(8, random(0U, 0xffff'ffffU))));
  std::array<int, 7> hits{};
  for (int i = 0; i < 70'000; ++i) {
    const std::uint64_t value = rng.Below(hits.size());
    REQUIRE(value < hits.size());
    ++hits.at(value);
  }
  // 10,000 expected each, standard deviation 93: six of them is once in 10^8 draws of a seed.
  for (const int count : hits) CHECK(std::abs(count - 10'000) < 6 * 93);

  CHECK(rng.Below(1) == 0);
}

TEST_CASE("Rng: Between includes both ends, up to the whole range of int64", "[core][rng]") {
  Rng rng(7);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(rng.Between(-2, 2));
  CHECK(seen == std::set<std::int64_t>{-2, -1, 0, 1, 2});

  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  CHECK(rng.Between(kLowest, kLowest) == kLowest);
  CHECK(rng.Between(kHighest, kHighest) == kHighest);
  bool negative = false;
  bool positive = false;
  for (int i = 0; i < 100; ++i) {
    (rng.Between(kLowest, kHighest) < 0 ? negative : positive) = true;
  }
  CHECK(negative);
  CHECK(positive);
}

TEST_CASE("Rng: Chance follows its probability and is certain at both ends", "[core][rng]") {
  Rng rng(11);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    REQUIRE_FALSE(rng.Chance(0));
    REQUIRE(rng.Chance(1'000'000));
    if (rng.Chance(250'000)) ++hits;
  }
  // 25,000 expected, standard deviation 137.
  CHECK(std::abs(hits - 25'000) < 6 * 137);
}

TEST_CASE("Seeds: a stream depends on seed, actor and id, and on nothing else", "[core][rng]") {
  const Seeds seeds(42);
  // From the same second implementation as above.
  CHECK(seeds.Stream("kswapd", 0).Next() == 9458659460529227981U);
  CHECK(seeds.Stream("kswapd", 1).Next() == 2901784184875587369U);
  CHECK(seeds.Stream("", -1).Next() == 3194194899050422966U);
  CHECK(seeds.Stream("kswapd").Next() == seeds.Stream("kswapd", 0).Next());

  std::set<std::uint64_t> firsts;
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    for (const char* actor : {"a", "b", "ab", "ba"}) {
      for (std::int64_t id = -1; id <= 1; ++id) {
        firsts.insert(Seeds(seed).Stream(actor, id).Next());
      }
    }
  }
  CHECK(firsts.size() == 36);  // 3 seeds x 4 actors x 3 ids, all different
}

}  // namespace
}  // namespace pagestorm
