#include "bench/sweep/sweep_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/experiments/counters_json.h"
#include "bench/sweep/statistics.h"
#include "bench/workloads/workload.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

using Json = nlohmann::ordered_json;

// --- what is said of a point ---

struct Column {
  std::string name;
  std::optional<Spread> spread;  // over the runs it is defined for
};

struct PointRow {
  const SweepPoint* point = nullptr;
  std::size_t runs = 0;      // finished
  std::size_t survived = 0;  // RunRow::survived()
  std::size_t oom = 0;       // with an OOM kill
  std::size_t stalled = 0;   // exit code 3
  std::size_t failed = 0;    // any other exit code but 0
  std::vector<Column> columns;

  [[nodiscard]] const std::optional<Spread>& Of(std::string_view name) const {
    static const std::optional<Spread> kNone;
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const Column& column) { return column.name == name; });
    return found == columns.end() ? kNone : found->spread;
  }
};

// Names in order of first appearance.
std::vector<std::string> NamesOf(const std::vector<RunRow>& rows, Counters RunRow::*member) {
  std::vector<std::string> names;
  for (const RunRow& row : rows) {
    for (const auto& counter : row.*member) {
      if (std::find(names.begin(), names.end(), counter.first) == names.end()) {
        names.push_back(counter.first);
      }
    }
  }
  return names;
}

std::optional<std::int64_t> Find(const Counters& counters, const std::string& name) {
  for (const auto& [key, value] : counters) {
    if (key == name) return value;
  }
  return std::nullopt;
}

// Whether a measure of ours means the same in a run that was cut short by an OOM kill as in one
// that took its course: a time does not.
bool OnlyOfSurvivors(const std::string& measure) {
  return measure == "emulated_ns" || measure == "user_ns" || measure == "system_ns" ||
         measure == "load_system_ns" || measure == "idle_ns";
}

class PointMaker {
 public:
  explicit PointMaker(const SweepResults& results)
      : results_(results),
        numbers_(NamesOf(results.rows, &RunRow::numbers)),
        measures_(NamesOf(results.rows, &RunRow::measures)) {}

  std::vector<PointRow> All() const {
    std::vector<PointRow> points;
    auto row = results_.rows.begin();
    for (std::size_t i = 0; i < results_.plan.points.size(); ++i) {
      std::vector<const RunRow*> rows;
      const std::size_t end = (i + 1) * results_.plan.seeds.size();
      for (; row != results_.rows.end() && row->run < end; ++row) rows.push_back(&*row);
      points.push_back(One(results_.plan.points[i], rows));
    }
    return points;
  }

 private:
  PointRow One(const SweepPoint& point, const std::vector<const RunRow*>& rows) const {
    PointRow result;
    result.point = &point;
    result.runs = rows.size();
    for (const RunRow* row : rows) {
      if (row->survived()) ++result.survived;
      if (row->Measure("oom_kills") > 0) ++result.oom;
      if (row->exit_code == kExitStalled) ++result.stalled;
      if (row->exit_code != kExitDone && row->exit_code != kExitStalled) ++result.failed;
    }
    for (const std::string& name : numbers_) {
      result.columns.push_back({name, Over(rows, &RunRow::numbers, name, true)});
    }
    for (const std::string& name : measures_) {
      result.columns.push_back({name, Over(rows, &RunRow::measures, name, OnlyOfSurvivors(name))});
    }
    return result;
  }

  static std::optional<Spread> Over(const std::vector<const RunRow*>& rows,
                                    Counters RunRow::*member, const std::string& name,
                                    bool survivors) {
    std::vector<std::int64_t> values;
    for (const RunRow* row : rows) {
      if (survivors && !row->survived()) continue;
      if (const auto value = Find(row->*member, name)) values.push_back(*value);
    }
    return SpreadOf(std::move(values));
  }

  const SweepResults& results_;
  const std::vector<std::string> numbers_;
  const std::vector<std::string> measures_;
};

// --- CSV (RFC 4180, but for the line ends) ---

class CsvLine {
 public:
  CsvLine& Add(const std::string& text) {
    if (!text_.empty() || any_) text_ += ',';
    any_ = true;
    if (text.find_first_of(",\"\n\r") == std::string::npos) {
      text_ += text;
      return *this;
    }
    text_ += '"';
    for (const char c : text) {
      if (c == '"') text_ += '"';
      text_ += c;
    }
    text_ += '"';
    return *this;
  }
  CsvLine& Add(std::int64_t value) { return Add(std::to_string(value)); }
  std::string Take() { return std::exchange(text_, {}) + "\n"; }

 private:
  std::string text_;
  bool any_ = false;
};

