#include "bench/compare/stored_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "bench/experiments/result_json.h"

namespace pagestorm::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

absl::Status Bad(const std::string& file, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", why));
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Bad(path, "no such file");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return Bad(path, "cannot be read");
  return text;
}

double Seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

// The machine's zones as /proc/vmstat spells them: "dma32".
std::set<std::string, std::less<>> Zones(const Json& zones) {
  std::set<std::string, std::less<>> names;
  for (const Json& zone : zones) {
    names.insert(absl::AsciiStrToLower(zone.at("zone").get<std::string>()));
  }
  return names;
}

// Throws Json::exception where the file is not as docs/result-json.md says.
void Fill(const Json& json, StoredRun& run) {
  json.at("pagestorm").get_to(run.version);
  json.at("kernel").get_to(run.kernel);
  json.at("engine").get_to(run.engine);
  json.at("seed").get_to(run.seed);
  json.at("machine").at("name").get_to(run.machine);
  json.at("exit_code").get_to(run.exit_code);
  json.at("verdict").get_to(run.verdict);
  json.at("partial").get_to(run.partial);
  json.at("oom").at("kills").get_to(run.oom_kills);
  const Json& workload = json.at("workload");
  workload.at("name").get_to(run.workload);
  for (const auto& [name, value] : workload.at("numbers").items()) {
    run.numbers[name] = value.get<std::int64_t>();
  }
  const Json& cpu = json.at("cpu_ns");
  const auto main_end = json.at("main_end_ns").get<std::int64_t>();
  const auto emulated = json.at("emulated_ns").get<std::int64_t>();
  run.duration = {Seconds(cpu.at("user").get<std::int64_t>()),
                  Seconds(cpu.value("load_system", cpu.at("system").get<std::int64_t>())),
                  Seconds(main_end > 0 ? main_end : emulated)};
  run.vmstat.zones = Zones(json.at("zones"));
  run.vmstat.elapsed_s = run.duration.elapsed;
  for (const auto& [name, value] : json.at("config").items()) run.knobs[name] = value.dump();
}

absl::Status CheckSchema(const Json& json, const std::string& path) {
  if (!json.is_object() || !json.contains("schema") || json["schema"] != "pagestorm.run") {
    return Bad(path, "is no result of a run: schema is not \"pagestorm.run\"");
  }
  const Json version = json.value("schema_version", Json());
  if (version != kResultSchema) {
    return Bad(path, absl::StrCat("schema_version = ", version.dump(), ": this program reads ",
                                  kResultSchema));
  }
  return absl::OkStatus();
}

absl::Status ReadResult(const std::string& path, StoredRun& run) {
  auto text = ReadText(path);
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad(path, "is no JSON: damaged, or cut off");
  const absl::Status schema = CheckSchema(json, path);
  if (!schema.ok()) return schema;
  try {
    Fill(json, run);
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception.out_of_range.403] key 'oom' ..."
    const std::size_t end = what.find("] ");
    return Bad(path,
               "is not as documented: " + (end == std::string::npos ? what : what.substr(end + 2)));
  }
  return absl::OkStatus();
}

absl::StatusOr<VmCounters> ReadVmstat(const std::string& path) {
  auto text = ReadText(path);
  if (!text.ok()) return text.status();
  auto counters = ParseVmstat(*text);
  if (counters.ok()) return counters;
  return absl::InvalidArgumentError(absl::StrCat(path, ":", counters.status().message()));
}

}  // namespace

absl::StatusOr<StoredRun> ReadStoredRun(const std::string& directory) {
  const fs::path place(directory);
  StoredRun run;
  run.path = directory;
  const absl::Status result = ReadResult((place / "result.json").string(), run);
  if (!result.ok()) return result;
  const auto before = ReadVmstat((place / "before/proc/vmstat").string());
  if (!before.ok()) return before.status();
  auto after = ReadVmstat((place / "proc/vmstat").string());
  if (!after.ok()) return after.status();
  for (auto& [name, value] : *after) {
    const auto found = before->find(name);
    run.vmstat.counters[name] = value - (found == before->end() ? 0 : found->second);
  }
  return run;
}

}  // namespace pagestorm::bench
