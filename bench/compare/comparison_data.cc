// The formats for programs.
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "bench/compare/comparison.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

using Json = nlohmann::ordered_json;

// null for what is no number: JSON has none of those.
Json Number(double value) { return std::isnan(value) ? Json() : Json(value); }

Json IntervalJson(const std::optional<stats::Interval>& interval) {
  return interval ? Json::array({interval->low, interval->high}) : Json();
}

Json ColumnJson(const Column& column) {
  Json json;
  json["name"] = column.name;
  json["kernel"] = column.first().kernel;
  json["engine"] = column.first().engine;
  json["machine"] = column.first().machine;
  json["pagestorm"] = column.first().version;
  json["seeds"] = Json::array();
  for (const StoredRun& run : column.runs) json["seeds"].push_back(run.seed);
  const auto runs = static_cast<std::int64_t>(column.runs.size());
  json["runs"] = runs;
  json["counting"] = column.counting();
  json["failed"] = column.failures();
  json["oom"] = column.ooms();
  json["oom_share_95"] = IntervalJson(stats::ClopperPearsonInterval(column.ooms(), runs));
  return json;
}

Json AgainstBaseline(const MetricColumn& column) {
  if (!column.welch) return nullptr;
  return {{"difference", column.welch->difference},
          {"interval_95", IntervalJson(column.welch->interval)},
          {"welch_p", column.welch->p},
          {"mann_whitney_p", column.mann_whitney->p}};
}

Json MetricJson(const MetricComparison& each) {
  Json json;
  json["name"] = each.metric.name;
  json["unit"] = each.metric.unit;
  json["better"] = each.metric.better == Better::kHigher ? "higher" : "lower";
  json["columns"] = Json::array();
  const double baseline = Amean(each.columns.front().sample);
  for (const MetricColumn& column : each.columns) {
    const double mean = Amean(column.sample);
    Json cell;
    cell["n"] = column.sample.size();
    cell["values"] = column.sample;
    cell["mean"] = Number(mean);
    cell["stddev"] = Number(Stddev(column.sample, Compat::kCurrent));
    cell["mean_95"] = IntervalJson(column.mean_interval);
    cell["percent_better"] =
        Number(PercentBetter(each.metric.better, baseline, mean, Compat::kCurrent));
    cell["against_baseline"] = AgainstBaseline(column);
    json["columns"].push_back(std::move(cell));
  }
  return json;
}

Json DurationJson(const Comparison& comparison) {
  Json json = Json::array();
  for (const Duration& duration : comparison.durations) {
    json.push_back({{"user_s", duration.user},
                    {"system_s", duration.system},
                    {"elapsed_s", duration.elapsed}});
  }
  return json;
}

Json VmstatJson(const Comparison& comparison) {
  Json json = Json::object();
  for (const VmstatValues& row : VmstatNumbers(comparison.vmstat, Compat::kCurrent)) {
    json[row.label] = row.values;
  }
  return json;
}

Json KnobsJson(const Comparison& comparison) {
  Json json = Json::object();
  for (const KnobDifference& knob : comparison.knobs) {
    Json values = Json::array();
    for (const std::string& value : knob.values) {
      values.push_back(value == "-" ? Json() : Json::parse(value));
    }
    json[knob.knob] = std::move(values);
  }
  return json;
}

// A field of CSV: quoted where it must be.
std::string Field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string CsvNumber(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

class Csv {
 public:
  explicit Csv(const std::vector<Column>& columns) : columns_(columns) {}
  void Add(const std::string& table, const std::string& row, const std::string& operation,
           const std::string& unit, const std::vector<double>& values,
           const std::vector<double>& percents) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      text_ += fmt::format("{},{},{},{},{},{},{}\n", table, Field(row), Field(operation), unit,
                           Field(columns_[i].name), CsvNumber(values[i]),
                           percents.empty() ? "" : CsvNumber(percents[i]));
    }
  }
  [[nodiscard]] std::string Text() const {
    return "table,row,operation,unit,column,value,percent_better\n" + text_;
  }

 private:
  const std::vector<Column>& columns_;
  std::string text_;
};

