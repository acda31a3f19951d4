// `pagestorm compare`: run directories in, tables out. Directories are made by hand where figures
// matter, and by the program where the way from one to the other does.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/compare/column.h"
#include "bench/compare/comparison.h"
#include "fmt/format.h"
#include "tests/bench/bench_support.h"
#include "tests/bench/program.h"

namespace pagestorm::bench {
namespace {

using Json = nlohmann::json;

// A run of hackbench as its directory holds it; tests change what they are about.
Json Result(std::int64_t seed, std::int64_t time_ns) {
  return {{"schema", "pagestorm.run"},
          {"schema_version", 1},
          {"pagestorm", "0.1.0"},
          {"kernel", "2.6.26"},
          {"engine", "virtual"},
          {"seed", seed},
          {"machine", {{"name", "tests"}}},
          {"exit_code", 0},
          {"verdict", ""},
          {"partial", false},
          {"oom", {{"kills", 0}}},
          {"workload",
           {{"name", "hackbench"},
            {"numbers", {{"groups", 10}, {"time_ns", time_ns}, {"fork_ns", 500'000'000}}}}},
          {"cpu_ns", {{"user", 1'250'000'000}, {"system", 3'500'000'000}, {"idle", 0}}},
          {"main_end_ns", 2'000'000'000},
          {"emulated_ns", 9'000'000'000},
          {"zones", {{{"node", 0}, {"zone", "DMA"}}, {{"node", 0}, {"zone", "DMA32"}}}},
          {"config", {{"seed", seed}, {"throttle.gate", "none"}, {"machine.name", "tests"}}}};
}

void WriteRun(const Scratch& scratch, const std::string& directory, const Json& result) {
  scratch.Write(directory + "/result.json", result.dump());
  scratch.Write(directory + "/before/proc/vmstat", "pgfault 100\npgscan_kswapd_dma 10\n");
  scratch.Write(directory + "/proc/vmstat",
                "pgfault 150\npgmajfault 20\npgscan_kswapd_dma 110\nkswapd_steal 40\n");
}

Json Patched(Json result, const Json& patch) {
  result.merge_patch(patch);
  return result;
}

Json Killed(const Json& result) { return Patched(result, {{"oom", {{"kills", 2}}}}); }

// Two columns, "2.6.26" and "2.6.26-throttle", of three and four runs. One of the first was killed.
void WriteTwoColumns(const Scratch& scratch) {
  WriteRun(scratch, "2.6.26/seed-1", Result(1, 4'000'000'000));
  WriteRun(scratch, "2.6.26/seed-2", Result(2, 6'000'000'000));
  WriteRun(scratch, "2.6.26/seed-3", Killed(Result(3, 90'000'000'000)));
  const Json throttled{{"kernel", "2.6.26-throttle-v7"},
                       {"config", {{"throttle.gate", "throttle"}}}};
  for (std::int64_t seed = 1; seed <= 4; ++seed) {
    WriteRun(scratch, fmt::format("2.6.26-throttle/seed-{}", seed),
             Patched(Result(seed, 1'000'000'000 + seed * 100'000'000), throttled));
  }
}

Comparison TwoColumns(const Scratch& scratch) {
  WriteTwoColumns(scratch);
  auto columns = ReadColumns({scratch.Path("2.6.26"), scratch.Path("2.6.26-throttle")}, "");
  INFO(columns.status().message());
  REQUIRE(columns.ok());
  return Compare(*std::move(columns));
}

TEST_CASE("Compare: mmtests' layout from run directories", "[bench][compare][golden]") {
  const Scratch scratch;
  const std::string text = MmtestsText(TwoColumns(scratch), {Compat::k2017, true});
  const std::string head = text.substr(0, text.find("Major Faults"));
  CHECK(head == std::string(R"(
                                2.6.26                2.6.26
                                                    throttle
Min      elapsed        4.00 (  0.00%)        1.10 ( 72.50%)
Min      fork           0.50 (  0.00%)        0.50 (  0.00%)
Amean    elapsed        5.00 (  0.00%)        1.25 ( 75.00%)
Amean    fork           0.50 (  0.00%)        0.50 (  0.00%)
Stddev   elapsed        1.00 (  0.00%)        0.11 ( 88.82%)
Stddev   fork           0.00 (  0.00%)        0.00 (  0.00%)
CoeffVar elapsed       20.00 (  0.00%)        8.94 ( 55.28%)
CoeffVar fork           0.00 (  0.00%)        0.00 (  0.00%)
Max      elapsed        6.00 (  0.00%)        1.40 ( 76.67%)
Max      fork           0.50 (  0.00%)        0.50 (  0.00%)

             2.6.26      2.6.26
                       throttle
User           1.25        1.25
System         3.50        3.50
Elapsed        2.00        2.00

                                2.6.26      2.6.26
                                          throttle
Minor Faults                        30          30
)")
                    .substr(1));
  CHECK(text.find("Kswapd efficiency                  40%         40%\n") != std::string::npos);
  CHECK(text.find("Kswapd velocity                 50.000      50.000\n") != std::string::npos);
}

TEST_CASE("Compare: intervals, tests, seeds and OOM kills below the tables",
          "[bench][compare][golden]") {
  const Scratch scratch;
  const std::string text = ComparisonText(TwoColumns(scratch), {});
  // t(1) = 12.7062, t(3) = 3.18245, t(1.0083) = 12.46; standard deviations sqrt(2) and sqrt(1/60).
  // Of 15 arrangements of 2 and 4 values, 2 are as extreme as this one.
  CHECK(text.substr(text.find("\nelapsed"), text.find("\nfork") - text.find("\nelapsed")) == R"(
elapsed [s], lower is better
  column             n           mean    95 % interval of the mean     - baseline                95 % interval   Welch p     M-W p verdict
  2.6.26             2         5.0000           [-7.7062, 17.7062]
  2.6.26-throttle    4         1.2500             [1.0446, 1.4554]        -3.7500           [-16.2363, 8.7363]     0.165     0.133 undecided
)");
  CHECK(text.substr(text.find("\nruns"), text.find("\nknobs") - text.find("\nruns")) == R"(
runs
  column          kernel              OOM kill        95 % interval    failed  seeds
  2.6.26          2.6.26                   1/3        0.8 .. 90.6 %       0/3  1-3
  2.6.26-throttle 2.6.26-throttle-v7       0/4        0.0 .. 60.2 %       0/4  1-4
)");
  CHECK(text.find("\n  throttle.gate = \"none\" | \"throttle\"\n") != std::string::npos);
  CHECK(text.find("note: 2.6.26: 1 of 3 runs left out: 1 with an OOM kill") != std::string::npos);
  CHECK(text.find("note: 2.6.26-throttle: 4 runs; conclusions need 5") != std::string::npos);
  CHECK(text.find("THP") == std::string::npos);  // rows of zeros
}

TEST_CASE("Compare: JSON, CSV and mmtests' extraction hold the same figures", "[bench][compare]") {
  const Scratch scratch;
  const Comparison comparison = TwoColumns(scratch);
  const Json json = Json::parse(ComparisonJson(comparison));
  CHECK(json["schema"] == "pagestorm.compare");
  CHECK(json["columns"][0]["oom"] == 1);
  CHECK(json["columns"][1]["seeds"] == Json({1, 2, 3, 4}));
  CHECK(json["metrics"][0]["name"] == "elapsed");
  CHECK(json["metrics"][0]["columns"][0]["values"] == Json({4.0, 6.0}));
  CHECK(json["metrics"][0]["columns"][1]["percent_better"] == 75);
  CHECK(json["metrics"][0]["columns"][1]["against_baseline"]["difference"] == -3.75);
  CHECK(json["vmstat"]["Kswapd velocity"] == Json({50.0, 50.0}));
  CHECK(json["knobs"]["throttle.gate"] == Json({"none", "throttle"}));
  const std::string csv = ComparisonCsv(comparison);
  CHECK(csv.find("\nmetric,mean,elapsed,s,2.6.26-throttle,1.25,75\n") != std::string::npos);
  CHECK(csv.find("\nruns,oom,,,2.6.26,1,\n") != std::string::npos);
  const std::string tsv = ExtractionTsv(comparison);
  CHECK(tsv.rfind("elapsed\t10\t_\t1\t4\t_\nelapsed\t10\t_\t2\t6\t_\n", 0) == 0);
}

TEST_CASE("Compare: a column without survivors shows what its runs did, and no time",
          "[bench][compare]") {
  const Scratch scratch;
  WriteRun(scratch, "storm/seed-1", Killed(Result(1, 4'000'000'000)));
  WriteRun(scratch, "storm/seed-2", Patched(Result(2, -1), {{"exit_code", 3}, {"verdict", "x"}}));
  auto columns = ReadColumns({scratch.Path("storm")}, "");
  REQUIRE(columns.ok());
  CHECK(columns->front().failures() == 1);
  const Comparison comparison = Compare(*std::move(columns));
  CHECK(comparison.metrics.front().columns.front().sample.empty());
  CHECK(comparison.durations.front().system == 3.5);
  CHECK(ComparisonText(comparison, {}).find("storm: no run counts") != std::string::npos);
  CHECK(Json::parse(ComparisonJson(comparison))["metrics"][0]["columns"][0]["mean"].is_null());
}

TEST_CASE("MetricsOf: known workloads by their table, others by the names of their numbers",
          "[bench][compare]") {
  CHECK(MetricsOf("press", {}).front().better == Better::kHigher);
  const WorkloadNumbers numbers{
      {"b_ns", 2'500'000'000}, {"ops_per_second", 7}, {"wait_ns_p99", 1500}, {"tasks", 4}};
  const std::vector<Metric> guessed = MetricsOf("novel", numbers);
  REQUIRE(guessed.size() == 3);
  CHECK(ValueOf(guessed[0], numbers) == 2.5);
  CHECK(guessed[1].better == Better::kHigher);
  CHECK(ValueOf(guessed[2], numbers) == 1.5);
  CHECK_FALSE(ValueOf(guessed[0], {{"b_ns", -1}}));
  // A rate over a time of its own.
  const WorkloadNumbers storm{{"pages_read", 300}, {"elapsed_ns", 1'500'000'000}};
  CHECK(ValueOf(MetricsOf("filestorm", {}).front(), storm) == 200);
}

// Directories that compare refuses, and a part of its one line.
struct Refused {
  const char* arguments;  // @ stands for the scratch directory
  const char* part;
};
const Refused kRefused[] = {
    {"", "dirs"},
    {"@nowhere", "nowhere: no such directory"},
    {"@a/seed-1/result.json", "result.json: is no directory"},
    {"@empty", "no result.json in it, and no seed-N"},
    {"@both", "both seed-N and iter-N"},
    {"@corrupt", "corrupt/result.json: is no JSON"},
    {"@other", "other/result.json: is no result of a run"},
    {"@future", "schema_version = 2"},
    {"@bare", "bare/result.json: is not as documented: key 'pagestorm'"},
    {"@halfway", "halfway/before/proc/vmstat: no such file"},
    {"@garbled", "garbled/proc/vmstat:1: \"pgfault\" is no name and number"},
    {"@gap", "gap/seed-2/result.json: no such file"},
    {"@machines", "machines/seed-2: is no repeat of"},
    {"@machines", "machine is abacus, not tests"},
    {"@workloads", "workload is press, not hackbench"},
    {"@knobs", "throttle.gate is \"throttle\", not \"none\""},
    {"@twice", "has seed 1 as"},
    {"@a @a/", "is given twice"},
    {"@a @press", "ran press"},
    {"@a --baseline b", "--baseline: \"b\" is no column: a"},
    {"@a --format pdf", "--format"},
    {"@a --compat 2015", "--compat"},
    {"@a --format json --compat 2013", "--compat 2013"},
    {"@a @c --format tsv", "one directory"},
};

void WriteRefused(const Scratch& scratch) {
  const Json good = Result(1, 1'000'000'000);
  const Json second = Result(2, 1'000'000'000);
  for (const char* column : {"a", "c", "machines", "workloads", "knobs", "twice", "gap"}) {
    WriteRun(scratch, std::string(column) + "/seed-1", good);
  }
  scratch.Write("empty/notes", "");
  scratch.Write("both/seed-1/x", "");
  scratch.Write("both/iter-0/x", "");
  scratch.Write("gap/seed-2/config.toml", "");
  scratch.Write("corrupt/result.json", good.dump().substr(0, 100));
  scratch.Write("other/result.json", "{\"schema\": \"tea\"}");
  scratch.Write("future/result.json", Patched(good, {{"schema_version", 2}}).dump());
  scratch.Write("bare/result.json", R"({"schema": "pagestorm.run", "schema_version": 1})");
  scratch.Write("halfway/result.json", good.dump());
  WriteRun(scratch, "garbled", good);
  scratch.Write("garbled/proc/vmstat", "pgfault\n");
  WriteRun(scratch, "machines/seed-2", Patched(second, {{"machine", {{"name", "abacus"}}}}));
  WriteRun(scratch, "workloads/seed-2", Patched(second, {{"workload", {{"name", "press"}}}}));
  WriteRun(scratch, "knobs/seed-2", Patched(second, {{"config", {{"throttle.gate", "throttle"}}}}));
  WriteRun(scratch, "twice/seed-2", good);
  WriteRun(scratch, "press", Patched(good, {{"workload", {{"name", "press"}}}}));
}

TEST_CASE("pagestorm compare: bad input is one line and exit code 2", "[bench][compare][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  WriteRefused(scratch);
  for (const Refused& refused : kRefused) {
    std::string arguments = "compare ";
    for (const char* c = refused.arguments; *c != 0; ++c) {
      arguments += *c == '@' ? scratch.Path("") : std::string(1, *c);
    }
    CAPTURE(arguments);
    const Output output = Call(arguments);
    CAPTURE(output.text);
    CHECK(output.code == 2);
    CHECK(output.text.find(refused.part) != std::string::npos);
    CHECK(std::count(output.text.begin(), output.text.end(), '\n') == 1);
  }
}

TEST_CASE("ReadColumn: the threads engine's repeats of one seed are runs of their own",
          "[bench][compare]") {
  const Scratch scratch;
  const Json threads = Patched(Result(1, 1'000'000'000), {{"engine", "threads"}});
  for (const char* run : {"iter-0", "iter-1", "iter-10"}) {
    WriteRun(scratch, std::string("t/") + run, threads);
  }
  const auto column = ReadColumn(scratch.Path("t"));
  REQUIRE(column.ok());
  REQUIRE(column->runs.size() == 3);
  CHECK(column->runs.back().path == scratch.Path("t/iter-10"));  // by number
}

TEST_CASE("ReadColumns: names are as short as they may be, the baseline comes first",
          "[bench][compare]") {
  const Scratch scratch;
  for (const char* run : {"x/run", "y/run", "z"}) WriteRun(scratch, run, Result(1, 1));
  const std::vector<std::string> directories{scratch.Path("x/run"), scratch.Path("y/run"),
                                             scratch.Path("z/")};
  const auto columns = ReadColumns(directories, "y/run");
  REQUIRE(columns.ok());
  CHECK((*columns)[0].name == "y/run");
  CHECK((*columns)[1].name == "x/run");
  const auto alone = ReadColumns({scratch.Path("z/")}, "z");
  REQUIRE(alone.ok());
  CHECK(alone->front().name == "z");
}

TEST_CASE("pagestorm compare: of runs that the program made", "[bench][compare][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  const std::string run =
      "run --workload press --machine tests -q --set workload.mib=18 --repeat 2 --out ";
  REQUIRE(Call(run + scratch.Path("2.6.26-plain")).code == 0);
  REQUIRE(Call(run + scratch.Path("2.6.26-gate") + " --kernel 2.6.26-throttle-v7").code == 0);
  const std::string both = "compare " + scratch.Path("2.6.26-gate ") +
                           scratch.Path("2.6.26-plain") + " --baseline 2.6.26-plain";
  const Output text = Call(both);
  CAPTURE(text.text);
  CHECK(text.code == 0);
  CHECK(text.text.rfind("press on machine tests, baseline 2.6.26-plain", 0) == 0);
  CHECK(text.text.find("Hmean     pages-written ") != std::string::npos);
  CHECK(text.text.find("throttle.gate = \"none\" | \"throttle\"") != std::string::npos);
  CHECK(Call(both).text == text.text);
  // Every row of the Vmstat block is there, whether anything happened or not.
  const Output mmtests = Call(both + " --format mmtests --compat 2013 2>/dev/null");
  CHECK(mmtests.code == 0);
  CHECK(mmtests.text.find("\nAutoNUMA cost                        0           0\n") !=
        std::string::npos);
  const Json json = Json::parse(Call(both + " --format json").text);
  CHECK(json["columns"][0]["name"] == "2.6.26-plain");
  CHECK(json["metrics"][0]["columns"][1]["n"] == 2);
}

}  // namespace
}  // namespace pagestorm::bench
