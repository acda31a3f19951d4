// `pagestorm sweep`: many runs, their figures side by side.
#include "bench/cli/commands.h"
#include "bench/experiments/run.h"
#include "bench/sweep/sweep.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

void PrintHead(const SweepPlan& plan) {
  const RunConfig& first = plan.points.front().config;
  fmt::print("{} on machine {}, kernel {}: {} points x {} seeds = {} runs\n", first.workload,
             first.machine.name, first.policy.name, plan.points.size(), plan.seeds.size(),
             plan.runs());
  for (const std::string& note : plan.notes) fmt::print("note: {}\n", note);
  std::fflush(stdout);
}

}  // namespace

int SweepCommand(const Args& args, const CommandContext& context) {
  const SweepArgs& own = args.sweep;
  const auto plan = PlanSweep(own.request, MakeLoadContext(context.roots));
  if (!plan.ok()) return BadInput(plan.status());
  const absl::Status checked = CheckPoints(*plan, own.workers);
  if (!checked.ok()) return BadInput(checked);
  if (own.dry_run) {
    PrintHead(*plan);
    return kExitDone;
  }
  const auto outcome = RunSweep(*plan, {.out = own.out,
                                        .workers = own.workers,
                                        .progress = !own.quiet,
                                        .interrupted = context.interrupted,
                                        .started = [&plan] { PrintHead(*plan); }});
  if (!outcome.ok()) return BadInput(outcome.status());
  if (outcome->resumed > 0) {
    fmt::print("{} of the runs were there already\n", outcome->resumed);
  }
  fmt::print("\n{}", outcome->table);
  if (!own.out.empty()) {
    fmt::print("{}: points.csv, runs.csv, sweep.json; host-runs.csv has the host's part\n",
               own.out);
  }
  if (outcome->exit_code == kExitInterrupted) {
    fmt::print("interrupted after {} of {} runs{}\n", outcome->runs, plan->runs(),
               own.out.empty() ? "" : ": the same command goes on");
  }
  return outcome->exit_code;
}

}  // namespace pagestorm::bench
