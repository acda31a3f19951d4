// What a sweep runs: every combination of the values listed for kernels, machines, engines and
// knobs (a point), with every seed (a run).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/config/loader.h"
#include "bench/config/run_config.h"

namespace pagestorm::bench {

struct SweepRequest {
  // As for one run, but kernel, machine and the value of each setting may be lists
  // (bench/sweep/value_list.h): "throttle.limit=1,2,-1", "engine.kind=virtual,threads".
  LoadRequest load;
  std::string seeds;   // bench/sweep/value_list.h; empty: kDefaultSeeds
  bool force = false;  // more than kRunsMax runs are meant
};

// The kernel of a sweep over throttle.* that names none: the plain one has no throttle.
inline constexpr const char* kThrottledKernel = "2.6.26-throttle-v7";
inline constexpr const char* kDefaultSeeds = "3";
inline constexpr std::size_t kRunsMax = 10'000;

// What differs between points: "throttle.limit" and its values as they were written.
struct SweepAxis {
  std::string name;  // "engine.kind", "machine", "kernel", or a knob
  std::vector<std::string> values;
};

struct SweepPoint {
  std::vector<std::string> values;  // one of each axis
  RunConfig config;                 // with the first seed
};

struct SweepPlan {
  std::vector<SweepAxis> axes;  // of one value only: none. The last one changes fastest.
  std::vector<std::uint64_t> seeds;
  std::vector<SweepPoint> points;
  std::vector<std::string> notes;  // what was chosen for the user; one line each

  // Runs are numbered by point, then seed.
  [[nodiscard]] std::size_t runs() const { return points.size() * seeds.size(); }
  [[nodiscard]] const SweepPoint& PointOf(std::size_t run) const {
    return points[run / seeds.size()];
  }
  [[nodiscard]] std::uint64_t SeedOf(std::size_t run) const { return seeds[run % seeds.size()]; }
  [[nodiscard]] RunConfig ConfigOf(std::size_t run) const;
  // "throttle.limit = 3, engine.kind = virtual"; "the only point" without axes.
  [[nodiscard]] std::string NameOf(const SweepPoint& point) const;
};

// InvalidArgument or NotFound: one line. Every configuration is then known to be good, but for what
// only a boot can tell (CheckPoints()).
absl::StatusOr<SweepPlan> PlanSweep(const SweepRequest& request, const LoadContext& context);

// Boots the machine of every point once, on `workers` threads (0: one a core), and runs nothing.
absl::Status CheckPoints(const SweepPlan& plan, int workers);

// The plan as JSON, for telling two sweeps apart and for sweep.json: seeds, axes, and the
// configuration of the first run with every knob.
[[nodiscard]] std::string PlanJson(const SweepPlan& plan);

}  // namespace pagestorm::bench
