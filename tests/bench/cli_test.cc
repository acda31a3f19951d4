// The program as a user meets it: exit codes, one line of complaint, and files.
#include <algorithm>

#include "tests/bench/bench_support.h"
#include "tests/bench/program.h"

namespace pagestorm::bench {
namespace {

// A small run with more arguments.
std::string Small(const std::string& arguments) {
  std::string text = "run --workload press --machine tests -q --set workload.mib=4 ";
  text += arguments;
  return text;
}

// Arguments and a part of the complaint about them; @ stands for a scratch directory.
struct Bad {
  const char* arguments;
  const char* part;
};
const Bad kBad[] = {
    {"", "subcommand"},
    {"frobnicate", "frobnicate"},
    {"run --frobnicate", "--frobnicate"},
    {"run @typo.toml", "typo.toml:2: unknown key throttle.limt"},
    {"run @missing.toml", "no such file"},
    {"run --workload sleep", "--workload: workload = \"sleep\""},
    {"run --kernel 7.0", "kernel = \"7.0\""},
    {"run --machine abacus", "machine = \"abacus\""},
    {"run --machine @corrupt.xml", "corrupt.xml"},
    {"run --machine tests --seed x", "--seed: seed = \"x\""},
    {"run --machine tests --seed -5", "seed"},
    {"run --machine tests --engine steam", "--engine: engine.kind = \"steam\""},
    {"run --machine tests --set memory_mib=1", "at least 4 MiB"},
    {"run --machine tests --set throttle.limit=8", "throttle.gate"},
    {"run --machine tests --strict", "engine.kind"},
    {"run --machine tests --repeat 0", "--repeat"},
    {"run --machine tests --sysctl 1:vm.nonsense=1", "vm.nonsense"},
    {"run --machine tests --out /proc/nowhere/run", "--out /proc/nowhere/run"},
    {"hackbench 10 -g 10", "two syntaxes"},
    {"hackbench 10 fibre -q", "mode = \"fibre\""},
    {"list teapots", "teapots"},
};

TEST_CASE("pagestorm: bad input is one line and exit code 2", "[bench][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  scratch.Write("corrupt.xml", "<topology><object type=\"Machine\"");
  scratch.Write("typo.toml", "[throttle]\nlimt = 3\n");
  for (const Bad& bad : kBad) {
    std::string arguments = bad.arguments;
    if (const std::size_t at = arguments.find('@'); at != std::string::npos) {
      arguments.replace(at, 1, scratch.Path(""));
    }
    CAPTURE(arguments);
    const Output output = Call(arguments);
    CAPTURE(output.text);
    CHECK(output.code == 2);
    CHECK(output.text.find(bad.part) != std::string::npos);
    // hackbench also says how it was read.
    const bool says_more = output.text.rfind("hackbench: read as", 0) == 0;
    CHECK(std::count(output.text.begin(), output.text.end(), '\n') == (says_more ? 2 : 1));
  }
}

TEST_CASE("pagestorm: help, version and lists leave with 0", "[bench][cli]") {
  if (Program() == nullptr) return;
  CHECK(Call("--help").code == 0);
  CHECK(Call("--version").text.rfind("pagestorm ", 0) == 0);
  CHECK(Call("list kernels").text.find("2.6.26-throttle-v7") != std::string::npos);
  CHECK(Call("list machines").text.find("2n-16c-256m") != std::string::npos);
  CHECK(Call("list workloads").text.find("hackbench") != std::string::npos);
  CHECK(Call("list knobs throttle.limit").text.find("throttle.limit = 3") != std::string::npos);
}

TEST_CASE("pagestorm: output that cannot be written is one line, and no success", "[bench][cli]") {
  if (Program() == nullptr || !std::filesystem::exists("/dev/full")) return;
  const Scratch scratch;
  // Standard error goes the same way here, so only the exit code is left to see.
  const auto lists = {std::string("list knobs >/dev/full"), std::string("list kernels >/dev/full")};
  for (const std::string& arguments : lists) {
    CAPTURE(arguments);
    const Output output = Call(arguments);
    CHECK(output.code == 1);
  }
  // A run keeps its results.
  const Output run = Call(Small("--out " + scratch.Path("run") + " >/dev/full"));
  CHECK(run.code == 1);
  CHECK(std::filesystem::exists(scratch.Path("run/result.json")));
}

TEST_CASE("pagestorm topology: shows nodes, CPUs, zones and distances", "[bench][cli]") {
  if (Program() == nullptr) return;
  const Output output = Call("topology 2n-16c-256m");
  CHECK(output.code == 0);
  CHECK(output.text.find("node 1: 128 MiB, CPUs 8-15") != std::string::npos);
  CHECK(output.text.find("zone DMA32") != std::string::npos);
  CHECK(output.text.find("10  21") != std::string::npos);
}

TEST_CASE("pagestorm run: two processes leave the same bytes but for host.json", "[bench][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  const std::string common = Small("--set workload.mib=18 --seed 3 --out ");
  REQUIRE(Call(common + scratch.Path("a")).code == 0);
  REQUIRE(Call(common + scratch.Path("b")).code == 0);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.Path("a"))) {
    if (!entry.is_regular_file() || entry.path().filename() == "host.json") continue;
    const std::string relative =
        std::filesystem::relative(entry.path(), scratch.Path("a")).string();
    CAPTURE(relative);
    CHECK(ReadFile(entry.path().string()) == ReadFile(scratch.Path("b/" + relative)));
    ++files;
  }
  CHECK(files >= 6);
  const Output again =
      Call("run " + scratch.Path("a/config.toml") + " -q --out " + scratch.Path("c"));
  CHECK(again.code == 0);
  CHECK(ReadFile(scratch.Path("a/result.json")) == ReadFile(scratch.Path("c/result.json")));
  CHECK(ReadFile(scratch.Path("a/config.toml")) == ReadFile(scratch.Path("c/config.toml")));
}

