#include "bench/sweep/sweep.h"

#include <algorithm>
#include <map>

#include "bench/sweep/journal.h"
#include "bench/sweep/statistics.h"
#include "bench/sweep/value_list.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

using Texts = std::vector<std::string>;

// A sweep of small presses over the throttle's limit.
SweepRequest SmallSweep(const std::vector<std::string>& sets, const std::string& seeds = "2") {
  SweepRequest request;
  request.load.machine = "tests";
  request.load.workload = "press";
  request.load.sets = {{"--set", "workload.sweeps=1"}};
  const bool sized = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
    return set.rfind("workload.mib=", 0) == 0;
  });
  if (!sized) request.load.sets.push_back({"--set", "workload.mib=18"});
  for (const std::string& set : sets) request.load.sets.push_back({"--set", set});
  request.seeds = seeds;
  return request;
}

SweepPlan Planned(const SweepRequest& request) {
  auto plan = PlanSweep(request, TreeContext());
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

std::string Complaint(const SweepRequest& request) {
  const auto plan = PlanSweep(request, TreeContext());
  REQUIRE_FALSE(plan.ok());
  const std::string line(plan.status().message());
  CHECK(line.find('\n') == std::string::npos);
  return line;
}

SweepOutcome Run(const SweepPlan& plan, const SweepOptions& options) {
  auto outcome = RunSweep(plan, options);
  INFO(outcome.status().message());
  REQUIRE(outcome.ok());
  return *std::move(outcome);
}

// The files that must not depend on the host.
std::map<std::string, std::string> Files(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const char* name : {"points.csv", "runs.csv", "sweep.json"}) {
    files[name] = ReadFile(directory + "/" + name);
    CHECK_FALSE(files[name].empty());
  }
  return files;
}

std::size_t Lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("SplitValues: a comma inside quotes or brackets belongs to the value", "[bench][sweep]") {
  const auto split = [](const std::string& text) { return SplitValues(text, "--set x"); };
  CHECK(*split("1,2, 3 ,-1") == Texts{"1", "2", "3", "-1"});
  CHECK(*split("[64,64],[128,128]") == Texts{"[64,64]", "[128,128]"});
  CHECK(*split(R"("a,b",c,"say \"x,y\"")") == Texts{R"("a,b")", "c", R"("say \"x,y\"")"});
  CHECK(*split("{ a = 1, b = 2 },{ a = 3 }") == Texts{"{ a = 1, b = 2 }", "{ a = 3 }"});
  const std::string bad = GENERATE("", "1,", ",1", "1,,2", "\"a,b", "[1,2", "1]", "1,2,1");
  CAPTURE(bad);
  CHECK_FALSE(split(bad).ok());
}

TEST_CASE("ParseSeeds: a number of seeds, a range or a list", "[bench][sweep]") {
  using Seeds = std::vector<std::uint64_t>;
  CHECK(*ParseSeeds("3", 7) == Seeds{7, 8, 9});
  CHECK(*ParseSeeds("3-5", 7) == Seeds{3, 4, 5});
  CHECK(*ParseSeeds("9,1,4-5", 7) == Seeds{9, 1, 4, 5});
  CHECK(*ParseSeeds("9-9", 7) == Seeds{9});
  const std::string bad = GENERATE("", "0", "-1", "5-3", "1,1", "1-3,2", "x", "1-", "1,", "1.5",
                                   "1-9223372036854775807", "1000001");
  CAPTURE(bad);
  CHECK_FALSE(ParseSeeds(bad, 1).ok());
}

TEST_CASE("SpreadOf: median, mean and spread, whatever the order", "[bench][sweep]") {
  CHECK_FALSE(SpreadOf({}));
  const auto one = SpreadOf({5});
  CHECK((one->median == 5 && one->mean == 5 && !one->ci95 && one->min == 5 && one->max == 5));
  const auto even = SpreadOf({4, 1, 2, 9});
  CHECK(even->median == 3);
  CHECK(even->mean == 4);
  CHECK(Decimal(*even->ci95) == "5.663");  // 3.18245 x 3.559 / 2
  CHECK(Decimal(1.0 / 3) == "0.333");
  CHECK(Decimal(-0.0001) == "0");
  CHECK(Decimal(120) == "120");
}

TEST_CASE("PlanSweep: the cross product, the last knob fastest, engines slowest",
          "[bench][sweep]") {
  SweepRequest request = SmallSweep({"throttle.limit=3,-1", "swap.mib=64,96"});
  request.load.sets.push_back({"--engine", "engine.kind=virtual,threads"});
  const SweepPlan plan = Planned(request);
  REQUIRE(plan.axes.size() == 3);
  CHECK(plan.axes[0].name == "engine.kind");
  CHECK(plan.axes[1].name == "throttle.limit");
  CHECK(plan.axes[2].name == "machine.swap.mib");
  REQUIRE(plan.points.size() == 8);
  CHECK(plan.runs() == 16);
  CHECK(plan.points[1].values == Texts{"virtual", "3", "96"});
  CHECK(plan.points[2].config.policy.throttle.limit == -1);
  CHECK(plan.points[7].config.engine.kind == EngineKind::kThreads);
  CHECK(plan.ConfigOf(3).seed == 2);
  CHECK(plan.ConfigOf(3).machine.swap.mib == 96);
}

TEST_CASE("PlanSweep: over throttle.* it chooses a kernel that has a throttle, and says so",
          "[bench][sweep]") {
  const SweepPlan plan = Planned(SmallSweep({"throttle.limit=1,2"}));
  CHECK(plan.points[0].config.policy.name == kThrottledKernel);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0].find(kThrottledKernel) != std::string::npos);
  CHECK(Planned(SmallSweep({"swap.mib=64,96"})).points[0].config.policy.name == kDefaultKernel);
  SweepRequest chosen = SmallSweep({"throttle.limit=1,2"});
  chosen.load.kernel = "2.6.26-throttle-v8,2.6.26-throttle-v3";
  const SweepPlan two = Planned(chosen);
  CHECK(two.notes.empty());
  CHECK(two.axes[0].name == "kernel");
  CHECK(two.points[3].config.policy.throttle.sysctl == "vm_max_nr_task_per_zone");
  // A file that names one has chosen, too; that it has no throttle is then its mistake.
  const Scratch scratch;
  SweepRequest file = SmallSweep({"throttle.limit=1,2"});
  file.load.config = scratch.Write("run.toml", "kernel = \"2.6.26\"\n");
  CHECK(Complaint(file).find("throttle.gate") != std::string::npos);
}

