// The commands of the program. Each returns the exit code.
#pragma once

#include <atomic>

#include "bench/cli/args.h"
#include "bench/config/config_paths.h"

namespace pagestorm::bench {

struct CommandContext {
  ConfigRoots roots;
  const std::atomic<bool>* interrupted = nullptr;
};

// Changes a record before it is printed and written; may be empty.
using RecordEdit = std::function<void(struct RunRecord&)>;

int RunCommand(const RunArgs& args, const CommandContext& context, const RecordEdit& edit = {});
int HackbenchCommand(const Args& args, const CommandContext& context);
int SweepCommand(const Args& args, const CommandContext& context);
int ListCommand(const Args& args, const CommandContext& context);
int DemoCommand(const Args& args, const CommandContext& context);
int ReproduceCommand(const Args& args, const CommandContext& context);
int CompareCommand(const Args& args, const CommandContext& context);
int TopologyCommand(const Args& args, const CommandContext& context);

// "pagestorm: <message>" on stderr; returns the exit code for bad input.
int BadInput(const absl::Status& status);

}  // namespace pagestorm::bench
