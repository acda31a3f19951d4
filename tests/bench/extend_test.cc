// A user's own gate: examples/lru_share.cc is linked into this binary, as into its own program.
#include <string>

#include "bench/experiments/result_json.h"
#include "mm/throttle.h"
#include "tests/bench/bench_support.h"
#include "tests/support/source_root.h"

namespace pagestorm::bench {
namespace {

RunConfig SmallStorm(const std::vector<std::string>& sets) {
  LoadRequest request;
  request.config = SourceRoot() + "/configs/experiments/demo-virtual.toml";
  request.kernel = "2.6.26";
  request.machine = "demo-2n-8c";
  request.sets = {{"--set", "workload.groups=70"}, {"--set", "seed=1"}};
  for (const std::string& set : sets) request.sets.push_back({"--set", set});
  auto config = LoadRunConfig(request, TreeContext());
  INFO(config.status().message());
  REQUIRE(config.ok());
  REQUIRE(PrepareRun(*config).ok());
  return *std::move(config);
}

// Mutations of the example tried, red: the limit ignored; the ticket not given back (stall); the
// knob not read.
TEST_CASE("Extend: a user's throttle is chosen by name, has knobs, and holds in a storm",
          "[bench][extend]") {
  const auto record = ExecuteRun(SmallStorm({"throttle.gate=lru_share"}), {});
  REQUIRE(record.ok());
  CHECK(record->outcome.broken.empty());
  CHECK(record->exit_code() == kExitDone);
  CHECK(record->oom_kills == 0);
  CHECK(record->gate.tickets > 1);
  CHECK(record->gate_numbers.at(0).first == "lru_share_refusals");
  CHECK(record->gate_numbers.at(0).second > 0);
  // kswapd and kernel tasks come on top of the share.
  CHECK(record->peaks.isolated_share_at_max_permille < 200);
  const auto tight =
      ExecuteRun(SmallStorm({"throttle.gate=lru_share", "throttle.lru_share.percent=1"}), {});
  REQUIRE(tight.ok());
  CHECK(tight->gate.tickets < record->gate.tickets);
  CHECK(ResultJson(*tight).find("\"throttle.lru_share.percent\": 1") != std::string::npos);
}

TEST_CASE("Extend: a knob of a gate that was not chosen, or out of range, is refused",
          "[bench][extend]") {
  const auto refused = [](const std::vector<std::string>& sets) {
    LoadRequest request;
    request.kernel = "2.6.26";
    request.machine = "tests";
    request.workload = "press";
    for (const std::string& set : sets) request.sets.push_back({"--set", set});
    return std::string(LoadRunConfig(request, TreeContext()).status().message());
  };
  CHECK(refused({"throttle.lru_share.percent=5"}).find("--set throttle.gate=lru_share") !=
        std::string::npos);
  CHECK(refused({"throttle.gate=lru_share", "throttle.lru_share.percent=0"}).find("1..100") !=
        std::string::npos);
  CHECK(refused({"throttle.gate=lru_share+none"}).find("several but none") != std::string::npos);
  CHECK(refused({"throttle.gate=lru_share", "throttle.limit=5"}).find("contradicts") !=
        std::string::npos);
  CHECK(refused({"throttle.gate=lru_share+throttle", "throttle.limit=5"}).empty());
}

}  // namespace
}  // namespace pagestorm::bench
