#include "bench/config/loader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/config/toml_file.h"
#include "mm/throttle.h"

namespace pagestorm::bench {
namespace {

namespace fs = std::filesystem;

// A file being read: its name for messages, its directory for the paths in it.
struct Source {
  std::string name;
  std::string directory;
};

Source SourceOf(const std::string& path) { return {path, fs::path(path).parent_path().string()}; }

absl::Status Complain(const Source& source, int line, const std::string& text) {
  const std::string where = line > 0 ? absl::StrCat(source.name, ":", line) : source.name;
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", text));
}

absl::Status NotAllowed(const Source& source, const Knob& knob, const Value& value) {
  return Complain(source, value.line,
                  absl::StrCat(knob.name, " = ", ToToml(value), ": allowed: ", knob.allowed));
}

absl::Status Unknown(const Source& source, const std::vector<Knob>& knobs, const std::string& key,
                     int line, const Value& value) {
  const std::string near = NearestKnob(knobs, key);
  return Complain(source, line,
                  absl::StrCat("unknown key ", key, " = ", ToToml(value),
                               near.empty() ? std::string(": \"pagestorm list knobs\" shows all")
                                            : absl::StrCat(": did you mean ", near, "?")));
}

// A path in a file is looked for beside that file. A name stays a name.
std::string BesideFile(const std::string& path, const Source& source) {
  const bool is_path =
      absl::StrContains(path, "/") || absl::EndsWith(path, ".toml") || absl::EndsWith(path, ".xml");
  if (!is_path || fs::path(path).is_absolute() || source.directory.empty()) return path;
  return (fs::path(source.directory) / path).lexically_normal().string();
}

// A topology file is looked for beside the file that names it.
Value Relocated(const Knob& knob, const Value& value, const Source& source) {
  if (knob.name != "machine.topology" || !absl::EndsWith(value.text, ".xml")) return value;
  Value moved = value;
  moved.text = BesideFile(value.text, source);
  return moved;
}

class TableReader {
 public:
  // scope: what this file may set; kRun may set all.
  TableReader(RunConfig& config, Source source, KnobScope scope)
      : config_(config), source_(std::move(source)), scope_(scope), knobs_(KnobsOf(config)) {}