void AddAxes(CsvLine& line, const SweepPlan& plan) {
  for (const SweepAxis& axis : plan.axes) line.Add(axis.name);
}

void AddSpread(CsvLine& line, const std::optional<Spread>& spread) {
  if (!spread) {
    for (int i = 0; i < 5; ++i) line.Add("");
    return;
  }
  line.Add(Decimal(spread->median)).Add(Decimal(spread->mean));
  line.Add(spread->ci95 ? Decimal(*spread->ci95) : "");
  line.Add(spread->min).Add(spread->max);
}

// --- JSON ---

Json SpreadJson(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  Json json{{"n", spread->n}, {"median", spread->median}, {"mean", spread->mean}};
  json["ci95"] = spread->ci95 ? Json(*spread->ci95) : Json();
  json["min"] = spread->min;
  json["max"] = spread->max;
  return json;
}

Json ValuesJson(const SweepPlan& plan, const SweepPoint& point) {
  Json json = Json::object();
  for (std::size_t i = 0; i < plan.axes.size(); ++i) json[plan.axes[i].name] = point.values[i];
  return json;
}

Json PointJson(const SweepPlan& plan, const PointRow& row) {
  Json json;
  json["values"] = ValuesJson(plan, *row.point);
  json["runs"] = row.runs;
  json["survived"] = row.survived;
  json["oom_runs"] = row.oom;
  json["stalled_runs"] = row.stalled;
  json["failed_runs"] = row.failed;
  json["measures"] = Json::object();
  for (const Column& column : row.columns)
    json["measures"][column.name] = SpreadJson(column.spread);
  return json;
}

Json RunJson(const SweepPlan& plan, const RunRow& row) {
  Json json;
  json["run"] = row.run;
  json["values"] = ValuesJson(plan, plan.PointOf(row.run));
  json["seed"] = plan.SeedOf(row.run);
  json["exit_code"] = row.exit_code;
  json["end"] = row.end;
  json["verdict"] = row.verdict;
  json["trace_hash"] = row.trace_hash;
  json["numbers"] = CountersJson(row.numbers);
  json["measures"] = CountersJson(row.measures);
  return json;
}

// --- the table ---

using Cells = std::vector<std::string>;

std::string Count(const PointRow& row, std::string_view name) {
  const auto& spread = row.Of(name);
  return spread ? fmt::format("{:.0f}", spread->median) : "-";
}

std::string Scaled(const PointRow& row, std::string_view name, double unit, int decimals) {
  const auto& spread = row.Of(name);
  return spread ? fmt::format("{:.{}f}", spread->median / unit, decimals) : "-";
}

// "3.1 %": half the interval's width, of the mean.
std::string IntervalOf(const std::optional<Spread>& spread) {
  if (!spread || !spread->ci95 || spread->mean == 0) return "-";
  return fmt::format("{:.1f} %", 100 * *spread->ci95 / spread->mean);
}

bool IsTime(const std::string& name) { return name.size() > 3 && name.ends_with("_ns"); }

Cells HeadCells(const SweepPlan& plan, const Workload::Headline& headline) {
  Cells cells;
  for (const SweepAxis& axis : plan.axes) cells.push_back(axis.name);
  std::string name(headline.number);
  if (IsTime(name)) name = name.substr(0, name.size() - 3) + " [s]";
  const Cells rest{"n",           name + (headline.more_is_better ? " ^" : " v"),
                   "+-95 %",      "emulated [s]",
                   "lru wait",    "reclaimers",
                   "isolated",    "swap-outs",
                   "maj. faults", "allocstall",
                   "cut-offs",    "OOM"};
  cells.insert(cells.end(), rest.begin(), rest.end());
  return cells;
}

Cells PointCells(const PointRow& row, const std::string& headline, std::size_t seeds) {
  Cells cells = row.point->values;
  const Cells rest{
      row.runs == seeds ? std::to_string(seeds) : absl::StrCat(row.runs, " of ", seeds),
      IsTime(headline) ? Scaled(row, headline, 1e9, 3) : Count(row, headline),
      IntervalOf(row.Of(headline)),
      Scaled(row, "emulated_ns", 1e9, 2),
      row.runs == 0 ? "-" : Scaled(row, "lru_lock_wait_share_ppm", 1e4, 2) + " %",
      Count(row, "reclaimers_max"),
      row.runs == 0 ? "-" : Scaled(row, "isolated_share_max_permille", 10, 1) + " %",
      Count(row, "pswpout"),
      Count(row, "pgmajfault"),
      Count(row, "allocstall"),
      Count(row, "cut_offs"),
      absl::StrCat(row.oom, "/", row.runs,
                   row.stalled > 0 ? absl::StrCat(", ", row.stalled, " stalled") : "",
                   row.failed > 0 ? absl::StrCat(", ", row.failed, " failed") : "")};
  cells.insert(cells.end(), rest.begin(), rest.end());
  return cells;
}