TEST_CASE("PlanSweep: bad input is one line", "[bench][sweep]") {
  CHECK(Complaint(SmallSweep({"throttle.limt=1,2"})).find("did you mean throttle.limit") !=
        std::string::npos);
  CHECK(Complaint(SmallSweep({"throttle.limit=1,x"})) ==
        "--set: throttle.limit = \"x\": allowed: -2147483648..2147483647");
  CHECK(Complaint(SmallSweep({"swap.mib=64", "machine.swap.mib=96"})).find("given twice") !=
        std::string::npos);
  CHECK(Complaint(SmallSweep({"seed=1,2"})).find("--seeds") != std::string::npos);
  CHECK(Complaint(SmallSweep({"throttle.limit"})).find("allowed: <knob>=") != std::string::npos);
  CHECK(Complaint(SmallSweep({}, "none")).find("--seeds none") != std::string::npos);
  SweepRequest large = SmallSweep({"throttle.limit=1,2"}, "6000");
  CHECK(Complaint(large).find("--force") != std::string::npos);
  large.force = true;
  CHECK(Planned(large).runs() == 12'000);
}

TEST_CASE("CheckPoints: what only a boot can tell is said before anything runs", "[bench][sweep]") {
  CHECK(CheckPoints(Planned(SmallSweep({"throttle.limit=1,2"})), 2).ok());
  const SweepPlan plan = Planned(SmallSweep({"workload.tasks=4,60000"}));
  const std::string line(CheckPoints(plan, 2).message());
  CHECK(line.find("workload.tasks = 60000: ") == 0);
  CHECK(line.find('\n') == std::string::npos);
}

// Mutation tried, red: rows kept in the order in which they ended. Not tried yet: a figure of the
// host in a file.
TEST_CASE("RunSweep: its files do not depend on the number of workers", "[bench][sweep]") {
  const SweepPlan plan = Planned(SmallSweep({"throttle.limit=1,3,-1"}));
  const Scratch scratch;
  const SweepOutcome one = Run(plan, {.out = scratch.Path("one"), .workers = 1});
  const SweepOutcome four = Run(plan, {.out = scratch.Path("four"), .workers = 4});
  CHECK(one.exit_code == kExitDone);
  CHECK(one.runs == 6);
  CHECK(one.table == four.table);
  const auto files = Files(scratch.Path("one"));
  CHECK(files == Files(scratch.Path("four")));
  CHECK(Lines(files.at("points.csv")) == 1 + 3);
  CHECK(Lines(files.at("runs.csv")) == 1 + 6);
  CHECK(files.at("sweep.json").find("\"complete\": true") != std::string::npos);
  CHECK(files.at("sweep.json").find("host_seconds") == std::string::npos);
  CHECK(ReadFile(scratch.Path("one/host-runs.csv")).rfind("run,host_seconds\n", 0) == 0);
}

// Mutations tried, red: Journal::Read() that keeps a torn line; RunSweep() that runs what is there
// already.
TEST_CASE("RunSweep: what was cut, however, goes on where it was and ends in the same files",
          "[bench][sweep]") {
  const SweepPlan plan = Planned(SmallSweep({"throttle.limit=1,3,-1"}));
  const Scratch scratch;
  Run(plan, {.out = scratch.Path("whole"), .workers = 2});
  const std::string journal = ReadFile(scratch.Path("whole/journal.jsonl"));
  REQUIRE(Lines(journal) == 1 + 6);
  // As a kill -9 leaves it: three runs, and a fourth whose line was being written.
  std::size_t end = 0;
  for (int line = 0; line < 4; ++line) end = journal.find('\n', end) + 1;
  scratch.Write("cut/journal.jsonl", journal.substr(0, end + 40));
  const SweepOutcome again = Run(plan, {.out = scratch.Path("cut"), .workers = 2});
  CHECK(again.resumed == 3);
  CHECK(Files(scratch.Path("cut")) == Files(scratch.Path("whole")));
  // A third time there is nothing left to run.
  CHECK(Run(plan, {.out = scratch.Path("cut")}).resumed == 6);
  CHECK(Files(scratch.Path("cut")) == Files(scratch.Path("whole")));
}

TEST_CASE("RunSweep: interrupted, it keeps what it has and leaves with 130", "[bench][sweep]") {
  const SweepPlan plan = Planned(SmallSweep({"throttle.limit=1,3"}));
  const Scratch scratch;
  const std::atomic<bool> interrupted{true};
  const SweepOutcome cut = Run(plan, {.out = scratch.Path("out"), .interrupted = &interrupted});
  CHECK(cut.exit_code == kExitInterrupted);
  CHECK(cut.runs == 0);
  CHECK(Files(scratch.Path("out")).at("sweep.json").find("\"complete\": false") !=
        std::string::npos);
  CHECK(Run(plan, {.out = scratch.Path("out")}).exit_code == kExitDone);
}

TEST_CASE("RunSweep: a directory of another sweep is refused, and the difference is named",
          "[bench][sweep]") {
  const Scratch scratch;
  const std::string out = scratch.Path("out");
  Run(Planned(SmallSweep({"throttle.limit=1,3"}, "1")), {.out = out});
  const auto refusal = [&](const SweepRequest& request) {
    const auto outcome = RunSweep(Planned(request), {.out = out});
    REQUIRE_FALSE(outcome.ok());
    return std::string(outcome.status().message());
  };
  CHECK(refusal(SmallSweep({"throttle.limit=1,3"}, "2")).find("seeds: [1] there, [1,2] here") !=
        std::string::npos);
  CHECK(refusal(SmallSweep({"throttle.limit=1,3", "swap.mib=96"}, "1"))
            .find("config.machine.swap.mib: ") != std::string::npos);
  CHECK(refusal(SmallSweep({"throttle.limit=1,4"}, "1")).find("axes: ") != std::string::npos);
  scratch.Write("taken/notes.txt", "mine");
  const auto taken = RunSweep(Planned(SmallSweep({})), {.out = scratch.Path("taken")});
  REQUIRE_FALSE(taken.ok());
  CHECK(std::string(taken.status().message()).find("no sweep's directory") != std::string::npos);
  CHECK_FALSE(RunSweep(Planned(SmallSweep({})), {.out = "/proc/nowhere/sweep"}).ok());
}

TEST_CASE("Journal: one sweep at a time, and a damaged line is refused", "[bench][sweep]") {
  const Scratch scratch;
  const std::string identity = R"({"seeds":[1]})";
  {
    auto journal = Journal::Open(scratch.Path("out"), identity);
    REQUIRE(journal.ok());
    const auto second = Journal::Open(scratch.Path("out"), identity);
    REQUIRE_FALSE(second.ok());
    CHECK(std::string(second.status().message()).find("another sweep is at work") !=
          std::string::npos);
    CHECK(journal->Append({.run = 4, .end = "done", .numbers = {{"time_ns", -1}}}).ok());
  }
  {
    auto journal = Journal::Open(scratch.Path("out"), identity);
    REQUIRE(journal.ok());
    REQUIRE(journal->finished().size() == 1);
    CHECK(journal->finished()[0].run == 4);
    CHECK(journal->finished()[0].numbers == Counters{{"time_ns", -1}});
  }
  std::ofstream(scratch.Path("out/journal.jsonl"), std::ios::app) << "{\"run\": oops}\n";
  CHECK_FALSE(Journal::Open(scratch.Path("out"), identity).ok());
}

TEST_CASE("RunSweep: runs with OOM kills are counted and left out of the times", "[bench][sweep]") {
  const SweepPlan plan = Planned(SmallSweep({"swap.mib=0,96", "workload.mib=24"}, "1"));
  const Scratch scratch;
  const SweepOutcome outcome = Run(plan, {.out = scratch.Path("out")});
  CHECK(outcome.exit_code == kExitDone);
  CHECK(outcome.table.find("1/1") != std::string::npos);
  const std::string points = ReadFile(scratch.Path("out/points.csv"));
  CHECK(points.find("\n0,1,0,1,0,0,,,,,,") != std::string::npos);
  CHECK(points.find("\n96,1,1,0,0,0,4,4,,4,4,") != std::string::npos);
}

}  // namespace pagestorm::bench