  // Sets the knobs that `table` names, except the members listed in `skip`. `prefix`: "machine.".
  absl::Status Read(const Value& table, const std::string& prefix,
                    const std::set<std::string>& skip = {}) {
    for (const Member& member : table.members) {
      if (skip.count(member.key) > 0) continue;
      absl::Status status = ReadMember(prefix + member.key, member.value);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadMember(const std::string& name, const Value& value) {
    const Knob* knob = Allowed(name);
    if (knob != nullptr) {
      if (!knob->set(config_, Relocated(*knob, value, source_))) {
        return NotAllowed(source_, *knob, value);
      }
      return absl::OkStatus();
    }
    if (value.kind == Value::Kind::kTable && IsSection(name)) return Read(value, name + ".");
    return Unknown(source_, knobs_, name, value.line, value);
  }
  const Knob* Allowed(const std::string& name) const {
    for (const Knob& knob : knobs_) {
      if (knob.name == name && (scope_ == KnobScope::kRun || scope_ == knob.scope)) return &knob;
    }
    return nullptr;
  }
  bool IsSection(const std::string& name) const {
    return std::any_of(knobs_.begin(), knobs_.end(),
                       [&](const Knob& knob) { return absl::StartsWith(knob.name, name + "."); });
  }

  RunConfig& config_;
  const Source source_;
  const KnobScope scope_;
  const std::vector<Knob> knobs_;
};

// The text of a member, "" if absent. Another type is an error.
absl::StatusOr<std::string> TextMember(const Value& table, const std::string& key,
                                       const Source& source) {
  const Value* value = table.Find(key);
  if (value == nullptr) return std::string();
  if (value->kind != Value::Kind::kText) {
    return Complain(source, value->line,
                    absl::StrCat(key, " = ", ToToml(*value), ": allowed: a text"));
  }
  return value->text;
}

absl::Status ChooseWorkload(RunConfig& config, const std::string& name, const Source& source,
                            int line, const LoadContext& context) {
  auto params = context.workload_params(name);
  if (!params) {
    return Complain(source, line,
                    absl::StrCat("workload = \"", name,
                                 "\": allowed: ", absl::StrJoin(context.workloads, ", ")));
  }
  config.workload = name;
  config.params = std::move(*params);
  const auto defaults = FindConfig(context.roots, "workloads", name);
  if (!defaults.ok()) return absl::OkStatus();  // a workload without a file has its own defaults
  const auto table = ReadTomlFile(*defaults);
  if (!table.ok()) return table.status();
  const Value* section = table->Find("workload");
  if (section == nullptr || section->kind != Value::Kind::kTable) {
    return Complain(SourceOf(*defaults), 0, "has no [workload]");
  }
  return TableReader(config, SourceOf(*defaults), KnobScope::kWorkload)
      .Read(*section, "workload.", {"name"});
}

absl::Status ApplyKernel(RunConfig& config, const std::string& name, const LoadContext& context,
                         std::vector<std::string>& chain) {
  const auto path = FindConfig(context.roots, "kernels", name);
  if (!path.ok()) return path.status();
  const Source source = SourceOf(*path);
  if (std::find(chain.begin(), chain.end(), *path) != chain.end()) {
    return Complain(source, 0, absl::StrCat("inherits = \"", name, "\": it inherits itself"));
  }
  chain.push_back(*path);
  const auto table = ReadTomlFile(*path);
  if (!table.ok()) return table.status();
  const auto parent = TextMember(*table, "inherits", source);
  if (!parent.ok()) return parent.status();
  if (!parent->empty()) {
    absl::Status status = ApplyKernel(config, BesideFile(*parent, source), context, chain);
    if (!status.ok())
      return absl::InvalidArgumentError(
          absl::StrCat(source.name, ": inherits \"", *parent, "\": ", status.message()));
  }
  return TableReader(config, source, KnobScope::kKernel).Read(*table, "", {"inherits"});
}

absl::Status ApplyMachine(RunConfig& config, const std::string& name, const LoadContext& context,
                          std::vector<std::string>& chain) {
  const auto path = FindConfig(context.roots, "machines", name);
  if (!path.ok()) return path.status();
  const Source source = SourceOf(*path);
  if (std::find(chain.begin(), chain.end(), *path) != chain.end()) {
    return Complain(source, 0, absl::StrCat("inherits = \"", name, "\": it inherits itself"));
  }
  chain.push_back(*path);
  const auto table = ReadTomlFile(*path);
  if (!table.ok()) return table.status();
  const auto parent = TextMember(*table, "inherits", source);
  if (!parent.ok()) return parent.status();
  if (parent->empty()) {
    if (table->Find("topology") == nullptr) return Complain(source, 0, "has no topology");
  } else {
    absl::Status status = ApplyMachine(config, BesideFile(*parent, source), context, chain);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.name, ": inherits \"", *parent, "\": ", status.message()));
    }
  }
  config.machine.name = fs::path(*path).stem().string();
  return TableReader(config, source, KnobScope::kMachine).Read(*table, "machine.", {"inherits"});
}

struct Choices {
  std::string workload, kernel, machine;
  int workload_line = 0;
  bool expanded = false;
  const Value* workload_section = nullptr;
  const Value* machine_section = nullptr;
};

// [workload] name = ... or workload = "...", machine = "..." or [machine].
absl::StatusOr<Choices> ReadChoices(const Value& file, const Source& source) {
  Choices choices;
  if (const Value* workload = file.Find("workload"); workload != nullptr) {
    choices.workload_line = workload->line;
    if (workload->kind == Value::Kind::kTable) {
      choices.workload_section = workload;
      const auto name = TextMember(*workload, "name", source);
      if (!name.ok()) return name.status();
      choices.workload = *name;
    } else if (workload->kind == Value::Kind::kText) {
      choices.workload = workload->text;
    } else {
      return Complain(source, workload->line, "workload: allowed: a name or [workload]");
    }
  }
  const auto kernel = TextMember(file, "kernel", source);
  if (!kernel.ok()) return kernel.status();
  choices.kernel = BesideFile(*kernel, source);
  const Value* machine = file.Find("machine");
  if (machine != nullptr && machine->kind == Value::Kind::kTable) {
    choices.machine_section = machine;
  } else {
    const auto name = TextMember(file, "machine", source);
    if (!name.ok()) return name.status();
    choices.machine = BesideFile(*name, source);
  }
  const Value* expanded = file.Find("expanded");
  if (expanded != nullptr && expanded->kind != Value::Kind::kBool) {
    return Complain(source, expanded->line, "expanded: allowed: true, false");
  }
  choices.expanded = expanded != nullptr && expanded->boolean;
  return choices;
}

absl::Status ReadSysctls(RunConfig& config, const Value& file, const Source& source) {
  const Value* list = file.Find("sysctl");
  if (list == nullptr) return absl::OkStatus();
  const std::string allowed = "sysctl: allowed: a list of \"<seconds>:<name>=<integer>\"";
  if (list->kind != Value::Kind::kList) return Complain(source, list->line, allowed);
  for (const Value& element : list->list) {
    if (element.kind != Value::Kind::kText) return Complain(source, element.line, allowed);
    const auto write = ParseSysctl(element.text);
    if (!write.ok()) return Complain(source, element.line, std::string(write.status().message()));
    config.sysctls.push_back(*write);
  }
  return absl::OkStatus();
}

// The layers below the run configuration.
absl::Status ApplyBase(RunConfig& config, const LoadRequest& request, const Choices& choices,
                       const Source& source, const LoadContext& context) {
  const bool chosen = !request.workload.empty();
  const std::string workload = chosen                      ? request.workload
                               : !choices.workload.empty() ? choices.workload
                                                           : config.workload;
  const Source from = chosen ? Source{"--workload", ""} : source;
  absl::Status status =
      ChooseWorkload(config, workload, from, chosen ? 0 : choices.workload_line, context);
  if (!status.ok()) return status;

  std::string kernel = !request.kernel.empty() ? request.kernel : choices.kernel;
  if (kernel.empty()) kernel = kDefaultKernel;
  if (choices.expanded && request.kernel.empty()) {
    config.policy.name = kernel;
  } else {
    status = ApplyKernelFile(config, kernel, context);
    if (!status.ok()) return status;
  }
  std::string machine = !request.machine.empty() ? request.machine : choices.machine;
  if (machine.empty() && choices.machine_section == nullptr) machine = kDefaultMachine;
  return machine.empty() ? absl::OkStatus() : ApplyMachineFile(config, machine, context);
}

absl::Status ApplyRunFile(RunConfig& config, const LoadRequest& request, const Value& file,
                          const Choices& choices, const Source& source) {
  std::set<std::string> skip{"workload", "kernel", "machine", "expanded", "sysctl"};
  if (choices.expanded && !request.kernel.empty()) {  // another kernel: its toggles count
    for (const Knob& knob : Knobs()) {
      if (knob.scope == KnobScope::kKernel) skip.insert(knob.name.substr(0, knob.name.find('.')));
    }
  }
  TableReader reader(config, source, KnobScope::kRun);
  absl::Status status = reader.Read(file, "", skip);
  if (!status.ok()) return status;
  if (choices.workload_section != nullptr && choices.workload == config.workload) {
    status = reader.Read(*choices.workload_section, "workload.", {"name"});
    if (!status.ok()) return status;
  }
  if (choices.machine_section != nullptr && request.machine.empty()) {
    status = reader.Read(*choices.machine_section, "machine.");
    if (!status.ok()) return status;
  }
  return ReadSysctls(config, file, source);
}

// A toggle of a gate that is not there: only the command line asks for it knowingly.
absl::Status CheckSets(const RunConfig& config, const std::vector<Setting>& sets) {
  const std::string& gates = config.policy.throttle.gate;
  for (const Setting& set : sets) {
    const std::string name = set.text.substr(0, set.text.find('='));
    if (!absl::StartsWith(name, "throttle.") || name == "throttle.gate") continue;
    // throttle.<knob> of the gate "throttle", or throttle.<gate>.<knob>.
    const std::vector<std::string> parts = absl::StrSplit(name, '.');
    const std::string owner = parts.size() > 2 ? parts[1] : "throttle";
    if (mm::HasGate(gates, owner)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        set.option, " ", name, " contradicts throttle.gate = \"", gates, "\" of kernel ",
        config.policy.name, ": choose a kernel with that gate, or --set throttle.gate=", owner));
  }
  return absl::OkStatus();
}

