// hackbench's own command lines, translated into a run of the workload.
//
// The classic program takes positions and the one of rt-tests takes options, and each ignores the
// other's without a word; here mixing them is an error, and what was read is said.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/cli/commands.h"
#include "bench/experiments/record.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

void Set(RunArgs& run, const std::string& option, const std::string& key,
         const std::string& value) {
  run.load.sets.push_back({option, absl::StrCat("workload.", key, "=", value)});
}

bool HasOptions(const HackbenchArgs& own) {
  return !own.groups.empty() || !own.fan.empty() || !own.loops.empty() || !own.datasize.empty() ||
         own.threads || own.processes;
}

// [-pipe] <groups> [process|thread] [loops]
absl::Status ReadClassic(const HackbenchArgs& own, RunArgs& run) {
  const std::vector<std::string>& words = own.words;
  Set(run, "hackbench", "groups", words[0]);
  if (words.size() > 1) Set(run, "hackbench", "mode", words[1]);
  if (words.size() > 2) Set(run, "hackbench", "loops", words[2]);
  if (words.size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("hackbench ", absl::StrJoin(words, " "),
                     ": allowed: [-pipe] GROUPS [process|thread] [LOOPS]"));
  }
  return absl::OkStatus();
}

void ReadOptions(const HackbenchArgs& own, RunArgs& run) {
  if (!own.groups.empty()) Set(run, "-g", "groups", own.groups);
  if (!own.fan.empty()) Set(run, "-f", "fan", own.fan);
  if (!own.loops.empty()) Set(run, "-l", "loops", own.loops);
  if (!own.datasize.empty()) Set(run, "-s", "datasize", own.datasize);
  Set(run, "-T", "mode", own.threads ? "thread" : "process");
}

// The first lines as the program of rt-tests prints them.
void EditForRtTests(RunRecord& record) {
  const std::int64_t groups = ParamValue(record.config.params, "groups");
  const std::int64_t fan = ParamValue(record.config.params, "fan");
  std::vector<std::string>& out = record.workload.out;
  if (out.empty()) return;
  out[0] =
      fmt::format("Running in {} mode with {} groups using {} file descriptors each (== {} tasks)",
                  ParamValue(record.config.params, "mode") == 0 ? "process" : "threaded", groups,
                  2 * fan, 2 * fan * groups);
  out.insert(out.begin() + 1, fmt::format("Each sender will pass {} messages of {} bytes",
                                          ParamValue(record.config.params, "loops"),
                                          ParamValue(record.config.params, "datasize")));
}

// The same run in pagestorm's own words.
std::string ModernForm(const RunArgs& run) {
  std::string text = "pagestorm run --workload hackbench";
  for (const Setting& set : run.load.sets) absl::StrAppend(&text, " --set ", set.text);
  return text;
}

}  // namespace

int HackbenchCommand(const Args& args, const CommandContext& context) {
  const HackbenchArgs& own = args.hackbench;
  RunArgs run = args.run;
  run.load.workload = "hackbench";
  const bool classic = !own.words.empty();
  if (classic && HasOptions(own)) {
    return BadInput(absl::InvalidArgumentError(
        "hackbench: GROUPS [process|thread] [LOOPS] and the options of rt-tests (-g -f -l -s -T "
        "-P) are two syntaxes: use one"));
  }
  if (own.threads && own.processes) {
    return BadInput(absl::InvalidArgumentError("hackbench: -T contradicts -P"));
  }
  if (own.inet) {
    return BadInput(absl::InvalidArgumentError("hackbench: -i (TCP) is not emulated"));
  }
  if (classic) {
    const absl::Status status = ReadClassic(own, run);
    if (!status.ok()) return BadInput(status);
  } else {
    ReadOptions(own, run);
  }
  if (own.pipe) Set(run, "-pipe", "channel", "pipe");
  fmt::print(stderr, "hackbench: read as {}: {}\n",
             classic ? "the classic syntax" : "the options of rt-tests", ModernForm(run));
  return RunCommand(run, context, classic ? RecordEdit() : RecordEdit(EditForRtTests));
}

}  // namespace pagestorm::bench
