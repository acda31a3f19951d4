// `pagestorm reproduce`: a published table again, and whether what it claims holds here.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "bench/cli/commands.h"
#include "bench/experiments/run.h"
#include "bench/experiments/run_directory.h"
#include "bench/reproductions/chart.h"
#include "bench/reproductions/report.h"
#include "fmt/format.h"

namespace pagestorm::bench {
using namespace reproductions;
namespace {

namespace fs = std::filesystem;

int ListTables(const LoadContext& context) {
  for (const std::string& name : KnownTables(context.roots)) {
    const auto table = LoadTable(name, context);
    if (!table.ok()) return BadInput(table.status());
    fmt::print("{:<18} {}\n", name, table->title);
    for (const std::string& line : table->skipped) fmt::print("{:<18} skipped: {}\n", "", line);
  }
  return kExitDone;
}

absl::Status WriteFile(const std::string& option, const std::string& path,
                       const std::string& text) {
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  if (file) fs::rename(temporary, path, error);
  if (file && !error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " ", path, ": cannot be written"));
}

std::string ReadIfThere(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What can be said before hours are spent: whether the files can be written.
absl::Status TryPlaces(const ReproduceArgs& own) {
  if (!own.json.empty()) {
    const auto status = WriteFile("--json", own.json, "{}\n");
    if (!status.ok()) return status;
  }
  if (own.markdown.empty()) return absl::OkStatus();
  return WriteFile("--markdown", own.markdown, ReadIfThere(own.markdown));
}

// What repeats the reproduction: the command without its files.
std::string CommandOf(const ReproduceArgs& own) {
  std::string command = absl::StrCat("pagestorm reproduce ", own.table);
  if (own.quick) command += " --quick";
  if (own.full) command += " --full";
  if (own.seeds > 0) absl::StrAppend(&command, " --seeds ", own.seeds);
  if (own.sensitivity) command += " --sensitivity";
  if (own.disk != 1) absl::StrAppend(&command, " --disk ", own.disk);
  if (own.ram != 0) absl::StrAppend(&command, " --ram ", own.ram);
  for (const Setting& set : own.sets) absl::StrAppend(&command, " --set ", set.text);
  return command;
}

absl::Status WriteAll(const Reproduction& reproduction, const ReproduceArgs& own,
                      const std::string& text, RunDirectory* directory) {
  const std::string json = ReproductionJson(reproduction);
  const std::string svg = ReproductionSvg(reproduction);
  const std::string section =
      ReproductionMarkdown(reproduction, {.command = CommandOf(own), .commit = own.commit});
  const std::string& id = reproduction.table.id;
  if (directory != nullptr) {
    const absl::Status status = directory->Publish(
        {{"result.json", json}, {"stdout", text}, {id + ".md", section}, {id + ".svg", svg}});
    if (!status.ok()) return status;
  }
  if (!own.json.empty()) {
    const absl::Status status = WriteFile("--json", own.json, json);
    if (!status.ok()) return status;
  }
  if (own.markdown.empty()) return absl::OkStatus();
  const std::string chart = (fs::path(own.markdown).parent_path() / (id + ".svg")).string();
  const absl::Status status = WriteFile("--markdown", chart, svg);
  if (!status.ok()) return status;
  return WriteFile("--markdown", own.markdown, WithSection(ReadIfThere(own.markdown), id, section));
}

ReproduceOptions OptionsOf(const ReproduceArgs& own, const CommandContext& context) {
  ReproduceOptions options;
  options.length = own.quick  ? LengthKind::kQuick
                   : own.full ? LengthKind::kFull
                              : LengthKind::kDefault;
  options.seeds = own.seeds;
  options.workers = own.workers;
  options.disk_speed = own.disk;
  options.ram_percent = own.ram;
  options.sensitivity = own.sensitivity;
  options.sets = own.sets;
  options.progress = !own.quiet;
  options.interrupted = context.interrupted;
  return options;
}

}  // namespace

int ReproduceCommand(const Args& args, const CommandContext& context) {
  const ReproduceArgs& own = args.reproduce;
  const LoadContext load = MakeLoadContext(context.roots);
  if (own.list) return ListTables(load);
  if (own.table.empty()) {
    return BadInput(absl::InvalidArgumentError(
        "reproduce: which table? pagestorm reproduce --list shows them"));
  }
  const auto table = LoadTable(own.table, load);
  if (!table.ok()) return BadInput(table.status());
  if (const auto status = TryPlaces(own); !status.ok()) return BadInput(status);
  std::optional<RunDirectory> directory;
  if (!own.out.empty()) {
    auto claimed = RunDirectory::Claim(own.out, own.force);
    if (!claimed.ok()) return BadInput(claimed.status());
    directory.emplace(*std::move(claimed));
  }
  const auto reproduction = Reproduce(*table, OptionsOf(own, context), load);
  if (!reproduction.ok()) return BadInput(reproduction.status());
  const std::string text = ReproductionText(*reproduction);
  // Files first: whoever reads standard output may be gone.
  const absl::Status written =
      WriteAll(*reproduction, own, text, directory ? &*directory : nullptr);
  fmt::print("{}host time {:.1f} s\n", text, reproduction->host_s);
  if (!written.ok()) return BadInput(written);
  if (directory) fmt::print("directory: {}\n", own.out);
  return reproduction->exit_code();
}

}  // namespace pagestorm::bench
