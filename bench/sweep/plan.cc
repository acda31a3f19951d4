#include "bench/sweep/plan.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/config/knobs.h"
#include "bench/config/toml_file.h"
#include "bench/experiments/result_json.h"
#include "bench/experiments/run.h"
#include "bench/sweep/value_list.h"
#include "bench/version.h"
#include "core/executor.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

// One thing the command line gives values for. Everything is one until it is known to have only one
// value.
struct Choice {
  std::string name;    // "kernel", "machine", or a knob as it was written
  std::string option;  // for messages: "--set"
  std::vector<std::string> values;
};

absl::Status AddChoice(std::vector<Choice>& choices, const std::string& name,
                       const std::string& option, const std::string& text) {
  auto values = SplitValues(text, name == option ? option : absl::StrCat(option, " ", name));
  if (!values.ok()) return values.status();
  choices.push_back({name, option, *std::move(values)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Choice>> ChoicesOf(const LoadRequest& load) {
  std::vector<Choice> choices;
  absl::Status status;
  for (const Setting& set : load.sets) {
    const std::size_t equals = set.text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(set.option, " ", set.text, ": allowed: <knob>=<value>,<value>,..."));
    }
    const std::string name = set.text.substr(0, equals);
    if (name == "seed") {
      return absl::InvalidArgumentError(
          absl::StrCat(set.option, " ", set.text, ": a sweep's seeds are given by --seeds"));
    }
    status = AddChoice(choices, name, set.option, set.text.substr(equals + 1));
    if (!status.ok()) return status;
  }
  // The machine and the kernel change slowest, the engine before them.
  const auto engine = std::stable_partition(
      choices.begin(), choices.end(), [](const Choice& c) { return c.name == "engine.kind"; });
  std::vector<Choice> ordered(choices.begin(), engine);
  if (!load.machine.empty()) status = AddChoice(ordered, "--machine", "--machine", load.machine);
  if (status.ok() && !load.kernel.empty()) {
    status = AddChoice(ordered, "--kernel", "--kernel", load.kernel);
  }
  if (!status.ok()) return status;
  ordered.insert(ordered.end(), engine, choices.end());
  return ordered;
}

// Whether the run configuration names a kernel, or is one that names every toggle.
absl::StatusOr<bool> NamesKernel(const std::string& config) {
  if (config.empty()) return false;
  const auto file = ReadTomlFile(config);
  if (!file.ok()) return file.status();
  return file->Find("kernel") != nullptr;
}

absl::Status ChooseKernel(LoadRequest& load, std::vector<std::string>& notes) {
  const bool throttles = std::any_of(load.sets.begin(), load.sets.end(), [](const Setting& set) {
    return absl::StartsWith(set.text, "throttle.");
  });
  if (!throttles || !load.kernel.empty()) return absl::OkStatus();
  const auto named = NamesKernel(load.config);
  if (!named.ok()) return named.status();
  if (*named) return absl::OkStatus();
  load.kernel = kThrottledKernel;
  notes.push_back(
      absl::StrCat("kernel ", kThrottledKernel, ": throttle.* is set and no --kernel was given"));
  return absl::OkStatus();
}

// The request of the point that takes value `which[i]` of each choice.
LoadRequest RequestOf(const LoadRequest& base, const std::vector<Choice>& choices,
                      const std::vector<std::size_t>& which) {
  LoadRequest load = base;
  load.sets.clear();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    const std::string& value = choice.values[which[i]];
    if (choice.name == "--kernel") {
      load.kernel = value;
    } else if (choice.name == "--machine") {
      load.machine = value;
    } else {
      load.sets.push_back({choice.option, absl::StrCat(choice.name, "=", value)});
    }
  }
  return load;
}

// Advances `which` as an odometer does; false: it has been through all.
bool Next(const std::vector<Choice>& choices, std::vector<std::size_t>& which) {
  for (std::size_t i = choices.size(); i-- > 0;) {
    if (++which[i] < choices[i].values.size()) return true;
    which[i] = 0;
  }
  return false;
}