// The columns of the axes to the left, those of figures to the right.
std::string Aligned(const std::vector<Cells>& table, std::size_t left) {
  std::vector<std::size_t> widths(table.front().size(), 0);
  for (const Cells& cells : table) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], cells[i].size());
    }
  }
  std::string text;
  for (const Cells& cells : table) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string gap = i == 0 ? "" : "  ";
      line += gap + (i < left ? fmt::format("{:<{}}", cells[i], widths[i])
                              : fmt::format("{:>{}}", cells[i], widths[i]));
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string RunsCsv(const SweepResults& results) {
  const SweepPlan& plan = results.plan;
  const auto numbers = NamesOf(results.rows, &RunRow::numbers);
  const auto measures = NamesOf(results.rows, &RunRow::measures);
  CsvLine line;
  line.Add("run");
  AddAxes(line, plan);
  for (const char* name : {"seed", "exit_code", "end", "verdict", "trace_hash"}) line.Add(name);
  for (const std::string& name : numbers) line.Add(name);
  for (const std::string& name : measures) line.Add(name);
  std::string text = line.Take();
  for (const RunRow& row : results.rows) {
    CsvLine cells;
    cells.Add(std::to_string(row.run));
    for (const std::string& value : plan.PointOf(row.run).values) cells.Add(value);
    cells.Add(std::to_string(plan.SeedOf(row.run)));
    cells.Add(row.exit_code).Add(row.end).Add(row.verdict).Add(row.trace_hash);
    const auto add = [&](const Counters& counters, const std::string& name) {
      const auto value = Find(counters, name);
      cells.Add(value ? std::to_string(*value) : "");
    };
    for (const std::string& name : numbers) add(row.numbers, name);
    for (const std::string& name : measures) add(row.measures, name);
    text += cells.Take();
  }
  return text;
}

std::string PointsCsv(const SweepResults& results) {
  const std::vector<PointRow> points = PointMaker(results).All();
  CsvLine line;
  AddAxes(line, results.plan);
  for (const char* name : {"runs", "survived", "oom_runs", "stalled_runs", "failed_runs"}) {
    line.Add(name);
  }
  for (const Column& column : points.front().columns) {
    for (const char* what : {"median", "mean", "ci95", "min", "max"}) {
      line.Add(absl::StrCat(column.name, "_", what));
    }
  }
  std::string text = line.Take();
  for (const PointRow& row : points) {
    CsvLine cells;
    for (const std::string& value : row.point->values) cells.Add(value);
    for (const std::size_t count : {row.runs, row.survived, row.oom, row.stalled, row.failed}) {
      cells.Add(std::to_string(count));
    }
    for (const Column& column : row.columns) AddSpread(cells, column.spread);
    text += cells.Take();
  }
  return text;
}

std::string HostCsv(const SweepResults& results) {
  std::string text = "run,host_seconds\n";
  for (const RunRow& row : results.rows) {
    text += fmt::format("{},{:.3f}\n", row.run, row.host_seconds);
  }
  return text;
}

std::string SweepJson(const SweepResults& results) {
  Json json;
  json["schema"] = "pagestorm.sweep";
  json["schema_version"] = kSweepSchema;
  json["complete"] = results.rows.size() == results.plan.runs();
  const Json plan = Json::parse(PlanJson(results.plan));
  for (const auto& [key, value] : plan.items()) json[key] = value;
  json["points"] = Json::array();
  for (const PointRow& row : PointMaker(results).All()) {
    json["points"].push_back(PointJson(results.plan, row));
  }
  json["runs"] = Json::array();
  for (const RunRow& row : results.rows) json["runs"].push_back(RunJson(results.plan, row));
  return json.dump(2) + "\n";
}

std::string SweepTable(const SweepResults& results) {
  const SweepPlan& plan = results.plan;
  const Workload::Headline headline = MakeWorkload(plan.points.front().config.workload)->headline();
  std::vector<Cells> table{HeadCells(plan, headline)};
  for (const PointRow& row : PointMaker(results).All()) {
    table.push_back(PointCells(row, std::string(headline.number), plan.seeds.size()));
  }
  return Aligned(table, plan.axes.size()) +
         "medians over n seeds; the workload's figure and the emulated time of runs without OOM "
         "kill or failure only.\n"
         "^ more is better, v less is better; +-95 %: interval of the mean (Student t); lru wait: "
         "share of the CPU time\ninside the zone shrinker that went into waiting for a zone's "
         "lru_lock; isolated: of a zone's LRU, at most.\n";
}

}  // namespace pagestorm::bench
