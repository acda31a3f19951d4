#include "bench/config/effective.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "bench/config/knobs.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

std::string SecondsText(std::int64_t ns) {
  std::string text = fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
  while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
  return text;
}

std::string SysctlText(const SysctlWrite& write) {
  return fmt::format("{}:{}={}", SecondsText(write.at_ns), write.name, write.value);
}

std::string Head(const RunConfig& config) {
  std::string text =
      "# Every value of one run. \"pagestorm run\" of this file repeats it.\n"
      "expanded = true  # nothing is read from presets\n";
  absl::StrAppend(&text, "kernel = ", ToToml(Value::Text(config.policy.name)), "\n");
  std::vector<Value> sysctls;
  for (const SysctlWrite& write : config.sysctls) {
    sysctls.push_back(Value::Text(SysctlText(write)));
  }
  absl::StrAppend(&text, "sysctl = ", ToToml(Value::List(std::move(sysctls))), "\n");
  return text;
}

}  // namespace

std::string EffectiveToml(const RunConfig& config, const std::string& topology) {
  // Sections in order of first appearance; keys without one come first, as TOML wants it.
  std::vector<std::string> order{""};
  std::map<std::string, std::string> sections{{"", Head(config)}};
  for (const Knob& knob : KnobsOf(config)) {
    const std::size_t dot = knob.name.rfind('.');
    const std::string section = dot == std::string::npos ? "" : knob.name.substr(0, dot);
    const std::string key = dot == std::string::npos ? knob.name : knob.name.substr(dot + 1);
    auto found = sections.find(section);
    if (found == sections.end()) {
      order.push_back(section);
      found = sections.emplace(section, absl::StrCat("\n[", section, "]\n")).first;
      if (section == "workload") {
        absl::StrAppend(&found->second, "name = ", ToToml(Value::Text(config.workload)), "\n");
      }
    }
    Value value = knob.get(config);
    if (knob.name == "machine.topology") value = Value::Text(topology);
    absl::StrAppend(&found->second, key, " = ", ToToml(value), "  # ", knob.doc, "\n");
  }
  std::string text;
  for (const std::string& section : order) text += sections[section];
  if (config.params.empty()) {
    absl::StrAppend(&text, "\n[workload]\nname = ", ToToml(Value::Text(config.workload)), "\n");
  }
  return text;
}

}  // namespace pagestorm::bench
