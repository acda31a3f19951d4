// Memory cgroups as a user sets them up: configuration, workloads, what a run leaves.
#include <nlohmann/json.hpp>

#include "bench/config/cgroups.h"
#include "bench/config/effective.h"
#include "bench/experiments/report_text.h"
#include "bench/experiments/result_json.h"
#include "mm/memcg.h"
#include "tests/bench/bench_support.h"
#include "tests/bench/program.h"

namespace pagestorm::bench {
namespace {

using Json = nlohmann::json;

RunRecord ExecuteWhole(const RunConfig& config) {
  RunRecord record = Execute(config);
  CHECK(record.outcome.broken == "");
  return record;
}

std::string Complaint(const std::vector<Setting>& sets) {
  LoadRequest request;
  request.machine = "tests";
  request.sets = sets;
  auto config = LoadRunConfig(request, TreeContext());
  if (!config.ok()) return std::string(config.status().message());
  return std::string(PrepareRun(*config).message());
}

std::int64_t Lost(const RunRecord& record) {
  for (const auto& [key, value] : record.workload.numbers) {
    if (key == "pages_lost") return value;
  }
  return -1;
}

// Mutations tried, red: the complaints of CgroupsOf() left out: a share below a page, the parent,
// count with groups, total_limit_mib with limit_mib, a limit without a group, what
// MemCgroups::Check() says; its call in ValidateRunConfig() left out.
TEST_CASE("Cgroups: what cannot be is said in one line", "[bench][memcg]") {
  CHECK(Complaint({{"--set", "cgroup.count=2"}, {"--set", "cgroup.limit_mib=8"}}) == "");
  CHECK(Complaint({{"--set", "cgroup.count=2"}, {"--set", "cgroup.limit_mib=0"}}) ==
        "--set: cgroup.limit_mib = 0: allowed: 1..4294967296");
  CHECK(Complaint({{"--set", "cgroup.count=2"}, {"--set", "cgroup.limit_mib=-3"}}) ==
        "--set: cgroup.limit_mib = -3: allowed: 1..4294967296");
  CHECK(Complaint({{"--set", "cgroup.count=-1"}}).find("cgroup.count = -1") != std::string::npos);
  CHECK(Complaint({{"--set", "cgroup.limit_mib=8"}}).find("without a group") != std::string::npos);
  CHECK(Complaint({{"--set", "cgroup.count=4000"}, {"--set", "cgroup.total_limit_mib=1"}})
            .find("less than a page") != std::string::npos);
  CHECK(Complaint({{"--set", "cgroup.count=2"},
                   {"--set", "cgroup.total_limit_mib=8"},
                   {"--set", "cgroup.limit_mib=4"}})
            .find("contradicts") != std::string::npos);
  // A parent below the sum of its children is no mistake.
  CHECK(Complaint({{"--set", "cgroup.count=2"},
                   {"--set", "cgroup.limit_mib=8"},
                   {"--set", "cgroup.parent_limit_mib=10"}}) == "");
  const auto groups = [](const std::string& list) {
    return Complaint({{"--set", "cgroup.groups=" + list}});
  };
  CHECK(groups(R"([{ name = "a", limit_mib = 8 }, { name = "b", parent = "a", limit_mib = 9 }])") ==
        "");
  CHECK(groups(R"([{ name = "b", parent = "a", limit_mib = 8 }])") ==
        "cgroup.groups: \"b\": parent = \"a\": allowed: the name of a group before it");
  CHECK(groups(R"([{ name = "a", limit_mib = 8 }, { name = "a", limit_mib = 8 }])")
            .find("two of that name") != std::string::npos);
  CHECK(groups(R"([{ name = "a", limit_mib = 0 }])").find("allowed: a list of") !=
        std::string::npos);
  CHECK(groups(R"([{ name = "a/b", limit_mib = 1 }])").find("allowed in a name") !=
        std::string::npos);
  CHECK(Complaint({{"--set", "cgroup.count=1"},
                   {"--set", R"(cgroup.groups=[{ name = "a", limit_mib = 8 }])"}})
            .find("contradicts") != std::string::npos);
}

// Mutations tried, red: the limit not divided by machine.scale; total_limit_mib not divided.
TEST_CASE("Cgroups: limits are in MiB before scaling, and a total is divided", "[bench][memcg]") {
  RunConfig config = SmallRun({{"--set", "cgroup.count=4"},
                               {"--set", "cgroup.total_limit_mib=32"},
                               {"--set", "cgroup.parent_limit_mib=16"}});
  auto specs = CgroupsOf(config);
  REQUIRE(specs.ok());
  REQUIRE(specs->size() == 5);
  CHECK((*specs)[0].name == "all");
  CHECK((*specs)[0].limit.n == 4096);
  CHECK((*specs)[4].name == "g3");
  CHECK((*specs)[4].parent == 0);
  CHECK((*specs)[4].limit.n == 2048);
  config.machine.scale = 2;
  specs = CgroupsOf(config);
  REQUIRE(specs.ok());
  CHECK((*specs)[4].limit.n == 1024);
  config.cgroup = {.count = 1};
  specs = CgroupsOf(config);
  REQUIRE(specs.ok());
  CHECK((*specs)[0].limit == mm::kNoLimit);
}

// Mutations tried, red: JoinCgroup() left out of the workload (usage 0); all tasks in the first
// group.
TEST_CASE("Cgroups: a press over two groups stays within their limits and loses nothing",
          "[bench][memcg]") {
  const std::string lru = GENERATE("zone", "per_cgroup");
  const RunConfig config = SmallRun({{"--set", "workload.mib=6"},
                                     {"--set", "workload.sweeps=2"},
                                     {"--set", "cgroup.count=2"},
                                     {"--set", "cgroup.limit_mib=4"},
                                     {"--set", "memcg.lru=" + lru}});
  const RunRecord record = Execute(config);
  CAPTURE(record.verdict());
  CHECK(record.exit_code() == kExitDone);
  CHECK(Lost(record) == 0);
  CHECK(record.oom_kills == 0);
  REQUIRE(record.cgroups.size() == 2);
  std::int64_t left = 0;
  for (const CgroupRecord& group : record.cgroups) {
    CHECK(group.limit == 1024);
    CHECK(group.max_usage == 1024);
    left += group.usage;
    CHECK(group.failcnt > 0);
    CHECK(group.reclaimed > 2000);
    CHECK(group.kills == 0);
  }
  // Pages that were being written when their task exited stay in the swap cache, as in the kernel.
  for (const auto& [key, value] : record.after) {
    if (key == "nr_file_pages") CHECK(left <= value);
  }
  CHECK(record.cgroups[1].path == "/g1");
  const Json json = Json::parse(ResultJson(record));
  CHECK(json["cgroups"][0]["path"] == "/g0");
  CHECK(json["cgroups"][0]["limit_pages"] == 1024);
  CHECK(json["config"]["cgroup.count"] == 2);
  CHECK(ReportText(record).find("cgroups: 2, 2 of them at their limit once") != std::string::npos);
  const auto file =
      std::find_if(record.files_after.begin(), record.files_after.end(),
                   [](const TextFile& f) { return f.path == "cgroup/g0/memory.limit_in_bytes"; });
  REQUIRE(file != record.files_after.end());
  CHECK(file->text == "4194304\n");

  // The same again, from the expanded configuration too.
  CHECK(ResultJson(ExecuteWhole(config)) == ResultJson(record));
  const std::string toml = EffectiveToml(config, "x");
  CHECK(toml.find("[cgroup]\ncount = 2") != std::string::npos);
}

TEST_CASE("Cgroups: every workload spreads its tasks", "[bench][memcg]") {
  const std::string lru = GENERATE("zone", "per_cgroup");
  const auto run = [&](const std::string& workload, std::vector<Setting> sets) {
    LoadRequest request;
    request.machine = "tests";
    request.workload = workload;
    request.sets = std::move(sets);
    request.sets.push_back({"--set", "cgroup.count=2"});
    request.sets.push_back({"--set", "memcg.lru=" + lru});
    auto config = LoadRunConfig(request, TreeContext());
    INFO(config.status().message());
    REQUIRE(config.ok());
    REQUIRE(PrepareRun(*config).ok());
    const RunRecord record = ExecuteWhole(*config);
    CAPTURE(workload, record.verdict());
    CHECK(record.exit_code() == kExitDone);
    CHECK(Lost(record) == 0);
    REQUIRE(record.cgroups.size() == 2);
    CHECK(record.cgroups[0].max_usage > 0);
    CHECK(record.cgroups[1].max_usage > 0);
  };
  run("hackbench",
      {{"--set", "workload.groups=2"}, {"--set", "workload.fan=3"}, {"--set", "workload.loops=5"}});
  run("filestorm", {{"--set", "workload.read_mib=4"},
                    {"--set", "workload.write_mib=2"},
                    {"--set", "cgroup.limit_mib=8"}});
  run("soak", {{"--set", "workload.seconds=1"},
               {"--set", "workload.tasks=4"},
               {"--set", "cgroup.limit_mib=4"}});
}

// Mutation tried, red: cgroups built for every machine (the hashes differ).
TEST_CASE("Cgroups: a machine without them runs as it always did", "[bench][memcg]") {
  const RunConfig plain = SmallRun({{"--set", "workload.mib=20"}});
  const RunConfig other =
      SmallRun({{"--set", "workload.mib=20"}, {"--set", "memcg.lru=per_cgroup"}});
  const RunRecord one = ExecuteWhole(plain);
  const RunRecord two = ExecuteWhole(other);
  CHECK(one.outcome.run.trace_hash == two.outcome.run.trace_hash);
  CHECK(one.cgroups.empty());
  CHECK(ResultJson(one).find("\"cgroups\"") == std::string::npos);
  CHECK(ReportText(one).find("cgroups") == std::string::npos);
}

// Groups without a limit change where pages are counted, not who is reclaimed.
TEST_CASE("Cgroups: without limits global reclaim is the only one", "[bench][memcg]") {
  const std::string lru = GENERATE("zone", "per_cgroup");
  const RunRecord record = ExecuteWhole(SmallRun(
      {{"--set", "workload.mib=20"}, {"--set", "cgroup.count=3"}, {"--set", "memcg.lru=" + lru}}));
  CHECK(record.exit_code() == kExitDone);
  CHECK(Lost(record) == 0);
  for (const CgroupRecord& group : record.cgroups) CHECK(group.reclaims == 0);
}

TEST_CASE("pagestorm: a bad cgroup is one line and exit code 2", "[bench][memcg][cli]") {
  if (Program() == nullptr) return;
  for (const char* arguments :
       {"--set cgroup.count=2 --set cgroup.limit_mib=0",
        "--set cgroup.groups='[{name=\"b\",parent=\"a\",limit_mib=1}]'", "--set cgroup.count=-2"}) {
    const Output output = Call(std::string("run --workload press --machine tests -q ") + arguments);
    CAPTURE(arguments, output.text);
    CHECK(output.code == 2);
    CHECK(std::count(output.text.begin(), output.text.end(), '\n') == 1);
  }
}

}  // namespace
}  // namespace pagestorm::bench
