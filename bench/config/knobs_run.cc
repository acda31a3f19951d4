// Knobs of the run itself: engine, seed, sampling, memory cgroups.
#include <optional>

#include "bench/config/knob_kinds.h"
#include "mm/memcg.h"

namespace pagestorm::bench {
namespace {

constexpr KnobScope kRun = KnobScope::kRun;

Knob SeedKnob() {
  return {"seed",
          kRun,
          "0..9223372036854775807",
          "every random choice of the run follows from it",
          [](const RunConfig& c) { return Value::Int(static_cast<std::int64_t>(c.seed)); },
          [](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kInt || v.integer < 0) return false;
            c.seed = static_cast<std::uint64_t>(v.integer);
            return true;
          }};
}

std::optional<CgroupSpec> CgroupFrom(const Value& table) {
  if (table.kind != Value::Kind::kTable) return std::nullopt;
  CgroupSpec group;
  bool named = false;
  bool limited = false;
  for (const auto& member : table.members) {
    const Value& value = member.value;
    if (member.key == "name" && value.kind == Value::Kind::kText) {
      group.name = value.text;
      named = true;
    } else if (member.key == "parent" && value.kind == Value::Kind::kText) {
      group.parent = value.text;
    } else if (member.key == "limit_mib" && value.kind == Value::Kind::kInt && value.integer >= 1 &&
               value.integer <= CgroupSettings::kNoLimitMib) {
      group.limit_mib = value.integer;
      limited = true;
    } else {
      return std::nullopt;
    }
  }
  return named && limited ? std::optional(group) : std::nullopt;
}

Knob TimeScaleKnob() {
  return {"engine.time_scale",
          kRun,
          "0.001..1000.0",
          "threads engine: host seconds per emulated second; above 1 helps a slow host",
          [](const RunConfig& c) { return Value::Real(c.engine.time_scale); },
          [](RunConfig& c, const Value& v) {
            const bool integer = v.kind == Value::Kind::kInt;
            if (!integer && v.kind != Value::Kind::kReal) return false;
            const double scale = integer ? static_cast<double>(v.integer) : v.real;
            if (!(scale >= 0.001 && scale <= 1000)) return false;
            c.engine.time_scale = scale;
            return true;
          }};
}

std::vector<Knob> EngineKnobs() {
  std::vector<Knob> knobs;
  knobs.push_back(EnumKnob<EngineKind>(
      "engine.kind", kRun, {{"virtual", EngineKind::kVirtual}, {"threads", EngineKind::kThreads}},
      [](auto& c) -> auto& { return c.engine.kind; },
      "virtual: emulated time, reproducible; threads: one OS thread a CPU, real time"));
  knobs.push_back(IntKnob(
      "engine.slack_ns", kRun, 0, 1'000'000, [](auto& c) -> auto& { return c.engine.slack_ns; },
      "virtual engine: ns a CPU may run ahead of the others; above 0 distorts contention"));
  knobs.push_back(BoolKnob(
      "engine.sync_in_cs", kRun, [](auto& c) -> auto& { return c.engine.sync_in_cs; },
      "virtual engine, a test mode: other CPUs also run while a spin lock is held"));
  knobs.push_back(TimeScaleKnob());
  knobs.push_back(BoolKnob(
      "engine.strict", kRun, [](auto& c) -> auto& { return c.engine.strict; },
      "threads engine: a host that cannot keep up fails the run"));
  knobs.push_back(BoolKnob(
      "engine.bind", kRun, [](auto& c) -> auto& { return c.engine.bind; },
      "threads engine: bind emulated CPUs to the host's where the machine is the host"));
  knobs.push_back(IntKnob(
      "engine.stall_after_s", kRun, 1, 1'000'000,
      [](auto& c) -> auto& { return c.engine.stall_after_s; },
      "emulated s without any foreground task on a CPU after which the run counts as stalled"));
  knobs.push_back(IntKnob(
      "engine.time_limit_s", kRun, 0, 1'000'000'000,
      [](auto& c) -> auto& { return c.engine.time_limit_s; },
      "emulated s after which the run is cut; 0: never"));
  return knobs;
}

Knob CgroupListKnob() {
  return {
      "cgroup.groups",
      kRun,
      "a list of { name = \"<text>\", limit_mib = <MiB, 1 or more> } and, for a group below an "
      "earlier one, parent = \"<its name>\"",
      "memory cgroups, where cgroup.count does not say enough; tasks go to those without children",
      [](const RunConfig& c) {
        std::vector<Value> list;
        for (const CgroupSpec& group : c.cgroup.groups) {
          Value table = Value::Table();
          table.Add("name", Value::Text(group.name));
          if (!group.parent.empty()) table.Add("parent", Value::Text(group.parent));
          table.Add("limit_mib", Value::Int(group.limit_mib));
          list.push_back(std::move(table));
        }
        return Value::List(std::move(list));
      },
      [](RunConfig& c, const Value& v) {
        if (v.kind != Value::Kind::kList) return false;
        std::vector<CgroupSpec> groups;
        for (const Value& element : v.list) {
          const auto group = CgroupFrom(element);
          if (!group) return false;
          groups.push_back(*group);
        }
        c.cgroup.groups = std::move(groups);
        return true;
      }};
}

std::vector<Knob> CgroupKnobs() {
  constexpr std::int64_t kNoLimit = CgroupSettings::kNoLimitMib;
  std::vector<Knob> knobs;
  knobs.push_back(IntKnob(
      "cgroup.count", kRun, 0, static_cast<std::int64_t>(mm::kMemCgroupsMax) - 2,
      [](auto& c) -> auto& { return c.cgroup.count; },
      "memory cgroups g0, g1, ... that the workload's tasks are spread over; 0: see "
      "cgroup.groups"));
  knobs.push_back(IntKnob(
      "cgroup.limit_mib", kRun, 1, kNoLimit, [](auto& c) -> auto& { return c.cgroup.limit_mib; },
      "memory.limit_in_bytes of each, MiB; divided by machine.scale. 4294967296: no limit"));
  knobs.push_back(IntKnob(
      "cgroup.total_limit_mib", kRun, 0, kNoLimit,
      [](auto& c) -> auto& { return c.cgroup.total_limit_mib; },
      "their limits together, MiB, divided among them equally; 0: cgroup.limit_mib holds"));
  knobs.push_back(IntKnob(
      "cgroup.parent_limit_mib", kRun, 0, kNoLimit,
      [](auto& c) -> auto& { return c.cgroup.parent_limit_mib; },
      "limit of a group \"all\" above them, MiB; 0: they stand alone"));
  knobs.push_back(CgroupListKnob());
  return knobs;
}

}  // namespace

std::vector<Knob> RunKnobs() {
  std::vector<Knob> knobs;
  knobs.push_back(SeedKnob());
  knobs.push_back(IntKnob(
      "sample_ms", kRun, 0, 1'000'000, [](auto& c) -> auto& { return c.sample_ms; },
      "emulated ms between two points of the time series; 0: no series"));
  knobs.push_back(BoolKnob(
      "stamps", kRun, [](auto& c) -> auto& { return c.stamps; },
      "content stamps in page frames: 8 more bytes of host memory a frame, and proof of content"));
  knobs.push_back(BoolKnob(
      "control", kRun, [](auto& c) -> auto& { return c.control; },
      "the task that writes kernel parameters waits from the start, as --control sets it"));
  for (Knob& knob : EngineKnobs()) knobs.push_back(std::move(knob));
  for (Knob& knob : CgroupKnobs()) knobs.push_back(std::move(knob));
  return knobs;
}

}  // namespace pagestorm::bench
