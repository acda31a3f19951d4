// Whole machines on each of the three LRUs, and the table that compares them.
#include <algorithm>
#include <string>
#include <vector>

#include "bench/experiments/result_json.h"
#include "bench/reproductions/chart.h"
#include "bench/reproductions/report.h"
#include "bench/reproductions/reproduce.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

std::string AnyLru() { return GENERATE("locked", "ring", "clock"); }

RunRecord PrepareAndExecute(RunConfig config) {
  REQUIRE(PrepareRun(config).ok());
  return Execute(config);
}

// ExecuteRun() counts every frame at the end (`broken`). Mutation tried, red: an EntryRing that
// never takes its lines. Both stay green: EntryRing that drops the last entry of a push; a clock
// that takes frames of any list.
TEST_CASE("LRU designs: a press beyond memory loses nothing, twice the same way", "[bench][lru]") {
  const std::string lru = AnyLru();
  CAPTURE(lru);
  const RunConfig config = SmallRun({{"--set", "lru=" + lru},
                                     {"--set", "workload.mib=20"},
                                     {"--set", "workload.sweeps=2"},
                                     {"--set", "workload.hot_mib=1"}});
  const RunRecord one = PrepareAndExecute(config);
  CHECK(one.verdict() == "");
  CHECK(one.outcome.broken.empty());
  CHECK(Number(one, "pages_lost") == 0);
  CHECK(Number(one, "hot_refaults") >= 0);
  CHECK(one.peaks.isolated_max > 0);
  const bool lines = std::any_of(one.zones.begin(), one.zones.end(), [](const ZoneRecord& zone) {
    return zone.lru_line.acquisitions > 0;
  });
  const bool lock = std::any_of(one.zones.begin(), one.zones.end(), [](const ZoneRecord& zone) {
    return zone.lru_lock.acquisitions > 0;
  });
  CHECK(lines == (lru != "locked"));
  CHECK(lock == (lru == "locked"));
  const RunRecord two = PrepareAndExecute(config);
  CHECK(two.outcome.run.trace_hash == one.outcome.run.trace_hash);
  CHECK(ResultJson(two) == ResultJson(one));
}

TEST_CASE("LRU designs: real threads lose nothing under pressure", "[bench][lru][threads]") {
  const std::string lru = AnyLru();
  CAPTURE(lru);
  const RunRecord record = PrepareAndExecute(SmallRun({{"--set", "lru=" + lru},
                                                       {"--set", "engine.kind=threads"},
                                                       {"--set", "workload.mib=18"},
                                                       {"--set", "workload.sweeps=1"}}));
  CHECK(record.verdict() == "");
  CHECK(record.outcome.broken.empty());
  CHECK(Number(record, "pages_lost") == 0);
}

// Mutation tried, red: PutBack of the ring that queues no active pages. A task that does not wait
// for the others stays green.
TEST_CASE("lruscan: every page is taken and put back, and keeps its content", "[bench][lru]") {
  const std::string lru = AnyLru();
  CAPTURE(lru);
  LoadRequest request;
  request.machine = "tests";
  request.workload = "lruscan";
  request.sets = {{"--set", "lru=" + lru}, {"--set", "workload.batches=50"}};
  const auto config = LoadRunConfig(request, TreeContext());
  REQUIRE(config.ok());
  const RunRecord record = PrepareAndExecute(*config);
  CHECK(record.verdict() == "");
  CHECK(record.outcome.broken.empty());
  CHECK(Number(record, "tasks_finished") == 4);
  CHECK(Number(record, "pages_lost") == 0);
  CHECK(Number(record, "isolations_empty") == 0);
  if (lru != "clock") CHECK(Number(record, "pages_scanned") == 4 * 50 * 32);
  CHECK(Number(record, "pages_per_second") > 0);
  request.sets.push_back({"--set", "workload.mib=32"});
  auto greedy = LoadRunConfig(request, TreeContext());
  REQUIRE(greedy.ok());
  CHECK_FALSE(PrepareRun(*greedy).ok());
}

// The false OOM is isolation's: it needs no lock. With the clock the wall lies later; this load is
// beyond it on all three. Mutation tried, red: isolated_visible on the locked lists (nothing is
// isolated then; a kill so far out is a true one).
TEST_CASE("LRU designs: the storm ends in a false OOM on each of them", "[bench][lru][long]") {
  const std::string lru = AnyLru();
  CAPTURE(lru);
  LoadRequest request;
  request.config = SourceRoot() + "/configs/experiments/lru-designs-oom.toml";
  request.kernel = "2.6.26";
  request.sets = {{"--set", "lru=" + lru}, {"--set", "seed=1"}};
  const auto config = LoadRunConfig(request, TreeContext());
  REQUIRE(config.ok());
  const RunRecord storm = PrepareAndExecute(*config);
  CHECK(storm.outcome.broken.empty());
  CHECK(storm.oom_kills > 0);
  REQUIRE_FALSE(storm.ooms.empty());
  const auto& first = storm.ooms.front();
  CHECK(10 * first.isolated >= 8 * (first.isolated + first.lru));
}

// Mutations tried, red: row_sets read and not set; chart = false ignored.
TEST_CASE("reproduce lru-designs: columns with loads of their own, at a tiny length",
          "[bench][reproduce][lru]") {
  using namespace reproductions;
  auto loaded = LoadTable("lru-designs", TreeContext());
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  Table table = *std::move(loaded);
  REQUIRE(table.columns.size() >= 9);
  CHECK_FALSE(table.claims.empty());
  // Two columns of the table's load at 1 and 2 CPUs, and one of another's.
  const auto evict = std::find_if(table.columns.begin(), table.columns.end(),
                                  [](const Column& column) { return column.id == "evict-ring"; });
  REQUIRE(evict != table.columns.end());
  CHECK_FALSE(evict->drawn);
  Column other = *evict;
  other.rows = {1};
  other.sets.insert(other.sets.end(), {"workload.mib=2", "workload.tasks=2"});
  table.columns = {table.columns[0], table.columns[1], other};
  table.claims.clear();
  table.lengths[0] = {.rows = {0, 1}, .seeds = 1, .sets = {"workload.batches=20"}};
  const auto made = Reproduce(table, {.length = LengthKind::kQuick}, TreeContext());
  INFO(made.status().message());
  REQUIRE(made.ok());
  CHECK(made->troubles.empty());
  const auto value = [&](std::size_t column, std::size_t row, const char* metric) {
    const RunOutcome& run = made->runs.At({column, row}, 0);
    REQUIRE(run.end == RunOutcome::End::kFinished);
    return run.values[*FindMetric(metric)];
  };
  for (const std::size_t column : {0U, 1U}) {
    // Two CPUs pass more pages than one: the row has set the topology.
    CHECK(value(column, 1, "pages_per_s") > 1.2 * value(column, 0, "pages_per_s"));
  }
  CHECK(made->runs.At({2, 1}, 0).values[*FindMetric("swap_outs")] == 0);
  CHECK_FALSE(made->IsRun({2, 0}));
  const std::string chart = ReproductionSvg(*made);
  CHECK(chart.find("generation ring") != std::string::npos);
  CHECK(chart.find("eviction") == std::string::npos);
}

}  // namespace
}  // namespace pagestorm::bench
