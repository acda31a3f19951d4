#include "bench/sweep/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pagestorm::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kName = "journal.jsonl";
constexpr const char* kSchema = "pagestorm.sweep_journal";
constexpr int kSchemaVersion = 1;

absl::Status Complain(const std::string& directory, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--out ", directory, ": ", why));
}

std::string HeadLine(const std::string& identity) {
  Json json;
  json["schema"] = kSchema;
  json["schema_version"] = kSchemaVersion;
  json["sweep"] = Json::parse(identity);
  return json.dump();
}

std::string Short(const Json& json) {
  constexpr std::size_t kMost = 60;
  const std::string text = json.dump();
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// Where two sweeps differ first: "config.throttle.limit: 3 there, 4 here". Empty: nowhere.
std::string Difference(const Json& there, const Json& here, const std::string& name) {
  if (there == here) return "";
  if (!there.is_object() || !here.is_object()) {
    return absl::StrCat(name, ": ", Short(there), " there, ", Short(here), " here");
  }
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const auto& [key, value] : here.items()) {
    const auto found = there.find(key);
    if (found == there.end()) return absl::StrCat(prefix, key, ": missing there");
    const std::string difference = Difference(*found, value, prefix + key);
    if (!difference.empty()) return difference;
  }
  for (const auto& [key, value] : there.items()) {
    if (here.find(key) == here.end())
      return absl::StrCat(prefix, key, ": ", Short(value), " there");
  }
  return "";
}

absl::Status CheckHead(const std::string& directory, const std::string& line,
                       const std::string& identity) {
  try {
    const Json head = Json::parse(line);
    if (head.at("schema") != kSchema || head.at("schema_version") != kSchemaVersion) {
      return Complain(directory, absl::StrCat(kName, " is of another version of this program"));
    }
    const std::string difference = Difference(head.at("sweep"), Json::parse(identity), "");
    if (difference.empty()) return absl::OkStatus();
    return Complain(directory, absl::StrCat("holds another sweep: ", difference));
  } catch (const nlohmann::json::exception&) {
    return Complain(directory, absl::StrCat(kName, ":1: is no head of a sweep's journal"));
  }
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string ErrorText() { return std::strerror(errno); }

}  // namespace

absl::StatusOr<Journal> Journal::Open(const std::string& directory, const std::string& identity) {
  const fs::path place(directory);
  std::error_code error;
  const fs::path path = place / kName;
  if (fs::exists(place, error) && !fs::exists(path, error)) {
    const bool empty = fs::is_directory(place, error) && fs::is_empty(place, error);
    if (!empty) return Complain(directory, "exists and is no sweep's directory");
  }
  fs::create_directories(place, error);
  if (error) return Complain(directory, absl::StrCat("cannot be created: ", error.message()));
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return Complain(directory, absl::StrCat("cannot be written: ", ErrorText()));
  Journal journal(path.string(), file);
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    return Complain(directory, "another sweep is at work in it");
  }
  const absl::Status status = journal.Read(directory, identity);
  if (!status.ok()) return status;
  return journal;
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      finished_(std::move(other.finished_)) {}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

absl::Status Journal::Read(const std::string& directory, const std::string& identity) {
  std::string text = Contents(path_);
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  if (::ftruncate(file_, static_cast<off_t>(text.size())) != 0) {
    return Complain(directory, absl::StrCat("cannot be written: ", ErrorText()));
  }
  if (text.empty()) return WriteLine(HeadLine(identity));
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (number == 1) {
      const absl::Status status = CheckHead(directory, line, identity);
      if (!status.ok()) return status;
      continue;
    }
    auto row = ParseRow(line);
    if (!row.ok()) {
      return Complain(directory, absl::StrCat(kName, ":", number, ": ", row.status().message()));
    }
    finished_.push_back(*std::move(row));
  }
  std::sort(finished_.begin(), finished_.end(),
            [](const RunRow& a, const RunRow& b) { return a.run < b.run; });
  return absl::OkStatus();
}

absl::Status Journal::Append(const RunRow& row) { return WriteLine(RowText(row)); }

absl::Status Journal::WriteLine(const std::string& line) const {
  const std::string text = line + "\n";
  if (::write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(path_, ": cannot be written: ", ErrorText()));
}

}  // namespace pagestorm::bench
