#include "bench/config/loader.h"

#include "absl/strings/str_join.h"
#include "bench/config/effective.h"
#include "numa/topology.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

// The complaint about a run configuration of that text, without the scratch directory in front.
std::string Complaint(const std::string& text, std::vector<Setting> sets = {}) {
  const Scratch scratch;
  LoadRequest request;
  request.config = scratch.Write("run.toml", text);
  request.machine = "tests";
  request.sets = std::move(sets);
  const auto config = LoadRunConfig(request, TreeContext());
  if (config.ok()) return "";
  std::string message(config.status().message());
  CHECK(message.find('\n') == std::string::npos);
  const std::string directory = scratch.Path("");
  if (message.rfind(directory, 0) == 0) message.erase(0, directory.size());
  return message;
}

std::string SetComplaint(const std::string& set, const std::string& kernel = "") {
  LoadRequest request;
  request.machine = "tests";
  request.kernel = kernel;
  request.sets = {{"--set", set}};
  const auto config = LoadRunConfig(request, TreeContext());
  return config.ok() ? "" : std::string(config.status().message());
}

TEST_CASE("Loader: an unknown key says where it is and what was probably meant",
          "[bench][loader]") {
  CHECK(Complaint("seed = 1\n[throttle]\nlimt = 8\n") ==
        "run.toml:3: unknown key throttle.limt = 8: did you mean throttle.limit?");
  CHECK(Complaint("[nonsense]\na = 1\n").rfind("run.toml:1: unknown key nonsense", 0) == 0);
}

TEST_CASE("Loader: a wrong type or a value out of range says what is allowed", "[bench][loader]") {
  CHECK(Complaint("[throttle]\nlimit = \"many\"\n") ==
        "run.toml:2: throttle.limit = \"many\": allowed: -2147483648..2147483647");
  CHECK(Complaint("[reclaim]\nswappiness = 101\n") ==
        "run.toml:2: reclaim.swappiness = 101: allowed: 0..100");
  CHECK(Complaint("[reclaim]\nsplit_lru = 1\n") ==
        "run.toml:2: reclaim.split_lru = 1: allowed: true, false");
  CHECK(Complaint("seed = -1\n") == "run.toml:1: seed = -1: allowed: 0..9223372036854775807");
  CHECK(
      Complaint("[throttle]\nscope = \"planet\"\n") ==
      "run.toml:2: throttle.scope = \"planet\": allowed: \"off\", \"global\", \"zone\", \"node\"");
  CHECK(Complaint("[workload]\nname = \"press\"\nsweeps = 0\n") ==
        "run.toml:3: workload.sweeps = 0: allowed: 1..1000");
}

TEST_CASE("Loader: an unknown kernel, machine or workload lists those there are",
          "[bench][loader]") {
  CHECK(Complaint("kernel = \"7.0\"\n").find("2.6.26-throttle-v7") != std::string::npos);
  const std::string workload = Complaint("workload = \"sleep\"\n");
  CHECK(workload ==
        "run.toml:1: workload = \"sleep\": allowed: " + absl::StrJoin(KnownWorkloads(), ", "));
  LoadRequest request;
  request.machine = "abacus";
  const auto config = LoadRunConfig(request, TreeContext());
  REQUIRE_FALSE(config.ok());
  CHECK(std::string(config.status().message()).find("2n-16c-256m") != std::string::npos);
}

TEST_CASE("Loader: --set overrides one knob, with or without the machine's prefix",
          "[bench][loader]") {
  const RunConfig config = SmallRun({{"--set", "throttle.limit=8"},
                                     {"--set", "swap.mib=96"},
                                     {"--set", "machine.memory_mib=48"},
                                     {"--set", "engine.time_scale=2"}},
                                    "2.6.26-throttle-v7");
  CHECK(config.policy.throttle.limit == 8);
  CHECK(config.machine.swap.mib == 96);
  CHECK(config.machine.memory_mib == std::vector<std::int64_t>{48});
  CHECK(config.engine.time_scale == 2.0);
  CHECK(SetComplaint("throttle.limit") == "--set throttle.limit: allowed: <knob>=<value>");
  CHECK(SetComplaint("thrott.limit=3").find("throttle.limit?") != std::string::npos);
}

