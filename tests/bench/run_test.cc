#include "bench/experiments/run.h"

#include "bench/experiments/report_text.h"
#include "bench/experiments/result_json.h"
#include "bench/experiments/run_directory.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

TEST_CASE("ExecuteRun: a press that fits finishes with every page as it was written",
          "[bench][run]") {
  const RunRecord record = Execute(SmallRun());
  CHECK(record.exit_code() == kExitDone);
  CHECK(record.verdict().empty());
  CHECK(record.outcome.broken.empty());
  CHECK(Number(record, "tasks_finished") == 4);  // one a CPU
  CHECK(Number(record, "pages_written") == 4 * 1024);
  CHECK(Number(record, "pages_lost") == 0);
  CHECK(record.outcome.run.emulated.n > 0);
}

TEST_CASE("ExecuteRun: a press beyond memory swaps and loses nothing", "[bench][run]") {
  const RunRecord record = Execute(SmallRun(
      {{"--set", "workload.mib=20"}, {"--set", "workload.sweeps=2"}, {"--set", "sample_ms=50"}}));
  CAPTURE(record.verdict());
  CHECK(record.exit_code() == kExitDone);
  CHECK(Number(record, "pages_lost") == 0);
  CHECK_FALSE(record.samples.empty());
  CHECK(record.samples.back().pswpout > 0);
}

TEST_CASE("ExecuteRun: the same seed leaves the same bytes, another seed others", "[bench][run]") {
  const std::vector<Setting> sets{{"--set", "workload.mib=18"}, {"--set", "sample_ms=100"}};
  const RunConfig config = SmallRun(sets);
  const RunRecord one = Execute(config);
  const RunRecord two = Execute(config);
  CHECK(ResultJson(one) == ResultJson(two));
  CHECK(ReportText(one) == ReportText(two));
  CHECK(one.dmesg == two.dmesg);
  REQUIRE(one.files_after.size() == two.files_after.size());
  for (std::size_t i = 0; i < one.files_after.size(); ++i) {
    CHECK(one.files_after[i].path == two.files_after[i].path);
    CHECK(one.files_after[i].text == two.files_after[i].text);
  }
  RunConfig other = config;
  other.seed = 2;
  CHECK(Execute(other).outcome.run.trace_hash != one.outcome.run.trace_hash);
}

TEST_CASE("ExecuteRun: with a limit of 0 everybody hangs at the gate, and the report says so",
          "[bench][run]") {
  const RunRecord record = Execute(SmallRun(
      {{"--set", "throttle.limit=0"}, {"--set", "workload.mib=20"}}, "2.6.26-throttle-v7"));
  CHECK(record.exit_code() == kExitStalled);
  CHECK(record.outcome.run.end == RunEnd::kStalled);
  CHECK(record.outcome.run.stall_report.find("throttle") != std::string::npos);
  CHECK(record.outcome.broken.empty());
}

TEST_CASE("ExecuteRun: a limit written while the machine runs counts from then on",
          "[bench][run]") {
  // As in the kernel the write wakes nobody: it has to come before everybody hangs.
  RunConfig config =
      SmallRun({{"--set", "throttle.limit=0"}, {"--set", "workload.mib=20"}}, "2.6.26-throttle-v7");
  config.sysctls = {{kMillisecond.n, "vm.max_nr_task_per_zone", 3}};
  const RunRecord record = Execute(config);
  CAPTURE(record.verdict());
  CHECK(record.exit_code() == kExitDone);
  config.sysctls.push_back({100 * kMillisecond.n, "vm.max_nr_task_per_zone", 0});
  CHECK(Execute(config).exit_code() == kExitStalled);
}

TEST_CASE("ExecuteRun: a run that is interrupted keeps what it has", "[bench][run]") {
  const std::atomic<bool> interrupted{true};
  const auto record = ExecuteRun(SmallRun({{"--set", "workload.mib=20"}}),
                                 {.progress = false, .interrupted = &interrupted});
  REQUIRE(record.ok());
  CHECK(record->exit_code() == kExitInterrupted);
  CHECK(record->partial);
  CHECK(ResultJson(*record).find("\"partial\": true") != std::string::npos);
}

TEST_CASE("ExecuteRun: a machine without swap that cannot hold its tasks kills some and goes on",
          "[bench][run]") {
  const RunRecord record =
      Execute(SmallRun({{"--set", "swap.mib=0"}, {"--set", "workload.mib=24"}}));
  CAPTURE(record.verdict());
  CHECK(record.exit_code() == kExitDone);
  CHECK(record.oom_kills > 0);
  CHECK(Number(record, "tasks_killed") > 0);
  CHECK(record.dmesg.find("Killed process") != std::string::npos);
}

