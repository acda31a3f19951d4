// Kernel parameters written while a machine runs, through a FIFO or at a configured time.
#include <sys/stat.h>

#include <fstream>

#include "bench/config/effective.h"
#include "bench/experiments/control_pipe.h"
#include "bench/experiments/result_json.h"
#include "bench/experiments/run_directory.h"
#include "numa/topology.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

// Somebody at a shell who writes lines into the FIFO once a share of the work is done.
class Operator {
 public:
  struct Word {
    int permille;
    std::string line;
  };
  Operator(std::string path, std::vector<Word> words)
      : path_(std::move(path)), words_(std::move(words)) {}

  void operator()(int permille) {
    for (; next_ < words_.size() && permille >= words_[next_].permille; ++next_) {
      std::ofstream(path_) << words_[next_].line << "\n";
    }
  }

 private:
  const std::string path_;
  const std::vector<Word> words_;
  std::size_t next_ = 0;
};

// A run with a pipe, and with somebody who writes into it.
RunRecord Controlled(RunConfig config, const std::vector<Operator::Word>& words) {
  const Scratch scratch;
  config.control = true;
  auto pipe = ControlPipe::Create(scratch.Path("control"));
  REQUIRE(pipe.ok());
  Operator writer(scratch.Path("control"), words);
  auto record = ExecuteRun(
      config, {.on_permille = [&](int permille) { writer(permille); }, .control = &*pipe});
  INFO(record.status().message());
  REQUIRE(record.ok());
  return *std::move(record);
}

RunConfig ThrottledPress(const std::string& engine) {
  return SmallRun({{"--set", "workload.mib=20"},
                   {"--set", "workload.sweeps=2"},
                   {"--set", "engine.kind=" + engine}},
                  "2.6.26-throttle-v7");
}

std::int64_t MinOfZones(const RunRecord& record) {
  std::int64_t sum = 0;
  for (const ZoneRecord& zone : record.zones) sum += zone.min;
  return sum;
}

}  // namespace

// Mutations tried, red: WakeAt() that takes a number from the other timers; the task only there
// when there is something to write (a crash). WriteSysctl() that dates the write 1 ns earlier stays
// green.
TEST_CASE("Control: what was written while a machine ran is repeated to the same bytes",
          "[bench][control]") {
  const RunConfig config = ThrottledPress("virtual");
  const RunRecord live = Controlled(config, {{100, "vm.max_nr_task_per_zone=1"},
                                             {300, "vm.min_free_kbytes = 2048"},
                                             {300, "vm.max_nr_task_per_zone=-1"},
                                             {700, "max_nr_task_per_zone=2"}});
  CHECK(live.exit_code() == kExitDone);
  REQUIRE(live.config.sysctls.size() == 4);
  CHECK(live.config.sysctls[0].at_ns > 0);
  CHECK(live.config.sysctls[1].at_ns == live.config.sysctls[2].at_ns);
  CHECK(live.config.sysctls[3].at_ns > live.config.sysctls[2].at_ns);
  CHECK(live.config.sysctls[3].at_ns < live.outcome.run.emulated.n);

  const Scratch scratch;
  const auto publish = [&](const RunRecord& record, const std::string& name) {
    auto directory = RunDirectory::Claim(scratch.Path(name), false);
    REQUIRE(directory.ok());
    REQUIRE(directory->Publish(record, "").ok());
  };
  publish(live, "live");
  LoadRequest request;
  request.config = scratch.Path("live/config.toml");
  const auto again = LoadRunConfig(request, TreeContext());
  INFO(again.status().message());
  REQUIRE(again.ok());
  const auto replay = ExecuteRun(*again, {});
  REQUIRE(replay.ok());
  CHECK(replay->outcome.run.trace_hash == live.outcome.run.trace_hash);
  publish(*replay, "replay");
  for (const char* file : {"result.json", "config.toml", "dmesg", "proc/vmstat"}) {
    CAPTURE(file);
    CHECK(ReadFile(scratch.Path(std::string("live/") + file)) ==
          ReadFile(scratch.Path(std::string("replay/") + file)));
  }
  // The writes matter: without them it is another run.
  RunConfig without = *again;
  without.sysctls.clear();
  const auto untouched = ExecuteRun(without, {});
  REQUIRE(untouched.ok());
  CHECK(untouched->outcome.run.trace_hash != live.outcome.run.trace_hash);
}

TEST_CASE("Control: a pipe that nobody writes into changes nothing of the run it can be",
          "[bench][control]") {
  RunConfig config = ThrottledPress("virtual");
  const RunRecord live = Controlled(config, {});
  config.control = true;
  const auto replay = ExecuteRun(config, {});
  REQUIRE(replay.ok());
  CHECK(ResultJson(*replay) == ResultJson(live));
}

