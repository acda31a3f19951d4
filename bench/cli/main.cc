// The program: parses the command line, calls the command, maps the outcome to an exit code.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "bench/cli/args.h"
#include "bench/cli/commands.h"
#include "bench/experiments/record.h"

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

using pagestorm::bench::Args;
using pagestorm::bench::kExitDone;
using pagestorm::bench::kExitFailed;

int CallCommand(const Args& args, const pagestorm::bench::CommandContext& context) {
  switch (args.command) {
    case Args::Command::kRun:
      return RunCommand(args.run, context);
    case Args::Command::kHackbench:
      return HackbenchCommand(args, context);
    case Args::Command::kSweep:
      return SweepCommand(args, context);
    case Args::Command::kList:
      return ListCommand(args, context);
    case Args::Command::kDemo:
      return DemoCommand(args, context);
    case Args::Command::kReproduce:
      return ReproduceCommand(args, context);
    case Args::Command::kCompare:
      return CompareCommand(args, context);
    case Args::Command::kTopology:
      return TopologyCommand(args, context);
    case Args::Command::kNone:
      break;
  }
  return pagestorm::bench::kExitBadInput;
}

// What a command printed must have arrived: a full disk or a closed pipe is no success.
int CheckPrinted(int exit_code, bool arrived) {
  if (arrived) return exit_code;
  std::fputs("pagestorm: standard output cannot be written\n", stderr);
  return exit_code == kExitDone ? int{kExitFailed} : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const Args args = pagestorm::bench::ParseArgs(argc, argv);
  if (args.exit_code >= 0) return args.exit_code;
  CatchInterrupts();
  const pagestorm::bench::CommandContext context{
      pagestorm::bench::DefaultConfigRoots(PS_BUILT_FROM_CONFIGS), &g_interrupted};
  try {
    const int exit_code = CallCommand(args, context);
    return CheckPrinted(exit_code, std::fflush(stdout) == 0 && std::ferror(stdout) == 0);
  } catch (const std::system_error&) {  // fmt's way to say that a write failed
    return CheckPrinted(kExitFailed, false);
  }
}
