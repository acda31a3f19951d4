// The kernels of configs/kernels against the version matrix. Source: spec throttle-2.6.26 1.2, 1.8.
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

TEST_CASE("Presets: every kernel, machine and workload file of the tree loads",
          "[bench][presets]") {
  const LoadContext context = TreeContext();
  for (const std::string& name : KnownConfigs(context.roots, "kernels")) {
    RunConfig config;
    INFO(ApplyKernelFile(config, name, context).message());
    CHECK(ApplyKernelFile(config, name, context).ok());
    CHECK(config.policy.Validate().ok());
  }
  for (const std::string& name : KnownConfigs(context.roots, "machines")) {
    if (name == "host") continue;  // what it is depends on the host
    RunConfig config;
    INFO(ApplyMachineFile(config, name, context).message());
    CHECK(ApplyMachineFile(config, name, context).ok());
    INFO(LoadMachineTopology(config).message());
    CHECK(numa::Validate(config.machine).ok());
  }
  for (const std::string& name : KnownConfigs(context.roots, "workloads")) {
    LoadRequest request;
    request.machine = "tests";
    request.workload = name;
    INFO(LoadRunConfig(request, context).status().message());
    CHECK(LoadRunConfig(request, context).ok());
  }
}

struct Version {
  const char* name;
  mm::ThrottleScope scope;
  mm::ThrottleLimitRule rule;
  mm::ThrottleWake wake;
  bool guard, exempt;
  mm::ThrottleCutoff cutoff;
  std::int64_t mark_mult;
  mm::CutoffClass cutoff_class;
  bool may_gate;
  mm::BetweenPriorityCheck between;
  bool kswapd, zone_reclaim, memcg_cutoff;
  const char* sysctl;
};

// One row a column of the matrix.
const Version kVersions[] = {
    {"v1", mm::ThrottleScope::kGlobal, mm::ThrottleLimitRule::kTwicePerNode, mm::ThrottleWake::kAll,
     false, false, mm::ThrottleCutoff::kWallHz, 4, mm::CutoffClass::kFirstZone, false,
     mm::BetweenPriorityCheck::kOff, false, false, true, ""},
    {"v2", mm::ThrottleScope::kZone, mm::ThrottleLimitRule::kFixed, mm::ThrottleWake::kAll, false,
     false, mm::ThrottleCutoff::kWallHz10, 4, mm::CutoffClass::kHighest, false,
     mm::BetweenPriorityCheck::kV2, true, false, false, ""},
    {"v3", mm::ThrottleScope::kZone, mm::ThrottleLimitRule::kFixed, mm::ThrottleWake::kOneAsPosted,
     false, false, mm::ThrottleCutoff::kWallHz10, 4, mm::CutoffClass::kHighest, false,
     mm::BetweenPriorityCheck::kV3, true, true, false, "vm_max_nr_task_per_zone"},
    {"v4", mm::ThrottleScope::kZone, mm::ThrottleLimitRule::kFixed, mm::ThrottleWake::kOneAsPosted,
     true, false, mm::ThrottleCutoff::kWallHz, 4, mm::CutoffClass::kRequest, false,
     mm::BetweenPriorityCheck::kV3, true, true, false, "max_nr_task_per_zone"},
    {"v5", mm::ThrottleScope::kZone, mm::ThrottleLimitRule::kFixed, mm::ThrottleWake::kOneAsPosted,
     true, false, mm::ThrottleCutoff::kWallHz, 4, mm::CutoffClass::kRequest, false,
     mm::BetweenPriorityCheck::kV3, true, true, false, "max_nr_task_per_zone"},
    {"v6", mm::ThrottleScope::kZone, mm::ThrottleLimitRule::kFixed, mm::ThrottleWake::kOneAsPosted,
     true, false, mm::ThrottleCutoff::kPgfree, 1, mm::CutoffClass::kRequest, true,
     mm::BetweenPriorityCheck::kOff, true, true, false, "max_nr_task_per_zone"},
    {"v7", mm::ThrottleScope::kZone, mm::ThrottleLimitRule::kFixed, mm::ThrottleWake::kOneAsPosted,
     true, true, mm::ThrottleCutoff::kPgfree, 1, mm::CutoffClass::kRequest, true,
     mm::BetweenPriorityCheck::kOff, true, true, false, "max_nr_task_per_zone"},
    {"v8", mm::ThrottleScope::kZone, mm::ThrottleLimitRule::kFixed, mm::ThrottleWake::kOneAsPosted,
     true, true, mm::ThrottleCutoff::kPgfree, 1, mm::CutoffClass::kRequest, true,
     mm::BetweenPriorityCheck::kOff, true, true, false, "max_reclaiming_tasks_per_zone"},
};

TEST_CASE("Presets: each version of the throttle is its column of the matrix", "[bench][presets]") {
  for (const Version& version : kVersions) {
    CAPTURE(version.name);
    RunConfig config;
    const std::string name = std::string("2.6.26-throttle-") + version.name;
    REQUIRE(ApplyKernelFile(config, name, TreeContext()).ok());
    const mm::ThrottlePolicy& throttle = config.policy.throttle;
    CHECK(throttle.gate == "throttle");
    CHECK(throttle.scope == version.scope);
    CHECK(throttle.limit_rule == version.rule);
    CHECK(throttle.limit == 3);
    CHECK(throttle.wake == version.wake);
    CHECK(throttle.recursion_guard == version.guard);
    CHECK(throttle.gfp_exempt == version.exempt);
    CHECK(throttle.cutoff == version.cutoff);
    CHECK(throttle.cutoff_mult == 4);
    CHECK(throttle.cutoff_mark_mult == version.mark_mult);
    CHECK(throttle.cutoff_class == version.cutoff_class);
    CHECK(throttle.may_cut_off_gate == version.may_gate);
    CHECK(throttle.between_priority_check == version.between);
    CHECK(throttle.gate_kswapd == version.kswapd);
    CHECK(throttle.gate_zone_reclaim == version.zone_reclaim);
    CHECK(throttle.gate_memcg);
    CHECK(throttle.memcg_cutoff == version.memcg_cutoff);
    CHECK(throttle.sysctl == version.sysctl);
  }
}

}  // namespace
}  // namespace pagestorm::bench