// The knobs' full names, none twice: swap.mib and machine.swap.mib are one.
absl::Status NameAxes(std::vector<Choice>& choices, const RunConfig& config) {
  const std::vector<Knob> knobs = KnobsOf(config);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::string& name = choices[i].name;
    if (!absl::StartsWith(name, "--")) name = FindKnob(knobs, name)->name;
    for (std::size_t k = 0; k < i; ++k) {
      if (choices[k].name != name) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          choices[i].option, " ", name, " is given twice: its values go into one list"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const std::vector<Choice>& choices, std::size_t seeds, bool force) {
  std::size_t runs = seeds;
  for (const Choice& choice : choices) {
    if (runs > kRunsMax && !force) break;
    if (runs > SIZE_MAX / choice.values.size()) {
      return absl::InvalidArgumentError("the sweep has more runs than can be counted");
    }
    runs *= choice.values.size();
  }
  if (runs <= kRunsMax || force) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the sweep has ", runs, " runs or more: more than ", kRunsMax, " need --force"));
}

std::string ShownName(const std::string& name) {
  return absl::StartsWith(name, "--") ? name.substr(2) : name;
}

}  // namespace

RunConfig SweepPlan::ConfigOf(std::size_t run) const {
  RunConfig config = PointOf(run).config;
  config.seed = SeedOf(run);
  return config;
}

std::string SweepPlan::NameOf(const SweepPoint& point) const {
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", axes[i].name, " = ", point.values[i]);
  }
  return text.empty() ? "the only point" : text;
}

absl::StatusOr<SweepPlan> PlanSweep(const SweepRequest& request, const LoadContext& context) {
  SweepPlan plan;
  LoadRequest load = request.load;
  absl::Status status = ChooseKernel(load, plan.notes);
  if (!status.ok()) return status;
  auto choices = ChoicesOf(load);
  if (!choices.ok()) return choices.status();

  std::vector<std::size_t> which(choices->size(), 0);
  auto first = LoadRunConfig(RequestOf(load, *choices, which), context);
  if (!first.ok()) return first.status();
  auto seeds = ParseSeeds(request.seeds.empty() ? kDefaultSeeds : request.seeds, first->seed);
  if (!seeds.ok()) return seeds.status();
  plan.seeds = *std::move(seeds);
  status = NameAxes(*choices, *first);
  if (status.ok()) status = CheckSize(*choices, plan.seeds.size(), request.force);
  if (!status.ok()) return status;

  for (const Choice& choice : *choices) {
    if (choice.values.size() > 1) plan.axes.push_back({ShownName(choice.name), choice.values});
  }
  LoadContext cached = context;
  std::map<std::string, numa::Topology> topologies;
  cached.topologies = &topologies;
  do {
    auto config = LoadRunConfig(RequestOf(load, *choices, which), cached);
    if (!config.ok()) return config.status();
    SweepPoint point{{}, *std::move(config)};
    point.config.seed = plan.seeds.front();
    for (std::size_t i = 0; i < choices->size(); ++i) {
      const Choice& choice = (*choices)[i];
      if (choice.values.size() > 1) point.values.push_back(choice.values[which[i]]);
    }
    plan.points.push_back(std::move(point));
  } while (Next(*choices, which));
  return plan;
}

absl::Status CheckPoints(const SweepPlan& plan, int workers) {
  std::mutex mu;
  std::size_t worst = plan.points.size();  // the first bad point's complaint, whoever found one
  absl::Status complaint;
  Executor(workers).Sweep(plan.points.size(), [&](std::size_t i) {
    const absl::Status status = CheckRun(plan.points[i].config);
    if (status.ok()) return;
    const std::lock_guard lock(mu);
    if (i > worst) return;
    worst = i;
    complaint = status;
  });
  if (complaint.ok() || plan.axes.empty()) return complaint;
  return absl::Status(complaint.code(),
                      absl::StrCat(plan.NameOf(plan.points[worst]), ": ", complaint.message()));
}

std::string PlanJson(const SweepPlan& plan) {
  nlohmann::ordered_json json;
  const RunConfig& first = plan.points.front().config;
  json["pagestorm"] = kVersion;
  json["workload"] = first.workload;
  json["kernel"] = first.policy.name;
  json["machine"] = first.machine.name;
  json["topology"] = first.machine.topology.Summary();
  json["axes"] = nlohmann::ordered_json::array();
  for (const SweepAxis& axis : plan.axes) {
    json["axes"].push_back({{"name", axis.name}, {"values", axis.values}});
  }
  json["seeds"] = plan.seeds;
  json["config"] = nlohmann::ordered_json::parse(ConfigJsonText(first));
  return json.dump(2);
}

}  // namespace pagestorm::bench
