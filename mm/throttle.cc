#include "mm/throttle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/check.h"
#include "mm/builtin_gates.h"
#include "mm/gate_chain.h"

namespace pagestorm::mm {
namespace {

constexpr std::string_view kNone = "none";

using Types = std::map<std::string, GateType, std::less<>>;

void Add(Types& types, GateType type) {
  std::string name = type.name;
  PS_CHECK(type.make != nullptr, name);
  const bool added = types.emplace(name, std::move(type)).second;
  PS_CHECK(added, "two gates have the same name");
}

// Ordered, so that KnownGates() needs no sorting. Written before machines boot, read afterwards.
Types& Registry() {
  static Types registry = [] {
    Types types;
    Add(types, {std::string(kNone), [](MemoryManager&) { return std::make_unique<Gate>(); }});
    Add(types, ThrottleGateType());
    Add(types, TooManyIsolatedGate());
    Add(types, WaitIffCongestedGate());
    Add(types, PfmemallocGate());
    Add(types, ReclaimThrottleGate());
    return types;
  }();
  return registry;
}

}  // namespace

bool RegisterGate(GateType type) {
  Add(Registry(), std::move(type));
  return true;
}

std::vector<std::string> GateNames(std::string_view text) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), '+');
}

bool HasGate(std::string_view text, std::string_view name) {
  const std::vector<std::string> names = GateNames(text);
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status CheckGates(std::string_view text) {
  std::vector<std::string> names = GateNames(text);
  const bool known = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return Registry().find(name) != Registry().end();
  });
  const bool alone = names.size() == 1 || !HasGate(text, kNone);
  std::sort(names.begin(), names.end());
  const bool once = std::adjacent_find(names.begin(), names.end()) == names.end();
  if (known && alone && once) return absl::OkStatus();
  const auto name_of = [](std::string* out, const GateType* type) { out->append(type->name); };
  return absl::InvalidArgumentError(absl::StrCat(
      "throttle.gate = \"", absl::string_view(text.data(), text.size()), "\": allowed are ",
      absl::StrJoin(KnownGates(), ", ", name_of), "; several but none, each once, joined by +"));
}

std::unique_ptr<Gate> MakeGate(std::string_view text, MemoryManager& mm) {
  const std::vector<std::string> names = GateNames(text);
  const auto make = [&mm](const std::string& name) {
    const auto found = Registry().find(name);
    PS_CHECK(found != Registry().end(), name);
    return found->second.make(mm);
  };
  if (names.size() == 1) return make(names.front());
  std::vector<std::unique_ptr<Gate>> gates;
  for (const std::string& name : names) gates.push_back(make(name));
  return std::make_unique<GateChain>(std::move(gates));
}

std::vector<const GateType*> KnownGates() {
  std::vector<const GateType*> types;
  for (const auto& [name, type] : Registry()) types.push_back(&type);
  return types;
}

std::int64_t GateKnobOf(const MmPolicy& policy, std::string_view gate, std::string_view knob) {
  const auto& set = policy.throttle.gate_knobs;
  const auto value = set.find(std::string(gate) + "." + std::string(knob));
  if (value != set.end()) return value->second;
  const auto type = Registry().find(gate);
  PS_CHECK(type != Registry().end(), std::string(gate));
  for (const GateKnob& known : type->second.knobs) {
    if (known.name == knob) return known.value;
  }
  PS_CHECK(false, "a gate asks for a knob that it was not registered with");
  return 0;
}

}  // namespace pagestorm::mm
