#include "absl/strings/str_cat.h"
#include "bench/cli/commands.h"
#include "bench/compare/comparison.h"
#include "bench/experiments/record.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

Compat CompatOf(const std::string& name) {
  if (name == "2013") return Compat::k2013;
  return name == "2017" ? Compat::k2017 : Compat::kCurrent;
}

absl::Status Check(const CompareArgs& args) {
  const bool table = args.format == "text" || args.format == "mmtests";
  if (!table && args.compat != "current") {
    return absl::InvalidArgumentError(absl::StrCat("--compat ", args.compat, ": --format ",
                                                   args.format,
                                                   " has no generations; text and mmtests have"));
  }
  if (args.format == "tsv" && args.dirs.size() > 1) {
    return absl::InvalidArgumentError(
        "--format tsv: takes one directory, as mmtests' extraction does");
  }
  return absl::OkStatus();
}

std::string Render(const Comparison& comparison, const CompareArgs& args) {
  const Compat compat = CompatOf(args.compat);
  if (args.format == "mmtests") return MmtestsText(comparison, {compat, /*quirks=*/true});
  if (args.format == "json") return ComparisonJson(comparison);
  if (args.format == "csv") return ComparisonCsv(comparison);
  if (args.format == "tsv") return ExtractionTsv(comparison);
  return ComparisonText(comparison, {compat, /*quirks=*/false});
}

// Formats for programs have no place for notes but JSON, and nobody should miss them.
bool NotesGoBeside(const std::string& format) { return format != "text" && format != "json"; }

}  // namespace

int CompareCommand(const Args& args, const CommandContext&) {
  const absl::Status status = Check(args.compare);
  if (!status.ok()) return BadInput(status);
  auto columns = ReadColumns(args.compare.dirs, args.compare.baseline);
  if (!columns.ok()) return BadInput(columns.status());
  const Comparison comparison = Compare(*std::move(columns));
  if (NotesGoBeside(args.compare.format)) {
    for (const std::string& note : Notes(comparison)) fmt::print(stderr, "note: {}\n", note);
  }
  fmt::print("{}", Render(comparison, args.compare));
  return kExitDone;
}

}  // namespace pagestorm::bench
