#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/reproductions/report.h"
#include "bench/version.h"
#include "fmt/format.h"

namespace pagestorm::bench::reproductions {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity: an open end is null.
Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json Number(const std::optional<double>& value) { return value ? Number(*value) : Json(nullptr); }
Json IntervalJson(const std::optional<stats::Interval>& interval) {
  if (!interval) return nullptr;
  return Json::array({Number(interval->low), Number(interval->high)});
}

Json ClaimJson(const Claim& claim, const Verdict& verdict) {
  const auto value = [&](const std::optional<double>& number, std::int64_t n) {
    return Json{{"value", Number(number)}, {"unit", claim.unit}, {"n", n}};
  };
  Json json;
  json["id"] = verdict.id;
  json["text"] = claim.text;
  json["kind"] = ClaimKindName(claim.kind);
  json["published"] = value(verdict.published, verdict.published_n);
  json["emulated"] = value(verdict.emulated, verdict.emulated_n);
  json["interval"] = IntervalJson(verdict.interval);
  json["band"] = Json::array({Number(claim.band.low), Number(claim.band.high)});
  json["holds"] = verdict.holds;
  json["evaluated"] = verdict.evaluated;
  json["scored"] = verdict.scored;
  json["note"] = verdict.note;
  return json;
}

Json ClaimsJson(const Reproduction& reproduction) {
  Json json = Json::array();
  for (std::size_t i = 0; i < reproduction.verdicts.size(); ++i) {
    json.push_back(ClaimJson(reproduction.table.claims[i], reproduction.verdicts[i]));
  }
  return json;
}

Json CellJson(const Reproduction& reproduction, Cell cell) {
  const Table& table = reproduction.table;
  const OomCount ooms = MeasuredFigures(reproduction.runs).Ooms(cell);
  Json json;
  json["row"] = table.rows[cell.row].value;
  json["label"] = table.rows[cell.row].label;
  json["fitted"] = table.IsFitted(cell);
  json["oom"] = {{"kills", ooms.kills}, {"runs", ooms.runs}};
  if (ooms.runs > 0)
    json["oom"]["interval"] = IntervalJson(stats::WilsonInterval(ooms.kills, ooms.runs));
  for (std::size_t metric = 0; metric < Metrics().size(); ++metric) {
    const CellSummary summary = SummaryOf(reproduction.runs, cell, metric);
    json["metrics"][Metrics()[metric].name] = {{"published", Number(table.Published(cell, metric))},
                                               {"mean", Number(summary.mean)},
                                               {"median", Number(summary.median)},
                                               {"interval", IntervalJson(summary.interval)}};
  }
  return json;
}

Json RunsJson(const Reproduction& reproduction, Cell cell) {
  Json json = Json::array();
  for (std::size_t seed = 0; seed < reproduction.runs.seeds(); ++seed) {
    const RunOutcome& run = reproduction.runs.At(cell, seed);
    if (run.end == RunOutcome::End::kNotRun) continue;
    Json values = Json::object();
    for (std::size_t metric = 0; metric < run.values.size(); ++metric) {
      values[Metrics()[metric].name] = run.values[metric];
    }
    json.push_back({{"seed", seed + 1},
                    {"end", EndName(run.end)},
                    {"oom_kills", run.oom_kills},
                    {"isolated_at_oom", run.isolated_at_oom_permille / 1000.0},
                    {"trouble", run.trouble},
                    {"trace_hash", fmt::format("{:016x}", run.trace_hash)},
                    {"metrics", std::move(values)}});
  }
  return json;
}

Json ColumnsJson(const Reproduction& reproduction) {
  Json json = Json::array();
  for (std::size_t column = 0; column < reproduction.table.columns.size(); ++column) {
    const Column& from = reproduction.table.columns[column];
    Json rows = Json::array();
    for (const std::size_t row : reproduction.rows()) {
      const Cell cell{column, row};
      if (!reproduction.IsRun(cell)) continue;
      Json one = CellJson(reproduction, cell);
      one["runs"] = RunsJson(reproduction, cell);
      rows.push_back(std::move(one));
    }
    json.push_back({{"id", from.id},
                    {"label", from.label},
                    {"kernel", from.kernel},
                    {"set", from.sets},
                    {"rows", std::move(rows)}});
  }
  return json;
}

}  // namespace

std::string ReproductionJson(const Reproduction& reproduction) {
  const Table& table = reproduction.table;
  Json json;
  json["schema"] = "pagestorm.reproduction";
  json["schema_version"] = kReproductionSchema;
  json["pagestorm"] = kVersion;
  json["table"] = table.id;
  json["title"] = table.title;
  json["source"] = table.source;
  json["engine"] = "virtual";
  json["length"] = LengthName(reproduction.length);
  json["seeds"] = reproduction.seeds;
  json["shortened"] = reproduction.shortened;
  json["variants"] = reproduction.variants;
  json["one_offs"] = table.one_offs;
  json["skipped"] = table.skipped;
  json["noise"] = {{"value", table.noise}, {"source", table.noise_source}};
  json["machine"] = reproduction.machine;
  json["partial"] = reproduction.partial;
  json["exit_code"] = static_cast<int>(reproduction.exit_code());
  json["claims"] = ClaimsJson(reproduction);
  for (const Reproduction& varied : reproduction.varied) {
    json["varied"].push_back({{"variants", varied.variants}, {"claims", ClaimsJson(varied)}});
  }
  json["row_knob"] = table.row_knob;
  json["columns"] = ColumnsJson(reproduction);
  json["troubles"] = reproduction.troubles;
  json["host"] = {{"started", reproduction.started}, {"seconds", reproduction.host_s}};
  return json.dump(2) + "\n";
}

}  // namespace pagestorm::bench::reproductions