// Each node has a service CPU.
absl::Status TooManyCpus(const RunConfig& config, const numa::Topology& topology) {
  return absl::InvalidArgumentError(
      absl::StrCat("machine ", config.machine.name, ": ", topology.cpu_count(), " CPUs and ",
                   topology.node_count(), " nodes: allowed: at most ", kMaxCpus, " together"));
}

absl::Status ApplySets(RunConfig& config, const std::vector<Setting>& sets) {
  for (const Setting& set : sets) {
    const std::size_t equals = set.text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(set.option, " ", set.text, ": allowed: <knob>=<value>"));
    }
    const absl::Status status = SetKnob(config, set.text.substr(0, equals),
                                        ParseScalar(set.text.substr(equals + 1)), set.option);
    if (!status.ok()) return status;
  }
  return CheckSets(config, sets);
}

}  // namespace

absl::Status SetKnob(RunConfig& config, const std::string& name, const Value& value,
                     const std::string& origin) {
  const std::vector<Knob> knobs = KnobsOf(config);
  const Source source{origin, ""};
  const Knob* knob = FindKnob(knobs, name);
  if (knob == nullptr) return Unknown(source, knobs, name, 0, value);
  if (knob->set(config, value)) return absl::OkStatus();
  // A list of one may come without brackets, and a text may look like a number.
  if (knob->set(config, Value::List({value}))) return absl::OkStatus();
  if (value.kind != Value::Kind::kText && knob->set(config, Value::Text(ToToml(value)))) {
    return absl::OkStatus();
  }
  return NotAllowed(source, *knob, value);
}