TEST_CASE("Loader: two toggles that contradict each other are refused with both names",
          "[bench][loader]") {
  const std::string gate = SetComplaint("throttle.limit=8", "2.6.26");
  CHECK(gate.find("throttle.limit") != std::string::npos);
  CHECK(gate.find("throttle.gate") != std::string::npos);
  const std::string scope = SetComplaint("throttle.scope=off", "2.6.26-throttle-v7");
  CHECK(scope.find("throttle.scope") != std::string::npos);
  CHECK(scope.find("throttle.gate") != std::string::npos);
  const std::string strict = SetComplaint("engine.strict=true");
  CHECK(strict.find("engine.kind") != std::string::npos);
  const std::string gone = SetComplaint("throttle.gate=turnstile");
  CHECK(gone.find("turnstile") != std::string::npos);
}

TEST_CASE("Loader: an impossible machine is refused before anything boots", "[bench][loader]") {
  CHECK(SetComplaint("memory_mib=[1]").find("at least 4 MiB") != std::string::npos);
  CHECK(SetComplaint("distances=[[10]]").find("distances") != std::string::npos);
  CHECK(SetComplaint("disk.nr_requests=1").find("allowed: 4..100000") != std::string::npos);
}

TEST_CASE("Loader: a machine inherits, and not from itself", "[bench][loader]") {
  const Scratch scratch;
  const std::string loop =
      scratch.Write("loop.toml", "inherits = \"" + scratch.Path("loop.toml") + "\"\n");
  const std::string mine =
      scratch.Write("mine.toml", "inherits = \"demo-2n-8c\"\nboot_reserve_pages = [77]\n");
  RunConfig parent;
  REQUIRE(ApplyMachineFile(parent, "demo-2n-8c", TreeContext()).ok());
  RunConfig config;
  REQUIRE(ApplyMachineFile(config, mine, TreeContext()).ok());
  CHECK(config.machine.name == "mine");
  CHECK(config.machine.boot_reserve_pages == std::vector<std::int64_t>{77});
  CHECK(config.machine.swap.mib == parent.machine.swap.mib);
  const absl::Status status = ApplyMachineFile(config, loop, TreeContext());
  CHECK(std::string(status.message()).find("it inherits itself") != std::string::npos);
}

TEST_CASE("Loader: a preset inherits, and not from itself", "[bench][loader]") {
  const Scratch scratch;
  const std::string loop =
      scratch.Write("loop.toml", "inherits = \"" + scratch.Path("loop.toml") + "\"\n");
  const std::string mine =
      scratch.Write("mine.toml", "inherits = \"2.6.26-throttle-v7\"\n[throttle]\nlimit = 5\n");
  const RunConfig config = SmallRun({}, mine);
  CHECK(config.policy.name == "mine");
  CHECK(config.policy.throttle.limit == 5);
  CHECK(config.policy.throttle.gate == "throttle");
  RunConfig other;
  const absl::Status status = ApplyKernelFile(other, loop, TreeContext());
  CHECK(std::string(status.message()).find("it inherits itself") != std::string::npos);
  const std::string machine_key = scratch.Write("odd.toml", "[disk]\nnr_requests = 8\n");
  CHECK(std::string(ApplyKernelFile(other, machine_key, TreeContext()).message())
            .find("unknown key disk") != std::string::npos);
}

TEST_CASE("Loader: a path in a file is looked for beside that file", "[bench][loader]") {
  const Scratch scratch;
  scratch.Write("kernels/base.toml", "inherits = \"2.6.26-throttle-v7\"\n[throttle]\nlimit = 5\n");
  scratch.Write("kernels/mine.toml", "inherits = \"base.toml\"\n");
  scratch.Write("machine.toml",
                "topology = \"Package:1 [NUMANode(memory=64MiB)] PU:3\"\nswap.mib = 64\n");
  LoadRequest request;
  request.config = scratch.Write(
      "runs/run.toml", "kernel = \"../kernels/mine.toml\"\nmachine = \"../machine.toml\"\n");
  const auto config = LoadRunConfig(request, TreeContext());
  INFO(config.status().message());
  REQUIRE(config.ok());
  CHECK(config->policy.throttle.limit == 5);
  CHECK(config->machine.topology.cpu_count() == 3);
}

