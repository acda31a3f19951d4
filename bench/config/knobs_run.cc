// Knobs of the run itself: engine, seed, sampling.
#include "bench/config/knob_kinds.h"

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
  return knobs;
}

}  // namespace pagestorm::bench
