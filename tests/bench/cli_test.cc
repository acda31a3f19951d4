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
    {"run --machine tests --set lru=fifo",
     "lru = \"fifo\": allowed: \"locked\", \"ring\", \"clock\""},
    {"run --machine tests --set lru=ring --set reclaim.split_lru=true",
     "lru = \"ring\" contradicts reclaim.split_lru = true"},
    {"run --machine tests --set lru=clock --set reclaim.isolated_visible=true",
     "lru = \"clock\" contradicts reclaim.isolated_visible = true"},
    {"run --machine tests --strict", "engine.kind"},
    {"run --machine tests --repeat 0", "--repeat"},
    {"run --machine tests --sysctl 1:vm.nonsense=1", "vm.nonsense"},
    {"run --machine tests --out /proc/nowhere/run", "--out /proc/nowhere/run"},
    {"run --machine tests --control @typo.toml", "is no FIFO"},
    {"sweep --machine tests --set throttle.limt=1,2", "did you mean throttle.limit?"},
    {"sweep --machine tests --set throttle.limit=1,two", "throttle.limit = \"two\""},
    {"sweep --machine tests --seeds 0", "--seeds 0"},
    {"sweep --machine tests --set workload.mib=1,2 --seeds 6000", "--force"},
    {"sweep --machine tests --engine virtual,steam", "engine.kind = \"steam\""},
    {"sweep --machine tests --set alloc.min_free_kbytes=64,1000000001",
     "alloc.min_free_kbytes = 1000000001: "},
    {"sweep --machine tests --out /proc/nowhere/sweep -q", "--out /proc/nowhere/sweep"},
    {"hackbench 10 -g 10", "two syntaxes"},
    {"hackbench 10 fibre -q", "mode = \"fibre\""},
    {"list teapots", "teapots"},
    {"reproduce", "which table?"},
    {"reproduce throttle-v99", "there is none of that name"},
    {"reproduce throttle-v7 --quick --full", "--full"},
    {"reproduce throttle-v7 --quick --seeds 0", "--seeds"},
    {"reproduce throttle-v7 --quick --disk 0", "--disk 0: allowed: 0.01..100"},
    {"reproduce throttle-v7 --quick --ram 90", "--ram 90"},
    {"reproduce throttle-v7 --quick --sensitivity --ram 1", "--ram excludes --sensitivity"},
    {"reproduce throttle-v7 --quick --set workload.frobs=1", "unknown key workload.frobs"},
    {"reproduce throttle-v7 --quick --json /proc/nowhere/x.json", "--json /proc/nowhere/x.json"},
    {"reproduce throttle-v7 --quick --out /proc/nowhere/run", "--out /proc/nowhere/run"},
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

// A table that takes no time; its claim is that the throttle changes nothing where nothing swaps.
std::string TinyTable(const Scratch& scratch, const std::string& band) {
  const std::string run = scratch.Write(
      "tiny-run.toml", "machine = \"tests\"\n[workload]\nname = \"press\"\nsweeps = 1\n");
  return scratch.Write(
      "tiny.toml",
      "title = \"tiny\"\nsource = \"none\"\nexperiment = \"" + run +
          "\"\nmetrics = [\"time_s\"]\nrow_knob = \"workload.mib\"\nrow_name = \"MiB\"\n"
          "rows = [2, 4]\nnoise = 0.1\nnoise_source = \"none\"\n"
          "[[column]]\nid = \"a\"\nlabel = \"a\"\nkernel = \"2.6.26\"\n"
          "[[column]]\nid = \"b\"\nlabel = \"b\"\nkernel = \"2.6.26-throttle-v7\"\n"
          "[lengths.quick]\nseeds = 2\n[lengths.default]\nseeds = 2\n[lengths.full]\nseeds = 2\n"
          "[[claim]]\nid = \"i\"\ntext = \"equal\"\nkind = \"ratio_flat\"\ncolumn = \"b\"\n"
          "band = " +
          band + "\n");
}

TEST_CASE("pagestorm reproduce: 0 if every claim holds, 1 if not, and the files it was asked for",
          "[bench][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  const std::string page = scratch.Write("docs/page.md", "# Page\n");
  const Output good =
      Call("reproduce " + TinyTable(scratch, "[0.9, 1.1]") + " -q --quick --json " +
           scratch.Path("r.json") + " --out " + scratch.Path("out") + " --markdown " + page);
  CAPTURE(good.text);
  CHECK(good.code == 0);
  CHECK(good.text.find("PASS          tiny/i") != std::string::npos);
  CHECK(ReadFile(scratch.Path("r.json")) == ReadFile(scratch.Path("out/result.json")));
  CHECK(ReadFile(page).find("<!-- begin tiny -->") != std::string::npos);
  CHECK(ReadFile(scratch.Path("docs/tiny.svg")) == ReadFile(scratch.Path("out/tiny.svg")));

  const Output bad = Call("reproduce " + TinyTable(scratch, "[2, 3]") + " -q --quick");
  CHECK(bad.code == 1);
  CHECK(bad.text.find("FAIL          tiny/i") != std::string::npos);
  CHECK(Call("reproduce --list").text.find("throttle-v7") != std::string::npos);
}

TEST_CASE("pagestorm sweep: a table and files, and the same again without running anything",
          "[bench][cli]") {
  if (Program() == nullptr) return;
  const Scratch scratch;
  const std::string command =
      "sweep --machine tests --set throttle.limit=1,-1 --set workload.mib=4 --set "
      "workload.sweeps=1 --seeds 2 -q --out " +
      scratch.Path("out");
  const Output first = Call(command);
  CAPTURE(first.text);
  CHECK(first.code == 0);
  CHECK(
      first.text.rfind("press on machine tests, kernel 2.6.26-throttle-v7: 2 points x 2 seeds = 4 "
                       "runs\nnote: kernel 2.6.26-throttle-v7: ",
                       0) == 0);
  CHECK(first.text.find("\nthrottle.limit  n  pages_per_second ^  ") != std::string::npos);
  const std::string points = ReadFile(scratch.Path("out/points.csv"));
  CHECK(std::count(points.begin(), points.end(), '\n') == 3);
  const Output again = Call(command);
  CHECK(again.code == 0);
  CHECK(again.text.find("4 of the runs were there already") != std::string::npos);
  CHECK(ReadFile(scratch.Path("out/points.csv")) == points);
  const Output other = Call(command + " --set workload.tasks=3");
  CHECK(other.code == 2);
  CHECK(other.text.find("holds another sweep: config.workload.tasks: 0 there, 3 here") !=
        std::string::npos);
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