TEST_CASE("pagestorm run: a limit of 0 stalls, says who waits, and leaves with 3", "[bench][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  const Output output =
      Call(Small("--set workload.mib=20 --kernel 2.6.26-throttle-v7 --set throttle.limit=0 --out " +
                 scratch.Path("run")));
  CAPTURE(output.text);
  CHECK(output.code == 3);
  CHECK(output.text.find("wait on") != std::string::npos);
  CHECK(std::filesystem::exists(scratch.Path("run/stall")));
}

TEST_CASE("pagestorm run: --print-config is a configuration, --dry-run runs nothing",
          "[bench][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  const Output printed = Call(Small("--seed 9 --print-config"));
  REQUIRE(printed.code == 0);
  const std::string path = scratch.Write("printed.toml", printed.text);
  CHECK(Call("run " + path + " --print-config").text == printed.text);
  const Output dry = Call("run " + path + " --dry-run");
  CHECK(dry.code == 0);
  CHECK(dry.text.rfind("ok: press on machine tests", 0) == 0);
}

TEST_CASE("pagestorm hackbench: both syntaxes are read, and it says which", "[bench][cli]") {
  if (Program() == nullptr) return;
  const Output classic = Call("hackbench 1 process 5 --machine tests -q");
  CAPTURE(classic.text);
  CHECK(classic.code == 0);
  CHECK(classic.text.find("read as the classic syntax") != std::string::npos);
  CHECK(classic.text.find("Running with 1*40 (== 40) tasks.") != std::string::npos);
  CHECK(classic.text.find("Time: ") != std::string::npos);
  const Output options = Call("hackbench -g 1 -f 4 -l 5 --machine tests -q");
  CAPTURE(options.text);
  CHECK(options.code == 0);
  CHECK(options.text.find("read as the options of rt-tests") != std::string::npos);
  CHECK(options.text.find("Running in process mode with 1 groups using 8 file descriptors each "
                          "(== 8 tasks)") != std::string::npos);
}

}  // namespace
}  // namespace pagestorm::bench
