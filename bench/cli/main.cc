// The program: parses the command line, calls the command, maps the outcome to an exit code.
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "bench/cli/args.h"
#include "bench/cli/commands.h"

namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "written by a signal handler");

// The first Ctrl-C lets the run stop with what it has; the second one leaves at once.
void OnInterrupt(int) {
  if (g_interrupted.exchange(true)) ::_exit(130);
}

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  using pagestorm::bench::Args;
  const Args args = pagestorm::bench::ParseArgs(argc, argv);
  if (args.exit_code >= 0) return args.exit_code;
  CatchInterrupts();
  const pagestorm::bench::CommandContext context{
      pagestorm::bench::DefaultConfigRoots(PS_BUILT_FROM_CONFIGS), &g_interrupted};
  switch (args.command) {
    case Args::Command::kRun:
      return RunCommand(args.run, context);
    case Args::Command::kHackbench:
      return HackbenchCommand(args, context);
    case Args::Command::kList:
      return ListCommand(args, context);
    case Args::Command::kDemo:
      return DemoCommand(args, context);
    case Args::Command::kTopology:
      return TopologyCommand(args, context);
    case Args::Command::kNone:
      break;
  }
  return 2;
}