absl::Status ApplyKernelFile(RunConfig& config, const std::string& name,
                             const LoadContext& context) {
  std::vector<std::string> chain;
  absl::Status status = ApplyKernel(config, name, context, chain);
  config.policy.name = absl::EndsWith(name, ".toml") ? fs::path(name).stem().string() : name;
  return status;
}

absl::Status ApplyMachineFile(RunConfig& config, const std::string& name,
                              const LoadContext& context) {
  if (absl::EndsWith(name, ".xml")) {
    config.machine.name = fs::path(name).stem().string();
    config.machine.topology_source = name;
    return absl::OkStatus();
  }
  std::vector<std::string> chain;
  return ApplyMachine(config, name, context, chain);
}

absl::Status LoadMachineTopology(RunConfig& config, const LoadContext& context,
                                 std::size_t cpus_max) {
  if (context.topologies != nullptr) {
    const auto known = context.topologies->find(config.machine.topology_source);
    if (known != context.topologies->end()) {
      config.machine.topology = known->second;
      return absl::OkStatus();
    }
  }
  const auto loaded = numa::LoadTopology(config.machine.topology_source, "");
  if (!loaded.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("machine ", config.machine.name, ": topology: ", loaded.status().message()));
  }
  if (loaded->cpu_count() > cpus_max) return TooManyCpus(config, *loaded);
  // Through XML and back, so that a run directory's copy is the same machine to the last detail.
  auto copy = numa::Topology::FromXml(numa::ToXml(*loaded), loaded->name);
  if (!copy.ok()) return copy.status();
  config.machine.topology = *std::move(copy);
  config.machine.topology.notes = loaded->notes;
  if (context.topologies != nullptr) {
    (*context.topologies)[config.machine.topology_source] = config.machine.topology;
  }
  return absl::OkStatus();
}

