#include "bench/config/knobs.h"

#include <algorithm>
#include <numeric>

#include "bench/config/knob_kinds.h"

namespace pagestorm::bench {
namespace {

Knob ParamKnob(const WorkloadParam& param, std::size_t position) {
  std::string allowed = RangeText(param.min, param.max);
  if (!param.words.empty()) {
    allowed.clear();
    for (const std::string& word : param.words) {
      absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", "\"", word, "\"");
    }
  }
  return {"workload." + param.key,
          KnobScope::kWorkload,
          std::move(allowed),
          param.help,
          [position](const RunConfig& c) {
            const WorkloadParam& p = c.params[position];
            if (p.words.empty()) return Value::Int(p.value);
            return Value::Text(p.words[static_cast<std::size_t>(p.value)]);
          },
          [position](RunConfig& c, const Value& v) {
            WorkloadParam& p = c.params[position];
            if (p.words.empty()) {
              if (v.kind != Value::Kind::kInt) return false;
              if (v.integer < p.min || v.integer > p.max) return false;
              p.value = v.integer;
              return true;
            }
            const auto word = std::find(p.words.begin(), p.words.end(), v.text);
            if (v.kind != Value::Kind::kText || word == p.words.end()) return false;
            p.value = word - p.words.begin();
            return true;
          }};
}

// Levenshtein distance: how many letters must change.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view EngineName(EngineKind kind) {
  return kind == EngineKind::kVirtual ? "virtual" : "threads";
}

std::string RangeText(std::int64_t low, std::int64_t high) {
  if (high == kNoBound) return absl::StrCat("integers >= ", low);
  return absl::StrCat(low, "..", high);
}

const std::vector<Knob>& Knobs() {
  static const std::vector<Knob> all = [] {
    std::vector<Knob> knobs = RunKnobs();
    for (Knob& knob : KernelKnobs()) knobs.push_back(std::move(knob));
    for (Knob& knob : MachineKnobs()) knobs.push_back(std::move(knob));
    return knobs;
  }();
  return all;
}

std::vector<Knob> KnobsOf(const RunConfig& config) {
  std::vector<Knob> knobs = Knobs();
  for (std::size_t i = 0; i < config.params.size(); ++i) {
    knobs.push_back(ParamKnob(config.params[i], i));
  }
  return knobs;
}

const Knob* FindKnob(const std::vector<Knob>& knobs, std::string_view name) {
  for (const Knob& knob : knobs) {
    if (knob.name == name) return &knob;
  }
  const std::string prefixed = absl::StrCat("machine.", std::string(name));
  for (const Knob& knob : knobs) {
    if (knob.scope == KnobScope::kMachine && knob.name == prefixed) return &knob;
  }
  return nullptr;
}

std::string NearestKnob(const std::vector<Knob>& knobs, std::string_view name) {
  std::string nearest;
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const Knob& knob : knobs) {
    const std::size_t distance = EditDistance(name, knob.name);
    if (distance < least) {
      least = distance;
      nearest = knob.name;
    }
  }
  return nearest;
}

std::string KnobHelp(const RunConfig& config, std::string_view filter) {
  std::string text;
  for (const Knob& knob : KnobsOf(config)) {
    if (knob.name.find(filter) == std::string::npos) continue;
    absl::StrAppend(&text, knob.name, " = ", ToToml(knob.get(config)), "\n    ", knob.doc,
                    "\n    allowed: ", knob.allowed, "\n");
  }
  return text;
}

}  // namespace pagestorm::bench
