#include <fstream>

#include "bench/cli/commands.h"
#include "bench/config/knobs.h"
#include "bench/experiments/run.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

// The first comment line of a file: what it says it is.
std::string FirstComment(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.rfind("# ", 0) != 0) return "";
  return line.substr(2);
}

void ListFiles(const ConfigRoots& roots, const std::string& folder, const std::string& filter) {
  for (const std::string& name : KnownConfigs(roots, folder)) {
    if (name.find(filter) == std::string::npos) continue;
    const auto path = FindConfig(roots, folder, name);
    fmt::print("{:<24} {}\n", name, path.ok() ? FirstComment(*path) : "");
  }
}

void ListWorkloads(const std::string& filter) {
  for (const std::string& name : KnownWorkloads()) {
    if (name.find(filter) == std::string::npos) continue;
    fmt::print("{}\n", name);
    const std::unique_ptr<Workload> workload = MakeWorkload(name);
    for (const WorkloadParam& param : workload->params()) {
      fmt::print("    {:<16} {}\n", param.key, param.help);
    }
  }
}

// The knobs with the defaults of the default kernel and machine, and of every workload.
int ListKnobs(const CommandContext& context, const std::string& filter) {
  const LoadContext load = MakeLoadContext(context.roots);
  const auto config = LoadRunConfig({}, load);
  if (!config.ok()) return BadInput(config.status());
  fmt::print("{}", KnobHelp(*config, filter));
  return kExitDone;
}

}  // namespace

int ListCommand(const Args& args, const CommandContext& context) {
  if (args.list_what == "knobs") return ListKnobs(context, args.list_filter);
  if (args.list_what == "workloads") {
    ListWorkloads(args.list_filter);
  } else {
    ListFiles(context.roots, args.list_what, args.list_filter);
  }
  return kExitDone;
}

}  // namespace pagestorm::bench
