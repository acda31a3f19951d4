#include "sched/sched_policy.h"

#include <catch2/catch.hpp>
#include <string>

#include "sched/weights.h"

namespace pagestorm::sched {
namespace {

// Mutation tried: bit_width -> bit_width - 1 (24 became 18) and the bound of 8 CPUs dropped (48
// CPUs gave factor 6).
TEST_CASE("SchedPolicy: time values grow with the CPUs", "[sched][policy][spec:numa-1]") {
  const SchedPolicy big = SchedPolicy::Linux39().Scaled(48);
  CHECK(big.latency_ns == 24'000'000);
  CHECK(big.min_granularity_ns == 3'000'000);
  CHECK(big.wakeup_granularity_ns == 4'000'000);
  const SchedPolicy small = SchedPolicy::Linux39().Scaled(2);
  CHECK(small.latency_ns == 12'000'000);
  CHECK(small.min_granularity_ns == 1'500'000);
  CHECK(small.wakeup_granularity_ns == 2'000'000);
  CHECK(big.migration_cost_ns == 500'000);
  CHECK(SchedPolicy::Linux39().Scaled(1).latency_ns == 6'000'000);
  CHECK(big.Scaled(48) == big);  // scaling is done once
}

TEST_CASE("SchedPolicy: linear and no scaling", "[sched][policy]") {
  SchedPolicy policy;
  policy.scaling = Scaling::kLinear;
  CHECK(policy.Scaled(6).latency_ns == 36'000'000);
  CHECK(policy.Scaled(48).latency_ns == 48'000'000);
  policy.scaling = Scaling::kNone;
  CHECK(policy.Scaled(48).latency_ns == 6'000'000);
}

TEST_CASE("SchedPolicy: 2.6.26 on 8 CPUs has a 16 ms slice, 80 ms credit, 40 ms to preempt",
          "[sched][policy]") {
  const SchedPolicy policy = SchedPolicy::Linux2626().Scaled(8);
  CHECK(policy.PeriodNs(100) / 100 == 16'000'000);
  CHECK(policy.SleeperCreditNs() == 80'000'000);
  CHECK(policy.wakeup_granularity_ns == 40'000'000);
  CHECK(SchedPolicy::Linux2626().Scaled(16).latency_ns == 100'000'000);  // not bounded at 8 CPUs
}

TEST_CASE("SchedPolicy: bad values are named with what is allowed", "[sched][policy]") {
  CHECK(SchedPolicy::Linux39().Validate().ok());
  CHECK(SchedPolicy::Linux2626().Validate().ok());
  const auto message = [](auto change) {
    SchedPolicy policy;
    change(policy);
    return std::string(policy.Validate().message());
  };
  CHECK(message([](auto& p) { p.latency_ns = 0; }) ==
        "sched.latency_ns = 0: allowed are 100000 .. 1000000000");
  CHECK(message([](auto& p) { p.min_granularity_ns = 7'000'000; }) ==
        "sched.min_granularity_ns = 7000000: allowed is at most latency_ns = 6000000");
  CHECK(message([](auto& p) { p.tick_ns = -4; }) ==
        "sched.tick_ns = -4: allowed are 100000 .. 1000000000");
  CHECK(message([](auto& p) { p.nr_migrate = 0; }) ==
        "sched.nr_migrate = 0: allowed are 1 .. 1048576");
  CHECK(message([](auto& p) { p.preempt = PreemptModel::kFull; }).find("allowed is none") !=
        std::string::npos);
}

TEST_CASE("weights: one nice level is about a quarter more", "[sched][weights]") {
  CHECK(WeightOfNice(0) == 1024);
  CHECK(WeightOfNice(5) == 335);
  CHECK(WeightOfNice(-20) == 88761);
  CHECK(WeightOfNice(19) == 15);
  for (int nice = kNiceMin; nice < kNiceMax; ++nice) {
    const double step =
        static_cast<double>(WeightOfNice(nice)) / static_cast<double>(WeightOfNice(nice + 1));
    CHECK(step > 1.18);
    CHECK(step < 1.32);
  }
  CHECK(ToVirtual(1000, 2048) == 500);
}

}  // namespace
}  // namespace pagestorm::sched
