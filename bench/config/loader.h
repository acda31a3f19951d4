// From files and a command line to a complete, validated RunConfig.
//
// Layers, each overriding the one before: the knobs' defaults, configs/workloads/<workload>.toml,
// the kernel preset (with what it inherits), the machine file, the run configuration, --set. A file
// with `expanded = true` (a run directory's config.toml) holds every value itself: no preset is
// read.
//
// Every error is InvalidArgument or NotFound with one line: file, line, key, value, what is
// allowed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/config/config_paths.h"
#include "bench/config/knobs.h"
#include "bench/config/run_config.h"

namespace pagestorm::bench {

inline constexpr const char* kDefaultKernel = "2.6.26";
inline constexpr const char* kDefaultMachine = "2n-16c-256m";

// One knob set on the command line.
struct Setting {
  std::string option;  // "--set", "--seed", for messages
  std::string text;    // "throttle.limit=8"
};

// What the command line asks for. Empty: not given.
struct LoadRequest {
  std::string config;  // a run configuration; path
  std::string workload;
  std::string kernel;
  std::string machine;
  std::vector<Setting> sets;
  std::vector<std::string> sysctls;  // "1.5:vm.max_nr_task_per_zone=8"; seconds of emulated time
};

// The parameters of a workload with their defaults; nullopt: there is none of that name.
using WorkloadParams =
    std::function<std::optional<std::vector<WorkloadParam>>(std::string_view name)>;

struct LoadContext {
  ConfigRoots roots;
  WorkloadParams workload_params;
  std::vector<std::string> workloads;  // names, for messages
  // Topologies by their source, loaded once for many configurations. nullptr: none is kept.
  std::map<std::string, numa::Topology>* topologies = nullptr;
};

absl::StatusOr<RunConfig> LoadRunConfig(const LoadRequest& request, const LoadContext& context);

// Sets one knob by name, as --set does. `origin`: "--set", for messages.
absl::Status SetKnob(RunConfig& config, const std::string& name, const Value& value,
                     const std::string& origin);

// Reads only a kernel or a machine, on top of what `config` holds. A machine may also be a
// topology: a file that ends in .xml.
absl::Status ApplyKernelFile(RunConfig& config, const std::string& name,
                             const LoadContext& context);
absl::Status ApplyMachineFile(RunConfig& config, const std::string& name,
                              const LoadContext& context);
// Loads machine.topology_source into machine.topology, or takes it from `context`. One of more than
// `cpus_max` CPUs is refused as soon as they can be counted.
absl::Status LoadMachineTopology(RunConfig& config, const LoadContext& context = {},
                                 std::size_t cpus_max = SIZE_MAX);

// Checks everything that involves more than one knob. What names two toggles names both.
absl::Status ValidateRunConfig(const RunConfig& config);

// "1.5:vm.swappiness=10" -> the write.
absl::StatusOr<SysctlWrite> ParseSysctl(const std::string& text);
// "vm.swappiness=10", blanks allowed around the equals sign -> the write, at time 0.
absl::StatusOr<SysctlWrite> ParseSysctlLine(const std::string& text);

}  // namespace pagestorm::bench
