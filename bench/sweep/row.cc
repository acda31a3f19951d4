#include "bench/sweep/row.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "bench/experiments/counters_json.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t Find(const Counters& counters, std::string_view name) {
  const auto found = std::find_if(counters.begin(), counters.end(),
                                  [&](const auto& counter) { return counter.first == name; });
  return found == counters.end() ? 0 : found->second;
}

Counters MeasuresOf(const RunRecord& record) {
  const Engine::CpuTimes& times = record.outcome.times;
  Counters measures{
      {"emulated_ns", record.outcome.run.emulated.n},
      {"user_ns", times.user.n},
      {"system_ns", times.system.n},
      {"load_system_ns", times.load_system().n},
      {"idle_ns", times.idle.n},
      {"shrinker_cpu_ns", record.peaks.shrinker_cpu_ns},
      {"lru_lock_wait_ns", record.lru_wait_in_reclaim_ns()},
      {"lru_lock_wait_share_ppm", record.lru_wait_share_ppm()},
      {"reclaimers_max", record.peaks.reclaimers_max},
      {"isolated_pages_max", record.peaks.isolated_max},
      {"isolated_share_max_permille", record.peaks.isolated_share_max_permille},
      {"tickets_max", record.gate.tickets},
      {"waiters_max", record.gate.waiters},
      {"cut_offs", record.gate.cut_offs},
  };
  for (const char* name : {"pswpout", "pswpin", "pgmajfault", "allocstall"}) {
    measures.emplace_back(name, Find(record.after, name) - Find(record.before, name));
  }
  measures.emplace_back("oom_kills", record.oom_kills);
  return measures;
}

Counters CountersFrom(const Json& json) {
  Counters counters;
  for (const auto& [name, value] : json.items()) {
    counters.emplace_back(name, value.get<std::int64_t>());
  }
  return counters;
}

}  // namespace

bool RunRow::survived() const { return exit_code == kExitDone && Measure("oom_kills") == 0; }

std::int64_t RunRow::Measure(std::string_view name) const { return Find(measures, name); }

RunRow RowOf(std::size_t run, const RunRecord& record) {
  RunRow row;
  row.run = run;
  row.exit_code = record.exit_code();
  row.end = std::string(RunEndName(record.outcome.run.end));
  row.verdict = record.verdict();
  row.trace_hash = fmt::format("{:016x}", record.outcome.run.trace_hash);
  row.numbers = record.workload.numbers;
  row.measures = MeasuresOf(record);
  row.host_seconds = record.host.seconds;
  return row;
}

std::string RowText(const RunRow& row) {
  Json json;
  json["run"] = row.run;
  json["exit_code"] = row.exit_code;
  json["end"] = row.end;
  json["verdict"] = row.verdict;
  json["trace_hash"] = row.trace_hash;
  json["numbers"] = CountersJson(row.numbers);
  json["measures"] = CountersJson(row.measures);
  json["host_seconds"] = row.host_seconds;
  return json.dump();
}

absl::StatusOr<RunRow> ParseRow(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    RunRow row;
    row.run = json.at("run").get<std::size_t>();
    row.exit_code = json.at("exit_code").get<int>();
    row.end = json.at("end").get<std::string>();
    row.verdict = json.at("verdict").get<std::string>();
    row.trace_hash = json.at("trace_hash").get<std::string>();
    row.numbers = CountersFrom(json.at("numbers"));
    row.measures = CountersFrom(json.at("measures"));
    row.host_seconds = json.at("host_seconds").get<double>();
    return row;
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError("is no line of a journal");
  }
}

}  // namespace pagestorm::bench
