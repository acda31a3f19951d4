// The machine of the published throttle tables, at its full size and length: what its storms end
// in. Virtual engine; the runs of a case are spread over the host's cores.
#include <algorithm>
#include <string>
#include <vector>

#include "bench/experiments/batch.h"
#include "tests/bench/bench_support.h"
#include "tests/support/source_root.h"

namespace pagestorm::bench {
namespace {

RunConfig TableRun(const std::string& kernel, int groups, int seed) {
  LoadRequest request;
  request.config = SourceRoot() + "/configs/experiments/throttle-oom.toml";
  request.kernel = kernel;
  request.sets = {{"--set", "workload.groups=" + std::to_string(groups)},
                  {"--set", "seed=" + std::to_string(seed)}};
  auto config = LoadRunConfig(request, TreeContext());
  INFO(config.status().message());
  REQUIRE(config.ok());
  REQUIRE(PrepareRun(*config).ok());
  return *std::move(config);
}

std::vector<RunRecord> RunAll(const std::vector<RunConfig>& configs) {
  std::vector<RunRecord> records(configs.size());
  std::vector<std::string> errors(configs.size());
  RunBatch(
      configs.size(), [&](std::size_t i) { return configs[i]; }, {},
      [&](std::size_t i, absl::StatusOr<RunRecord> record) {
        if (record.ok()) {
          records[i] = *std::move(record);
        } else {
          errors[i] = std::string(record.status().message());
        }
      });
  for (std::size_t i = 0; i < records.size(); ++i) {
    CAPTURE(i);
    CHECK(errors[i].empty());
    CHECK(records[i].outcome.broken.empty());
  }
  return records;
}

}  // namespace

// P is the sum of the min watermarks. Mutation tried: a gate that lets everybody in -> hundreds
// reclaim at once under v7, too.
TEST_CASE("Tables: at a false OOM nearly all is isolated and nothing free; v7 completes",
          "[bench][long][spec:throttle-40]") {
  std::vector<RunConfig> plain;
  std::vector<RunConfig> throttled;
  for (int seed = 1; seed <= 12; ++seed) {
    plain.push_back(TableRun("2.6.26", 145, seed));
    throttled.push_back(TableRun("2.6.26-throttle-v7", 145, seed));
  }
  const std::vector<RunRecord> stormed = RunAll(plain);
  int kills = 0;
  for (std::size_t i = 0; i < stormed.size(); ++i) {
    if (stormed[i].ooms.empty()) continue;
    ++kills;
    CAPTURE(stormed[i].config.seed);
    const auto& first = stormed[i].ooms.front();
    CHECK(10 * first.isolated >= 8 * (first.isolated + first.lru));
    std::int64_t min = 0;
    for (const ZoneRecord& zone : stormed[i].zones) min += zone.min;
    CHECK(2 * first.free <= 5 * min);
  }
  REQUIRE(kills >= 1);
  CHECK(kills < 12);  // a race, not a wall
  for (const RunRecord& record : RunAll(throttled)) {
    CHECK(record.oom_kills == 0);
    CHECK(record.exit_code() == kExitDone);
    CHECK(record.peaks.reclaimers_max <= 6);  // 3 in each of two zones
  }
}

}  // namespace pagestorm::bench
