#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "bench/cli/commands.h"
#include "bench/config/effective.h"
#include "bench/experiments/control_pipe.h"
#include "bench/experiments/report_text.h"
#include "bench/experiments/run.h"
#include "bench/experiments/run_directory.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

// What is worth knowing about the host's part in a run: never part of its results.
std::string HostText(const RunRecord& record) {
  std::string text = fmt::format("host time {:.2f} s", record.host.seconds);
  if (!record.host.threads) return text + "\n";
  const HostReport& host = *record.host.threads;
  text += fmt::format(
      ", {} emulated CPUs on {} host cores, host-bound {:.2f} s, timers at most "
      "{:.1f} ms late\n",
      host.emulated_cpus, host.host_cores, static_cast<double>(host.host_bound.n) / 1e9,
      static_cast<double>(host.slip.max.n) / 1e6);
  if (host.oversubscribed) {
    text +=
        "warning: more emulated CPUs than host cores: lock contention here is that of the host's "
        "scheduler\n";
  }
  return text;
}

int DryRun(RunConfig config) {
  const absl::Status status = PrepareRun(config);
  if (!status.ok()) return BadInput(status);
  const auto booted = Emulator::Boot(config);
  if (!booted.ok()) return BadInput(booted.status());
  fmt::print("ok: {} on machine {}: {}\n", config.workload, config.machine.name,
             (*booted)->topology().Summary());
  for (const std::string& note : (*booted)->topology().notes) fmt::print("note: {}\n", note);
  return kExitDone;
}

int PrintConfig(RunConfig config) {
  const absl::Status status = PrepareRun(config);
  if (!status.ok()) return BadInput(status);
  fmt::print("{}", EffectiveToml(config, config.machine.topology_source));
  return kExitDone;
}

// One run from its configuration to its directory.
absl::StatusOr<RunRecord> RunOnce(RunConfig config, const std::string& out, const RunArgs& args,
                                  const CommandContext& context, const RecordEdit& edit) {
  std::optional<ControlPipe> control;
  if (!args.control.empty()) {
    auto pipe = ControlPipe::Create(args.control);
    if (!pipe.ok()) return pipe.status();
    control.emplace(*std::move(pipe));
    config.control = true;
  }
  std::optional<RunDirectory> directory;
  if (!out.empty()) {
    auto claimed = RunDirectory::Claim(out, args.force);
    if (!claimed.ok()) return claimed.status();
    directory.emplace(*std::move(claimed));
  }
  auto record = ExecuteRun(config, {.progress = !args.quiet,
                                    .interrupted = context.interrupted,
                                    .control = control ? &*control : nullptr});
  if (!record.ok()) return record.status();
  if (edit) edit(*record);
  const std::string text = ReportText(*record);
  // Files first: whoever reads standard output may be gone.
  const absl::Status published = directory ? directory->Publish(*record, text) : absl::OkStatus();
  fmt::print("{}", text);
  fmt::print("{}", HostText(*record));
  if (!published.ok()) return published;
  if (directory) fmt::print("run directory: {}\n", out);
  std::fflush(stdout);
  return record;
}

// The workload's numbers over all runs of a --repeat.
class Spread {
 public:
  void Add(const RunRecord& record) {
    for (const auto& [name, value] : record.workload.numbers) {
      auto found = std::find_if(rows_.begin(), rows_.end(),
                                [&name = name](const auto& row) { return row.first == name; });
      if (found == rows_.end()) {
        rows_.emplace_back(name, std::vector<std::int64_t>());
        found = std::prev(rows_.end());
      }
      found->second.push_back(value);
    }
  }
  void Print() const {
    fmt::print("{:<24} {:>6} {:>18} {:>18} {:>18}\n", "over all runs", "runs", "min", "median",
               "max");
    for (auto [name, values] : rows_) {
      std::sort(values.begin(), values.end());
      fmt::print("{:<24} {:>6} {:>18} {:>18} {:>18}\n", name, values.size(), values.front(),
                 values[values.size() / 2], values.back());
    }
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> rows_;
};

int Repeat(RunConfig config, const RunArgs& args, const CommandContext& context,
           const RecordEdit& edit) {
  Spread spread;
  int worst = kExitDone;
  for (int i = 0; i < args.repeat; ++i, ++config.seed) {
    const std::string out = args.out.empty() ? "" : absl::StrCat(args.out, "/seed-", config.seed);
    const auto record = RunOnce(config, out, args, context, edit);
    if (!record.ok()) return BadInput(record.status());
    fmt::print("\n");
    spread.Add(*record);
    worst = std::max<int>(worst, record->exit_code());
    if (record->exit_code() == kExitInterrupted) break;
  }
  spread.Print();
  return worst;
}

}  // namespace

int BadInput(const absl::Status& status) {
  fmt::print(stderr, "pagestorm: {}\n",
             std::string_view(status.message().data(), status.message().size()));
  return kExitBadInput;
}

int RunCommand(const RunArgs& args, const CommandContext& context, const RecordEdit& edit) {
  auto config = LoadRunConfig(args.load, MakeLoadContext(context.roots));
  if (!config.ok()) return BadInput(config.status());
  if (args.print_config) return PrintConfig(*std::move(config));
  if (args.dry_run) return DryRun(*std::move(config));
  if (args.repeat > 1) return Repeat(*std::move(config), args, context, edit);
  const auto record = RunOnce(*config, args.out, args, context, edit);
  return record.ok() ? record->exit_code() : BadInput(record.status());
}

}  // namespace pagestorm::bench
