#include "bench/experiments/run_directory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/config/effective.h"
#include "bench/experiments/result_json.h"
#include "numa/topology.h"

namespace pagestorm::bench {
namespace {

namespace fs = std::filesystem;

// What config.toml calls the topology before memory, distances and scale are applied.
constexpr const char* kSourceTopology = "source-topology.xml";

absl::Status CannotWrite(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--out ", path, ": ", why));
}

}  // namespace

absl::StatusOr<RunDirectory> RunDirectory::Claim(const std::string& path, bool force) {
  std::error_code error;
  fs::path place = fs::path(path).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();  // a trailing slash
  if (place.empty()) return CannotWrite(path, "is no directory name");
  if (fs::exists(place, error)) {
    const bool is_run = fs::exists(place / "result.json", error);
    const bool is_empty = fs::is_directory(place, error) && fs::is_empty(place, error);
    if (!is_empty && !force) {
      return CannotWrite(path, "exists (--force replaces a run directory)");
    }
    if (!is_empty && !is_run) {
      return CannotWrite(path, "exists and is no run directory: it is not replaced");
    }
  }
  const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
  fs::create_directories(parent, error);
  if (error) return CannotWrite(path, absl::StrCat("cannot be created: ", error.message()));
  const std::string temporary = absl::StrCat(place.string(), ".tmp", ::getpid());
  fs::remove_all(temporary, error);
  if (!fs::create_directory(temporary, error)) {
    return CannotWrite(path, absl::StrCat("cannot be written: ", error.message()));
  }
  return RunDirectory(place.string(), temporary);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}

RunDirectory::~RunDirectory() {
  if (temporary_.empty()) return;
  std::error_code error;
  fs::remove_all(temporary_, error);
}

absl::Status RunDirectory::Write(const std::string& name, const std::string& text) {
  std::error_code error;
  const fs::path path = fs::path(temporary_) / name;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return CannotWrite(path_, absl::StrCat(name, " cannot be written"));
}

absl::Status RunDirectory::Publish(const RunRecord& record, const std::string& text) {
  std::vector<TextFile> files{
      {"result.json", ResultJson(record)},
      {"host.json", HostJson(record)},
      {"config.toml", EffectiveToml(record.config, kSourceTopology)},
      {kSourceTopology, numa::ToXml(record.config.machine.topology)},
      {"topology.xml", numa::ToXml(record.topology)},
      {"dmesg", record.dmesg},
      {"stdout", text},
  };
  if (!record.outcome.run.stall_report.empty()) {
    files.push_back({"stall", record.outcome.run.stall_report});
  }
  for (const TextFile& file : record.files_before) {
    files.push_back({absl::StrCat("before/", file.path), file.text});
  }
  for (const TextFile& file : record.files_after) files.push_back(file);
  return Publish(files);
}

absl::Status RunDirectory::Publish(const std::vector<TextFile>& files) {
  for (const TextFile& file : files) {
    const absl::Status status = Write(file.path, file.text);
    if (!status.ok()) return status;
  }
  std::error_code error;
  fs::remove_all(path_, error);  // Claim() has made sure that it may go
  fs::rename(temporary_, path_, error);
  if (error) return CannotWrite(path_, error.message());
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace pagestorm::bench
