#include <fstream>

#include "bench/cli/commands.h"
#include "bench/config/knobs.h"
#include "bench/experiments/run.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

// The first sentence of the comment at a file's head: what it says it is.
std::string FirstSentence(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::string line;
  while (std::getline(file, line) && line.rfind("# ", 0) == 0) {
    text += (text.empty() ? "" : " ") + line.substr(2);
    const std::size_t end = text.find(". ");
    if (end != std::string::npos) return text.substr(0, end + 1);
  }
  return text;
}

void ListFiles(const ConfigRoots& roots, const std::string& folder, const std::string& filter) {
  for (const std::string& name : KnownConfigs(roots, folder)) {
    if (name.find(filter) == std::string::npos) continue;
    const auto path = FindConfig(roots, folder, name);
    fmt::print("{:<24} {}\n", name, path.ok() ? FirstSentence(*path) : "");
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
