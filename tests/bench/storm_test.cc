// The storm as a whole: the false OOM emerges from the mechanism, the throttle removes it, and
// taking away what makes it emerge makes it disappear. Virtual engine; the runs of a case are
// spread over the host's cores.
#include <algorithm>
#include <string>
#include <vector>

#include "core/executor.h"
#include "tests/bench/bench_support.h"
#include "tests/support/source_root.h"

namespace pagestorm::bench {
namespace {

struct Point {
  int groups;
  int seed;
};

struct Seen {
  std::int64_t kills = 0;
  std::int64_t isolated_permille =
      0;  // of the LRU: at the first kill, else when most were isolated
  std::int64_t reclaimable_permille = 0;  // of memory, isolated or not, at the first kill
  std::int64_t reclaimers = 0;
  std::int64_t lost = 0;
  std::string broken;
  std::uint64_t hash = 0;
};

RunConfig StormConfig(const Point& point, const std::string& kernel,
                      const std::vector<std::string>& sets) {
  LoadRequest request;
  request.config = SourceRoot() + "/configs/experiments/demo-virtual.toml";
  request.kernel = kernel;
  request.sets = {{"--set", "workload.groups=" + std::to_string(point.groups)},
                  {"--set", "seed=" + std::to_string(point.seed)}};
  for (const std::string& set : sets) request.sets.push_back({"--set", set});
  auto config = LoadRunConfig(request, TreeContext());
  INFO(config.status().message());
  REQUIRE(config.ok());
  REQUIRE(PrepareRun(*config).ok());
  return *std::move(config);
}

Seen Look(const RunRecord& record) {
  Seen seen;
  seen.kills = record.oom_kills;
  seen.isolated_permille = record.peaks.isolated_share_at_max_permille;
  if (!record.ooms.empty()) {
    const auto& first = record.ooms.front();
    seen.isolated_permille =
        1000 * first.isolated / std::max<std::int64_t>(1, first.isolated + first.lru);
    std::int64_t present = 0;
    for (const ZoneRecord& zone : record.zones) present += zone.present;
    seen.reclaimable_permille = 1000 * (first.isolated + first.lru) / present;
  }
  seen.reclaimers = record.peaks.reclaimers_max;
  for (const auto& [key, value] : record.workload.numbers) {
    if (key == "pages_lost") seen.lost = value;
  }
  seen.broken = record.outcome.broken;
  seen.hash = record.outcome.run.trace_hash;
  return seen;
}

// Every point once, on all host cores; results in the order of the points. After each run the
// machine must have lost nothing, whoever was killed.
std::vector<Seen> Storm(const std::vector<Point>& points, const std::string& kernel,
                        const std::vector<std::string>& sets = {}) {
  std::vector<RunConfig> configs;
  for (const Point& point : points) configs.push_back(StormConfig(point, kernel, sets));
  std::vector<Seen> seen(points.size());
  std::vector<std::string> errors(points.size());
  Executor executor;
  executor.Sweep(points.size(), [&](std::size_t i) {
    const auto record = ExecuteRun(configs[i], {});
    if (record.ok()) {
      seen[i] = Look(*record);
    } else {
      errors[i] = std::string(record.status().message());
    }
  });
  for (std::size_t i = 0; i < points.size(); ++i) {
    CAPTURE(kernel, points[i].groups, points[i].seed);
    CHECK(errors[i].empty());
    CHECK(seen[i].broken.empty());
    CHECK(seen[i].lost == 0);
  }
  return seen;
}

std::int64_t Killed(const std::vector<Seen>& seen) {
  return std::count_if(seen.begin(), seen.end(), [](const Seen& s) { return s.kills > 0; });
}

std::vector<Point> Points(const std::vector<int>& groups, int seeds) {
  std::vector<Point> points;
  for (const int g : groups) {
    for (int seed = 1; seed <= seeds; ++seed) points.push_back({g, seed});
  }
  return points;
}

// 24 seeds along the group counts, from below the wall to beyond it. Mutation tried: the gate lets
// everybody in (ThrottleGate::Enter returns at once) -> the throttled half sees kills.
TEST_CASE("Storm: the false OOM emerges without a throttle and never with limit 3",
          "[bench][long]") {
  const std::vector<Point> points = Points({110, 140, 146, 150}, 6);
  const std::vector<Seen> plain = Storm(points, "2.6.26");
  const std::vector<Seen> throttled = Storm(points, "2.6.26-throttle-v7");
  CHECK(Killed(throttled) == 0);
  CHECK(Killed({plain.begin(), plain.begin() + 6}) == 0);  // 110 groups fit
  CHECK(Killed({plain.end() - 6, plain.end()}) >= 4);      // 150 groups: beyond the wall
  for (std::size_t i = 0; i < points.size(); ++i) {
    CAPTURE(points[i].groups, points[i].seed);
    if (plain[i].kills > 0) {
      // False: nearly all that could be reclaimed was in private batches at that moment.
      CHECK(plain[i].isolated_permille >= 800);
      CHECK(plain[i].reclaimers > 300);
    }
    CHECK(throttled[i].isolated_permille <= 50);
    CHECK(throttled[i].reclaimers <= 9);  // 3 a zone
  }
}

// Ablation: what makes reclaimers keep their batches. Without sleeping for a request and without
// being preempted while they hold isolated pages, few pages are isolated at any time and nobody is
// killed.
TEST_CASE("Storm: reclaimers that neither sleep nor lose the CPU with isolated pages kill nobody",
          "[bench][long]") {
  const std::vector<Seen> seen =
      Storm(Points({146}, 4), "2.6.26",
            {"reclaim.submission_blocks=false", "reclaim.resched_while_isolating=false"});
  CHECK(Killed(seen) == 0);
  for (const Seen& run : seen) CHECK(run.isolated_permille < 500);
}

// Ablation: what isolation takes away. With isolated pages left on the lists a reclaimer always
// finds something to scan, naps while it makes no progress, and lives to see writes complete. The
// swap storm stays: OOM and slow-down are two effects. A storm that survives so far may later fill
// the memory with queued messages: that kill is a true one, with hardly a reclaimable page left.
// Mutation tried: batches that pin what they name, as isolated pages are -> every run ends in a
// kill with a third of memory reclaimable.
TEST_CASE("Storm: with isolated pages left visible on the lists nobody is killed by mistake",
          "[bench][long]") {
  const std::vector<Seen> seen =
      Storm(Points({140, 146}, 3), "2.6.26", {"reclaim.isolated_visible=true"});
  CHECK(Killed(seen) <= 1);
  for (const Seen& run : seen) {
    if (run.kills > 0) CHECK(run.reclaimable_permille < 60);
  }
}

// The same storm twice at once on different host threads: same events.
TEST_CASE("Storm: results do not depend on what runs beside them", "[bench][long]") {
  const std::vector<Seen> seen = Storm({{150, 3}, {150, 3}, {140, 1}}, "2.6.26");
  CHECK(seen[0].hash == seen[1].hash);
  CHECK(seen[0].hash != seen[2].hash);
}

}  // namespace
}  // namespace pagestorm::bench
