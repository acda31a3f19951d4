#include "bench/experiments/demo.h"

#include <cstdio>
#include <string>
#include <vector>

#include "bench/experiments/run.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

constexpr const char* kPlain = "2.6.26";
constexpr const char* kThrottled = "2.6.26-throttle-v7";

struct Outcome {
  std::int64_t kills = 0;
  std::int64_t isolated_permille = 0;  // of the LRU: at the kill, else at its worst moment
  std::int64_t reclaimers = 0;         // inside the zone shrinker at once
  std::int64_t swap_outs = 0;
  double emulated_s = 0;  // of the timed part, or until the first kill
  double host_s = 0;
  bool finished = false;
};

std::int64_t Find(const Counters& counters, std::string_view name) {
  for (const auto& [key, value] : counters) {
    if (key == name) return value;
  }
  return 0;
}

Outcome Judge(const RunRecord& record) {
  Outcome outcome;
  outcome.kills = record.oom_kills;
  outcome.isolated_permille = record.peaks.isolated_share_at_max_permille;
  outcome.reclaimers = record.peaks.reclaimers_max;
  outcome.swap_outs = Find(record.after, "pswpout") - Find(record.before, "pswpout");
  if (!record.ooms.empty()) {
    const auto& first = record.ooms.front();
    const std::int64_t all = first.isolated + first.lru;
    if (all > 0) outcome.isolated_permille = 1000 * first.isolated / all;
  }
  const std::int64_t time = Find(record.workload.numbers, "time_ns");
  outcome.finished = time >= 0 && record.oom_kills == 0;
  outcome.emulated_s =
      static_cast<double>(outcome.finished ? time
                                           : Find(record.workload.numbers, "ended_after_ns")) /
      1e9;
  outcome.host_s = record.host.seconds;
  return outcome;
}

void PrintMachine(const RunConfig& config) {
  const std::int64_t groups = ParamValue(config.params, "groups");
  const std::int64_t loops = ParamValue(config.params, "loops");
  const MachineFacts facts = FactsOf(config);
  fmt::print(
      "{} engine: {} nodes, {} CPUs, {} MiB of {} KiB pages, {} MiB swap; "
      "hackbench {} process {} ({} tasks)\n",
      EngineName(config.engine.kind), config.machine.topology.nodes.size(), facts.online_cpus,
      ToKiB(facts.memory, facts.page_shift) / 1024, 1 << (facts.page_shift.n - 10),
      ToKiB(facts.swap, facts.page_shift) / 1024, groups, loops, 40 * groups);
}

void PrintRow(const std::string& label, const Outcome& outcome) {
  fmt::print("  {:<22} {:<12} {:>8.1f} % {:>11} {:>10} {:>6} {:>9.2f} s {:>8.1f} s\n", label,
             outcome.finished ? "finished" : "OOM kill",
             static_cast<double>(outcome.isolated_permille) / 10, outcome.reclaimers,
             outcome.swap_outs, outcome.kills, outcome.emulated_s, outcome.host_s);
}

// Both kernels on the machine of one configuration; the outcomes, plain kernel first. An
// interrupted run ends the list early.
absl::StatusOr<std::vector<Outcome>> RunBoth(const std::string& name, const DemoOptions& options,
                                             const LoadContext& context) {
  std::vector<Outcome> outcomes;
  for (const char* kernel : {kPlain, kThrottled}) {
    const auto file = FindConfig(context.roots, "experiments", name);
    if (!file.ok()) return file.status();
    LoadRequest request;
    request.config = *file;
    request.kernel = kernel;
    request.sets.push_back({"--seed", "seed=" + std::to_string(options.seed)});
    auto config = LoadRunConfig(request, context);
    if (!config.ok()) return config.status();
    if (const auto status = PrepareRun(*config); !status.ok()) return status;
    if (outcomes.empty()) {
      PrintMachine(*config);
      fmt::print("  {:<22} {:<12} {:>10} {:>11} {:>10} {:>6} {:>11} {:>10}\n", "kernel", "outcome",
                 "isolated", "reclaimers", "swap-outs", "kills", "emulated", "host");
    }
    const auto record = ExecuteRun(*config, {.progress = true, .interrupted = options.interrupted});
    if (!record.ok()) return record.status();
    if (record->partial) return outcomes;
    outcomes.push_back(Judge(*record));
    PrintRow(kernel, outcomes.back());
    std::fflush(stdout);
    if (!record->verdict().empty()) fmt::print("  note: {}\n", record->verdict());
  }
  return outcomes;
}

// What was seen, in words that follow from the figures.
void Explain(const Outcome& plain, const Outcome& throttled) {
  if (plain.kills > 0 && throttled.kills == 0) {
    fmt::print(
        "What happened: {} tasks entered page reclaim at the same time, each took up to 32 pages "
        "off the "
        "LRU lists and\nkept them while it waited for the swap disk or a CPU, until {:.0f} % of "
        "all "
        "reclaimable pages were in such private\nbatches.\n"
        "The next task that needed a page found the lists empty, scanned nothing, reclaimed "
        "nothing, and "
        "the kernel\nconcluded that memory was exhausted and killed a process, although nearly "
        "every page "
        "was still reclaimable.\n"
        "The throttle (v7, limit 3) lets at most 3 tasks reclaim a zone at once and the others "
        "wait in "
        "front of it: never more\nthan {:.0f} % of the LRU is isolated, nobody is killed, and {} "
        "pages went "
        "to swap instead of {}.\n",
        plain.reclaimers, static_cast<double>(plain.isolated_permille) / 10,
        static_cast<double>(throttled.isolated_permille) / 10 + 0.5, throttled.swap_outs,
        plain.swap_outs);
    return;
  }
  fmt::print(
      "This time the two kernels differ as the table says; the false OOM {} without the throttle "
      "and {} "
      "with it.\nIt is a race: more groups, or another --seed, move it (docs/model.md).\n",
      plain.kills > 0 ? "occurred" : "did not occur",
      throttled.kills > 0 ? "occurred" : "did not occur");
}

}  // namespace

absl::StatusOr<ExitCode> RunDemo(const DemoOptions& options, const LoadContext& context) {
  fmt::print(
      "pagestorm demo: thousands of tasks run out of memory together on an emulated 2-node "
      "machine.\n"
      "Each engine runs the same storm on Linux 2.6.26 as it was, and with the page reclaim "
      "throttle v7.\n\n");
  std::fflush(stdout);
  std::vector<Outcome> first;
  for (const char* name : {"demo-virtual", "demo-threads"}) {
    const auto outcomes = RunBoth(name, options, context);
    if (!outcomes.ok()) return outcomes.status();
    if (outcomes->size() < 2) {
      fmt::print("interrupted\n");
      return kExitInterrupted;
    }
    if (first.empty()) first = *outcomes;
    fmt::print("\n");
  }
  Explain(first[0], first[1]);
  fmt::print(
      "\nisolated: share of the LRU in private batches, at the kill or at most; reclaimers: most "
      "tasks in "
      "reclaim at once.\nThe virtual engine's figures are the same on every host; the threads "
      "engine "
      "races real threads and varies.\n");
  return kExitDone;
}

}  // namespace pagestorm::bench