TEST_CASE("PrepareRun: more processes than a page can count as sharers are refused in one line",
          "[bench][run]") {
  RunConfig config = SmallRun({{"--set", "workload.tasks=60000"}});
  const std::string line(PrepareRun(config).message());
  CHECK(line.find("60001 processes that share a page: allowed are less than 60000") !=
        std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("ExecuteRun: what a boot cannot do is bad input", "[bench][run]") {
  RunConfig config = SmallRun();
  config.sysctls = {{0, "vm.nonsense", 1}};
  const auto record = ExecuteRun(config, {});
  REQUIRE_FALSE(record.ok());
  CHECK(std::string(record.status().message()).find("vm.min_free_kbytes") != std::string::npos);
  config.sysctls = {{0, "vm.min_free_kbytes", INT64_MAX}};
  CHECK_FALSE(ExecuteRun(config, {}).ok());
  const auto swap = ExecuteRun(SmallRun({{"--set", "swap.mib=4294967296"}}), {});
  REQUIRE_FALSE(swap.ok());
  CHECK(std::string(swap.status().message()).find("swap.mib = 4294967296") != std::string::npos);
}

TEST_CASE("ExecuteRun: a limit that 32 bits do not hold is bad input", "[bench][run]") {
  RunConfig config = SmallRun({}, "2.6.26-throttle-v7");
  config.sysctls = {{0, "vm.max_nr_task_per_zone", std::int64_t{1} << 32}};
  CHECK_FALSE(ExecuteRun(config, {}).ok());
  config.sysctls = {{0, "vm.max_nr_task_per_zone", INT32_MAX}};
  CHECK(ExecuteRun(config, {}).ok());
}

TEST_CASE("ExecuteRun: without stamps in the frames no page counts as lost", "[bench][run]") {
  const RunRecord press =
      Execute(SmallRun({{"--set", "stamps=false"}, {"--set", "workload.sweeps=2"}}));
  CHECK(press.verdict().empty());
  CHECK(Number(press, "pages_lost") == 0);
}

TEST_CASE("ExecuteRun: a panic that was asked for is not called a lack of victims",
          "[bench][run]") {
  const RunRecord record = Execute(SmallRun(
      {{"--set", "oom.panic_on_oom=1"}, {"--set", "swap.mib=0"}, {"--set", "workload.mib=40"}}));
  CHECK(record.exit_code() == kExitStalled);
  CHECK(record.verdict().find("panic") != std::string::npos);
  CHECK(record.dmesg.find("panic_on_oom is selected") != std::string::npos);
}

TEST_CASE("RunDirectory: holds everything, and its config.toml repeats the run", "[bench][run]") {
  const Scratch scratch;
  const RunConfig config = SmallRun();
  const RunRecord record = Execute(config);
  {
    auto directory = RunDirectory::Claim(scratch.Path("run"), false);
    REQUIRE(directory.ok());
    REQUIRE(directory->Publish(record, "text\n").ok());
  }
  for (const char* name : {"result.json", "host.json", "config.toml", "topology.xml",
                           "source-topology.xml", "dmesg", "stdout"}) {
    CAPTURE(name);
    CHECK(std::filesystem::exists(scratch.Path(std::string("run/") + name)));
  }
  LoadRequest request;
  request.config = scratch.Path("run/config.toml");
  const auto again = LoadRunConfig(request, TreeContext());
  INFO(again.status().message());
  REQUIRE(again.ok());
  CHECK(ResultJson(Execute(*again)) == ReadFile(scratch.Path("run/result.json")));
}

TEST_CASE("RunDirectory: replaces only a run directory, and only when told", "[bench][run]") {
  const Scratch scratch;
  scratch.Write("run/result.json", "{}");
  scratch.Write("letters/dear-diary", "x");
  CHECK_FALSE(RunDirectory::Claim(scratch.Path("run"), false).ok());
  CHECK(RunDirectory::Claim(scratch.Path("run"), true).ok());
  CHECK_FALSE(RunDirectory::Claim(scratch.Path("letters"), true).ok());
  CHECK_FALSE(RunDirectory::Claim("/proc/nowhere/run", false).ok());
  CHECK(std::filesystem::exists(scratch.Path("run/result.json")));  // nothing was published
}

}  // namespace
}  // namespace pagestorm::bench