TEST_CASE("Loader: --set takes tables and lists of tables", "[bench][loader]") {
  const RunConfig config = SmallRun(
      {{"--set", "holes=[{ start = 4096, pages = 512, kind = \"lost\" }]"},
       {"--set", "latency.points=[{ distance = 10, latency_ns = 80, mb_per_s = 40000 }]"}});
  REQUIRE(config.machine.holes.size() == 1);
  CHECK(config.machine.holes[0].pages == Pages{512});
  CHECK(config.machine.latency.points.size() == 1);
  CHECK(SetComplaint("holes=[{ start = 4096 }]")
            .rfind("--set: machine.holes = [{ start = 4096 }]", 0) == 0);
}

TEST_CASE("Loader: memory and swap that follow from the CPUs", "[bench][loader]") {
  const RunConfig config =
      SmallRun({{"--set", "memory_mib=[]"}, {"--set", "mib_per_cpu=24"}, {"--set", "swap.mib=-1"}});
  const numa::Topology topology = numa::EffectiveTopology(config.machine);
  CHECK(topology.nodes[0].memory_bytes == 48 << 20);  // two CPUs a node
  CHECK(ToBytes(numa::SwapPages(config.machine), config.machine.page_shift) == 192 << 20);
  CHECK(numa::EffectiveTopology(SmallRun({{"--set", "mib_per_cpu=24"}}).machine)
            .nodes[0]
            .memory_bytes == 32 << 20);  // memory_mib says so
}

TEST_CASE("ParseSysctl: a time, a name and an integer", "[bench][loader]") {
  const auto write = ParseSysctl("1.5:vm.max_nr_task_per_zone=-1");
  REQUIRE(write.ok());
  CHECK(*write == SysctlWrite{1'500'000'000, "vm.max_nr_task_per_zone", -1});
  const std::string bad = GENERATE("vm.x=1", "1:vm.x", "-1:vm.x=2", "1:=2", "soon:vm.x=1", "");
  CAPTURE(bad);
  CHECK_FALSE(ParseSysctl(bad).ok());
}

TEST_CASE("Knobs: each accepts its own value and refuses a foreign one", "[bench][knobs]") {
  RunConfig config = SmallRun();
  for (const Knob& knob : KnobsOf(config)) {
    CAPTURE(knob.name);
    const Value value = knob.get(config);
    CHECK(knob.set(config, value));
    CHECK(ToToml(knob.get(config)) == ToToml(value));
    Value table = Value::Table();
    table.Add("a", Value::Int(1));
    CHECK_FALSE(knob.set(config, table));
    CHECK_FALSE(knob.doc.empty());
    CHECK_FALSE(knob.allowed.empty());
  }
}

// Writes the effective configuration as a run directory has it, and reads it again.
RunConfig RoundTrip(const Scratch& scratch, const RunConfig& config) {
  scratch.Write("source-topology.xml", numa::ToXml(config.machine.topology));
  LoadRequest request;
  request.config = scratch.Write("config.toml", EffectiveToml(config, "source-topology.xml"));
  LoadContext context = TreeContext();
  context.roots.clear();  // it must not need any preset
  auto again = LoadRunConfig(request, context);
  INFO(again.status().message());
  REQUIRE(again.ok());
  return *std::move(again);
}

TEST_CASE("EffectiveToml: reads back as the same configuration, without any preset",
          "[bench][effective]") {
  const std::string machine = GENERATE("tests", "2n-16c-256m", "2008-ia64-2n-8c-8g",
                                       "2s-2n-16c-16g", "4n-16c", "2s-2n-westmere");
  const std::string kernel = GENERATE("2.6.26", "2.6.26-throttle-v1", "2.6.26-throttle-v8");
  CAPTURE(machine, kernel);
  LoadRequest request;
  request.machine = machine;
  request.kernel = kernel;
  request.workload = "hackbench";
  request.sysctls = {"0.25:vm.min_free_kbytes=4096"};
  request.sets = {{"--set", "seed=42"}, {"--set", "workload.mode=thread"}};
  auto config = LoadRunConfig(request, TreeContext());
  INFO(config.status().message());
  REQUIRE(config.ok());
  const Scratch scratch;
  const RunConfig again = RoundTrip(scratch, *config);
  CHECK(EffectiveToml(again, "x") == EffectiveToml(*config, "x"));
  CHECK(again.seed == 42);
  CHECK(again.sysctls == config->sysctls);
  numa::Topology expected = config->machine.topology;
  numa::Topology actual = again.machine.topology;
  expected.name = actual.name = "";
  expected.notes = actual.notes = {};
  CHECK(expected == actual);
}

}  // namespace
}  // namespace pagestorm::bench