TEST_CASE("Control: both engines write, record when, and pass over bad lines", "[bench][control]") {
  const std::string engine = GENERATE("virtual", "threads");
  CAPTURE(engine);
  RunConfig config = ThrottledPress(engine);
  const auto plain = ExecuteRun(config, {});
  REQUIRE(plain.ok());
  const RunRecord record = Controlled(config, {{0, "vm.nonsense=1"},
                                               {0, "good morning"},
                                               {0, "vm.max_nr_task_per_zone=many"},
                                               {0, "vm.max_nr_task_per_zone=4294967296"},
                                               {0, "  # a comment"},
                                               {0, "vm.min_free_kbytes=4000"}});
  CAPTURE(record.verdict());
  CHECK(record.exit_code() == kExitDone);
  if (engine == "threads" && record.config.sysctls.empty()) return;  // over before the first poll
  REQUIRE(record.config.sysctls.size() == 1);
  CHECK(record.config.sysctls[0].name == "vm.min_free_kbytes");
  CHECK(record.config.sysctls[0].at_ns > 0);
  CHECK(MinOfZones(record) > MinOfZones(*plain));
}

TEST_CASE("Control: a parameter of the configuration and one of the pipe are written in order",
          "[bench][control]") {
  RunConfig config = ThrottledPress("virtual");
  config.sysctls = {{kMillisecond.n, "vm.min_free_kbytes", 500},
                    {std::int64_t{1} << 60, "vm.min_free_kbytes", 1000}};  // never
  const RunRecord live = Controlled(config, {{200, "vm.min_free_kbytes=4000"}});
  REQUIRE(live.config.sysctls.size() == 3);
  CHECK(live.config.sysctls[1].value == 4000);
  const auto replay = ExecuteRun(live.config, {});
  REQUIRE(replay.ok());
  CHECK(ResultJson(*replay) == ResultJson(live));
}

// [spec:throttle-32] is proven in tests/mm; here each preset's own name reaches its gate.
TEST_CASE("Sysctl: each version's limit is written under its own name, without bounds",
          "[bench][control]") {
  struct Era {
    const char* kernel;
    const char* name;
  };
  const Era era = GENERATE(Era{"2.6.26-throttle-v3", "vm.vm_max_nr_task_per_zone"},
                           Era{"2.6.26-throttle-v4", "vm.max_nr_task_per_zone"},
                           Era{"2.6.26-throttle-v5", "vm.max_nr_task_per_zone"},
                           Era{"2.6.26-throttle-v6", "vm.max_nr_task_per_zone"},
                           Era{"2.6.26-throttle-v7", "vm.max_nr_task_per_zone"},
                           Era{"2.6.26-throttle-v8", "vm.max_reclaiming_tasks_per_zone"});
  CAPTURE(era.kernel);
  const auto run = [&](std::int64_t limit, std::int64_t written, std::int64_t at_ns) {
    RunConfig config = SmallRun({{"--set", "workload.tasks=24"},
                                 {"--set", "workload.mib=4"},
                                 {"--set", "workload.sweeps=300"}},
                                era.kernel);
    config.policy.throttle.limit = limit;
    config.sysctls = {{at_ns, era.name, written}};
    auto record = ExecuteRun(config, {});
    INFO(record.status().message());
    REQUIRE(record.ok());
    return *std::move(record);
  };
  // 0 admits nobody; written over in time, it is as if it had never been there.
  CHECK(run(0, 3, kMillisecond.n).exit_code() == kExitDone);
  CHECK(run(3, 0, kMillisecond.n).exit_code() == kExitStalled);
  // Negative: no limit. The counter is compared for equality only.
  const RunRecord unlimited = run(1, -1, kMillisecond.n);
  CHECK(unlimited.exit_code() == kExitDone);
  CHECK(unlimited.gate.tickets > 1);
  // Lowered below the number of those inside: they are more than it says, and more come in.
  const RunRecord lowered = run(1'000'000, 1, 100 * kMillisecond.n);
  CHECK(lowered.exit_code() == kExitDone);
  CHECK(lowered.gate.tickets > 1);
  // Another version's name is unknown here.
  RunConfig other = SmallRun({}, era.kernel);
  other.sysctls = {{0, "vm.max_number_of_tasks", 1}};
  CHECK_FALSE(ExecuteRun(other, {}).ok());
}

TEST_CASE("ControlPipe: gives whole lines, waits for nobody, and is gone afterwards",
          "[bench][control]") {
  const Scratch scratch;
  const std::string path = scratch.Path("control");
  {
    auto pipe = ControlPipe::Create(path);
    REQUIRE(pipe.ok());
    CHECK(pipe->TakeLines().empty());
    std::ofstream(path) << "vm.a=1\n\n # b\n  vm.c = 2 \nvm.d";
    CHECK(pipe->TakeLines() == std::vector<std::string>{"vm.a=1", "vm.c = 2"});
    std::ofstream(path) << "=3\n";
    CHECK(pipe->TakeLines() == std::vector<std::string>{"vm.d=3"});
    std::ofstream(path) << std::string(5000, 'x');
    CHECK(pipe->TakeLines().size() == 1);
    // A second run may take over what a killed one left behind.
    CHECK(::mkfifo(scratch.Path("left").c_str(), 0600) == 0);
    CHECK(ControlPipe::Create(scratch.Path("left")).ok());
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(scratch.Path("left")));
  scratch.Write("taken", "a file");
  const auto taken = ControlPipe::Create(scratch.Path("taken"));
  REQUIRE_FALSE(taken.ok());
  CHECK(std::string(taken.status().message()).find("exists and is no FIFO") != std::string::npos);
  CHECK_FALSE(ControlPipe::Create("/proc/nowhere/control").ok());
  CHECK(ReadFile(scratch.Path("taken")) == "a file");
}

}  // namespace pagestorm::bench
