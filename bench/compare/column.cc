#include "bench/compare/column.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pagestorm::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSeed = "seed-";
constexpr std::string_view kIteration = "iter-";

absl::Status Bad(const std::string& place, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", why));
}

// 12 of "seed-12".
std::optional<std::uint64_t> NumberAfter(std::string_view prefix, const std::string& name) {
  std::uint64_t number = 0;
  if (name.rfind(prefix, 0) != 0) return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(prefix.size()), &number)) return std::nullopt;
  return number;
}

using Numbered = std::map<std::uint64_t, std::string>;

Numbered NumberedIn(const fs::path& directory, std::string_view prefix) {
  Numbered found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const auto number = NumberAfter(prefix, entry.path().filename().string());
    if (number && entry.is_directory(error)) found[*number] = entry.path().string();
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> RunsOf(const std::string& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) return Bad(directory, "no such directory");
  if (!fs::is_directory(directory, error)) return Bad(directory, "is no directory");
  if (fs::exists(fs::path(directory) / "result.json", error)) {
    return std::vector<std::string>{directory};
  }
  const Numbered seeds = NumberedIn(directory, kSeed);
  const Numbered iterations = NumberedIn(directory, kIteration);
  if (seeds.empty() && iterations.empty()) {
    return Bad(directory, "no result.json in it, and no seed-N or iter-N directories of runs");
  }
  if (!seeds.empty() && !iterations.empty()) {
    return Bad(directory, "has both seed-N and iter-N directories: give one kind of them");
  }
  std::vector<std::string> runs;
  for (const auto& [number, path] : seeds.empty() ? iterations : seeds) runs.push_back(path);
  return runs;
}

// Whether two runs may be values of one sample.
absl::Status CheckRepeats(const StoredRun& first, const StoredRun& other) {
  const auto differ = [&](const std::string& what, const std::string& a, const std::string& b) {
    return Bad(other.path,
               absl::StrCat("is no repeat of ", first.path, ": ", what, " is ", b, ", not ", a));
  };
  if (first.workload != other.workload) return differ("workload", first.workload, other.workload);
  if (first.machine != other.machine) return differ("machine", first.machine, other.machine);
  if (first.kernel != other.kernel) return differ("kernel", first.kernel, other.kernel);
  if (first.version != other.version) return differ("pagestorm", first.version, other.version);
  for (const auto& [knob, value] : first.knobs) {
    if (knob == "seed") continue;
    const auto found = other.knobs.find(knob);
    const std::string theirs = found == other.knobs.end() ? "absent" : found->second;
    if (theirs != value) return differ(knob, value, theirs);
  }
  // The threads engine races: there the same seed again is another run.
  if (first.engine == "virtual" && first.seed == other.seed) {
    return Bad(other.path, absl::StrCat("has seed ", other.seed, " as ", first.path,
                                        ": one run counted twice is no second one"));
  }
  return absl::OkStatus();
}

// "c", "b/c", "a/b/c": the last parts of a path.
std::string LastParts(const fs::path& path, std::size_t parts) {
  fs::path last;
  for (auto part = path.end(); part != path.begin() && parts > 0; --parts) {
    --part;
    last = last.empty() ? *part : *part / last;
  }
  return last.string();
}

fs::path Canonical(const std::string& directory) {
  std::error_code error;
  fs::path path = fs::canonical(directory, error);
  return error ? fs::path(directory) : path;
}

absl::Status NameColumns(std::vector<Column>& columns) {
  std::set<fs::path> places;
  for (const Column& column : columns) {
    if (!places.insert(Canonical(column.directory)).second) {
      return Bad(column.directory, "is given twice");
    }
  }
  for (std::size_t parts = 1;; ++parts) {
    std::set<std::string> names;
    for (Column& column : columns) {
      column.name = LastParts(Canonical(column.directory), parts);
      names.insert(column.name);
    }
    if (names.size() == columns.size()) return absl::OkStatus();
  }
}

absl::Status PutFirst(const std::string& baseline, std::vector<Column>& columns) {
  std::string known;
  for (const Column& column : columns)
    absl::StrAppend(&known, known.empty() ? "" : ", ", column.name);
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& column) {
    return column.name == baseline || column.directory == baseline;
  });
  if (found == columns.end()) {
    return Bad("--baseline", absl::StrCat("\"", baseline, "\" is no column: ", known));
  }
  std::rotate(columns.begin(), found, found + 1);
  return absl::OkStatus();
}

}  // namespace

int Column::ooms() const {
  return static_cast<int>(
      std::count_if(runs.begin(), runs.end(), [](const StoredRun& run) { return run.oom(); }));
}

int Column::counting() const {
  return static_cast<int>(
      std::count_if(runs.begin(), runs.end(), [](const StoredRun& run) { return run.counts(); }));
}

int Column::failures() const { return static_cast<int>(runs.size()) - ooms() - counting(); }

std::vector<const StoredRun*> Column::Shown() const {
  std::vector<const StoredRun*> shown;
  for (const StoredRun& run : runs) {
    if (run.counts() || counting() == 0) shown.push_back(&run);
  }
  return shown;
}

absl::StatusOr<Column> ReadColumn(const std::string& directory) {
  const auto paths = RunsOf(directory);
  if (!paths.ok()) return paths.status();
  Column column;
  column.directory = directory;
  for (const std::string& path : *paths) {
    auto run = ReadStoredRun(path);
    if (!run.ok()) return run.status();
    for (const StoredRun& other : column.runs) {
      const absl::Status status = CheckRepeats(other, *run);
      if (!status.ok()) return status;
    }
    column.runs.push_back(*std::move(run));
  }
  return column;
}

absl::StatusOr<std::vector<Column>> ReadColumns(const std::vector<std::string>& directories,
                                                const std::string& baseline) {
  std::vector<Column> columns;
  for (const std::string& directory : directories) {
    auto column = ReadColumn(directory);
    if (!column.ok()) return column.status();
    columns.push_back(*std::move(column));
    const StoredRun& first = columns.front().first();
    const StoredRun& last = columns.back().first();
    if (first.workload != last.workload) {
      return Bad(directory, absl::StrCat("ran ", last.workload, ", and ", columns.front().directory,
                                         " ran ", first.workload, ": nothing to compare"));
    }
  }
  absl::Status status = NameColumns(columns);
  if (status.ok() && !baseline.empty()) status = PutFirst(baseline, columns);
  if (!status.ok()) return status;
  return columns;
}

std::vector<KnobDifference> KnobDifferences(const std::vector<Column>& columns) {
  std::set<std::string> knobs;
  for (const Column& column : columns) {
    for (const auto& [knob, value] : column.first().knobs) knobs.insert(knob);
  }
  std::vector<KnobDifference> differences;
  for (const std::string& knob : knobs) {
    if (knob == "seed") continue;
    KnobDifference difference{knob, {}};
    for (const Column& column : columns) {
      const auto& known = column.first().knobs;
      const auto found = known.find(knob);
      difference.values.push_back(found == known.end() ? "-" : found->second);
    }
    const auto& values = difference.values;
    if (std::any_of(values.begin(), values.end(),
                    [&](const std::string& value) { return value != values.front(); })) {
      differences.push_back(std::move(difference));
    }
  }
  return differences;
}

}  // namespace pagestorm::bench
