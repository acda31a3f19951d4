#include "bench/workloads/filestorm.h"

#include <map>

#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

RunRecord Storm(const std::string& engine, std::vector<Setting> sets = {}) {
  LoadRequest request;
  request.machine = "tests";
  request.workload = "filestorm";
  request.sets = {{"--set", "engine.kind=" + engine}};
  request.sets.insert(request.sets.end(), sets.begin(), sets.end());
  auto config = LoadRunConfig(request, TreeContext());
  INFO(config.status().message());
  REQUIRE(config.ok());
  auto record = ExecuteRun(*config, {});
  INFO(record.status().message());
  REQUIRE(record.ok());
  CHECK(record->outcome.broken == "");
  CHECK(record->workload.failure == "");
  return *std::move(record);
}

std::map<std::string, std::int64_t> Numbers(const RunRecord& record) {
  return {record.workload.numbers.begin(), record.workload.numbers.end()};
}

TEST_CASE("Filestorm: reads and writes everything it promises and loses nothing",
          "[bench][filestorm]") {
  const std::string engine = GENERATE("virtual", "threads");
  CAPTURE(engine);
  // 64 MiB of memory: the readers' file alone is larger.
  auto numbers = Numbers(Storm(engine, {{"--set", "workload.read_mib=72"},
                                        {"--set", "workload.writers=2"},
                                        {"--set", "workload.write_mib=6"}}));
  CHECK(numbers["pages_lost"] == 0);
  CHECK(numbers["tasks_killed"] == 0);
  CHECK(numbers["tasks_finished"] == 4);
  CHECK(numbers["pages_read"] == 72 * 256);
  CHECK(numbers["pages_written"] == 2 * 2 * 6 * 256);
  CHECK(numbers["hot_touches"] > 0);
  CHECK(numbers["flusher_written"] + numbers["throttle_written"] + numbers["reclaim_written"] > 0);
}

TEST_CASE("Filestorm: sizes left at 0 follow the machine's memory", "[bench][filestorm]") {
  const auto filestorm = MakeFilestorm();
  REQUIRE(filestorm
              ->Validate({.memory = {40'000},  // 156 MiB of 4 KiB pages
                          .page_shift = PageShift{12},
                          .online_cpus = 4,
                          .swap = {0}})
              .ok());
  std::map<std::string, std::int64_t> values;
  for (const WorkloadParam& param : filestorm->params()) values[param.key] = param.value;
  CHECK(values["read_mib"] == 234);
  CHECK(values["write_mib"] == 39);
  CHECK(filestorm->max_tasks() == 4);
}

}  // namespace
}  // namespace pagestorm::bench
