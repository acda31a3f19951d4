#include "bench/experiments/batch.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "bench/experiments/result_json.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

RunConfig Seed(std::size_t index) {
  RunConfig config = SmallRun();
  config.seed = index + 1;
  return config;
}

std::map<std::size_t, std::string> Results(int workers) {
  std::map<std::size_t, std::string> results;
  const std::vector<RunConfig> configs{Seed(0), Seed(1), Seed(2), Seed(3)};
  RunBatch(
      configs.size(), [&](std::size_t i) { return configs[i]; }, {.workers = workers},
      [&](std::size_t index, const absl::StatusOr<RunRecord>& record) {
        results[index] = record.ok() ? ResultJson(*record) : std::string(record.status().message());
      });
  return results;
}

}  // namespace

// Goes red if runs share anything: with a shared seed, page or counter the four workers' differ.
TEST_CASE("RunBatch: the results do not depend on the number of workers", "[bench][batch]") {
  const auto one = Results(1);
  CHECK(one.size() == 4);
  CHECK(Results(2) == one);
  CHECK(Results(4) == one);
}

TEST_CASE("RunBatch: once interrupted it starts nothing more", "[bench][batch]") {
  std::atomic<bool> interrupted{false};
  int ended = 0;
  const RunConfig config = SmallRun();
  RunBatch(
      3, [&](std::size_t) { return config; }, {.workers = 1, .interrupted = &interrupted},
      [&](std::size_t, const absl::StatusOr<RunRecord>& record) {
        CHECK(record.ok());
        ++ended;
        interrupted = true;
      });
  CHECK(ended == 1);
}

}  // namespace pagestorm::bench