absl::Status ValidateRunConfig(const RunConfig& config) {
  absl::Status status = numa::Validate(config.machine);
  if (!status.ok()) return status;
  const numa::Topology& topology = config.machine.topology;
  if (topology.cpu_count() + topology.node_count() > kMaxCpus) return TooManyCpus(config, topology);
  status = config.policy.Validate();
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", config.policy.name, ": ", status.message()));
  }
  if (const auto cgroups = CgroupsOf(config); !cgroups.ok()) return cgroups.status();
  status = config.sched.Validate();
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", config.policy.name, ": ", status.message()));
  }
  const bool virtual_engine = config.engine.kind == EngineKind::kVirtual;
  if (virtual_engine && config.engine.strict) {
    return absl::InvalidArgumentError(
        "engine.strict = true contradicts engine.kind = \"virtual\": only the threads engine can "
        "fall behind its host");
  }
  if (!virtual_engine && (config.engine.slack_ns > 0 || config.engine.sync_in_cs)) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.engine.sync_in_cs ? "engine.sync_in_cs" : "engine.slack_ns",
                     " contradicts engine.kind = \"threads\": it belongs to the virtual engine"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SysctlWrite> ParseSysctl(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::size_t equals = text.rfind('=');
  if (colon != std::string::npos && equals != std::string::npos && colon + 1 < equals) {
    const Value at = ParseScalar(text.substr(0, colon));
    const Value value = ParseScalar(text.substr(equals + 1));
    const bool integer = at.kind == Value::Kind::kInt;
    const double seconds = integer ? static_cast<double>(at.integer) : at.real;
    if ((integer || at.kind == Value::Kind::kReal) && value.kind == Value::Kind::kInt &&
        seconds >= 0 && seconds <= 1e9) {
      return SysctlWrite{std::llround(seconds * 1e9), text.substr(colon + 1, equals - colon - 1),
                         value.integer};
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sysctl \"", text, "\": allowed: <seconds>:<name>=<integer>"));
}

absl::StatusOr<SysctlWrite> ParseSysctlLine(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto part = [&](std::size_t begin, std::size_t size) {
    return std::string(absl::StripAsciiWhitespace(text.substr(begin, size)));
  };
  if (equals != std::string::npos) {
    const std::string name = part(0, equals);
    const Value value = ParseScalar(part(equals + 1, std::string::npos));
    if (!name.empty() && value.kind == Value::Kind::kInt)
      return SysctlWrite{0, name, value.integer};
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": allowed: <name>=<integer>"));
}

absl::StatusOr<RunConfig> LoadRunConfig(const LoadRequest& request, const LoadContext& context) {
  RunConfig config;
  Value file = Value::Table();
  Source source{"the default configuration", ""};
  if (!request.config.empty()) {
    auto table = ReadTomlFile(request.config);
    if (!table.ok()) return table.status();
    file = *std::move(table);
    source = SourceOf(request.config);
  }
  const auto choices = ReadChoices(file, source);
  if (!choices.ok()) return choices.status();
  absl::Status status = ApplyBase(config, request, *choices, source, context);
  if (status.ok()) status = ApplyRunFile(config, request, file, *choices, source);
  if (status.ok()) status = ApplySets(config, request.sets);
  if (!status.ok()) return status;
  for (const std::string& text : request.sysctls) {
    auto write = ParseSysctl(text);
    if (!write.ok()) return write.status();
    config.sysctls.push_back(*std::move(write));
  }
  std::stable_sort(config.sysctls.begin(), config.sysctls.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  status = LoadMachineTopology(config, context, kMaxCpus);
  if (status.ok()) status = ValidateRunConfig(config);
  if (!status.ok()) return status;
  return config;
}

}  // namespace pagestorm::bench