void AddMetrics(const Comparison& comparison, Csv& csv) {
  for (const MetricComparison& each : comparison.metrics) {
    const auto add = [&](const std::string& row, const std::string& unit, auto value) {
      std::vector<double> values;
      for (const MetricColumn& column : each.columns) values.push_back(value(column));
      csv.Add("metric", row, each.metric.name, unit, values, {});
      return values;
    };
    std::vector<double> means;
    std::vector<double> percents;
    for (const MetricColumn& column : each.columns) {
      means.push_back(Amean(column.sample));
      percents.push_back(
          PercentBetter(each.metric.better, means.front(), means.back(), Compat::kCurrent));
    }
    csv.Add("metric", "mean", each.metric.name, each.metric.unit, means, percents);
    add("n", "", [](const MetricColumn& c) { return static_cast<double>(c.sample.size()); });
    add("stddev", each.metric.unit,
        [](const MetricColumn& c) { return Stddev(c.sample, Compat::kCurrent); });
    add("mean_95_low", each.metric.unit,
        [](const MetricColumn& c) { return c.mean_interval ? c.mean_interval->low : NAN; });
    add("mean_95_high", each.metric.unit,
        [](const MetricColumn& c) { return c.mean_interval ? c.mean_interval->high : NAN; });
    add("welch_p", "", [](const MetricColumn& c) { return c.welch ? c.welch->p : NAN; });
  }
}

void AddRuns(const Comparison& comparison, Csv& csv) {
  const auto add = [&](const std::string& row, auto value) {
    std::vector<double> values;
    for (const Column& column : comparison.columns) {
      values.push_back(static_cast<double>(value(column)));
    }
    csv.Add("runs", row, "", "", values, {});
  };
  add("runs", [](const Column& column) { return column.runs.size(); });
  add("oom", [](const Column& column) { return column.ooms(); });
  add("failed", [](const Column& column) { return column.failures(); });
}

void AddDurations(const Comparison& comparison, Csv& csv) {
  const auto add = [&](const std::string& row, double Duration::*member) {
    std::vector<double> values;
    for (const Duration& duration : comparison.durations) values.push_back(duration.*member);
    csv.Add("duration", row, "", "s", values, {});
  };
  add("User", &Duration::user);
  add("System", &Duration::system);
  add("Elapsed", &Duration::elapsed);
}

std::string Factor(const Metric& metric, const WorkloadNumbers& numbers) {
  if (metric.factor.empty()) return "_";
  const auto found = numbers.find(metric.factor);
  return found == numbers.end() ? "_" : std::to_string(found->second);
}

}  // namespace

std::string ComparisonJson(const Comparison& comparison) {
  Json json;
  json["schema"] = "pagestorm.compare";
  json["schema_version"] = kComparisonSchema;
  json["workload"] = comparison.columns.front().first().workload;
  json["notes"] = Notes(comparison);
  json["columns"] = Json::array();
  for (const Column& column : comparison.columns) json["columns"].push_back(ColumnJson(column));
  json["metrics"] = Json::array();
  for (const MetricComparison& each : comparison.metrics)
    json["metrics"].push_back(MetricJson(each));
  json["duration"] = DurationJson(comparison);
  json["vmstat"] = VmstatJson(comparison);
  json["knobs"] = KnobsJson(comparison);
  return json.dump(2) + "\n";
}

std::string ComparisonCsv(const Comparison& comparison) {
  Csv csv(comparison.columns);
  AddMetrics(comparison, csv);
  AddRuns(comparison, csv);
  AddDurations(comparison, csv);
  for (const VmstatValues& row : VmstatNumbers(comparison.vmstat, Compat::kCurrent)) {
    csv.Add("vmstat", row.label, "", "", row.values, {});
  }
  return csv.Text();
}

std::string ExtractionTsv(const Comparison& comparison) {
  std::string text;
  for (const MetricComparison& each : comparison.metrics) {
    for (const Column& column : comparison.columns) {
      int interval = 0;
      for (const StoredRun& run : column.runs) {
        const auto value = run.counts() ? ValueOf(each.metric, run.numbers) : std::nullopt;
        if (!value) continue;
        text += fmt::format("{}\t{}\t_\t{}\t{}\t_\n", each.metric.name,
                            Factor(each.metric, run.numbers), ++interval, *value);
      }
    }
  }
  return text;
}

}  // namespace pagestorm::bench
