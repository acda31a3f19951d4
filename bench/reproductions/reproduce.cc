#include "bench/reproductions/reproduce.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/config/knobs.h"
#include "bench/experiments/batch.h"
#include "bench/experiments/progress.h"
#include "bench/experiments/run.h"
#include "fmt/format.h"

namespace pagestorm::bench::reproductions {
namespace {

// One run to be made.
struct Point {
  Cell cell;
  std::size_t seed = 0;
};

// Cells of the length, the rows that take longest (the last ones) first, and all of a seed before
// the next: an interrupted table then has whole seeds.
std::vector<Point> PointsOf(const Reproduction& reproduction) {
  std::vector<Point> points;
  const std::vector<std::size_t>& rows = reproduction.rows();
  for (std::size_t seed = 0; seed < reproduction.runs.seeds(); ++seed) {
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      for (std::size_t column = 0; column < reproduction.table.columns.size(); ++column) {
        const Cell cell{column, *row};
        if (reproduction.IsRun(cell)) points.push_back({cell, seed});
      }
    }
  }
  return points;
}

absl::Status Vary(RunConfig& config, const ReproduceOptions& options) {
  if (!(options.disk_speed >= 0.01 && options.disk_speed <= 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--disk ", options.disk_speed, ": allowed: 0.01..100"));
  }
  if (!(options.ram_percent >= -50 && options.ram_percent <= 50)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ram ", options.ram_percent, ": allowed: -50..50 (percent)"));
  }
  numa::DiskSpec& disk = config.machine.disk;
  disk.transfer_mb_per_s =
      std::llround(static_cast<double>(disk.transfer_mb_per_s) * options.disk_speed);
  disk.positioning = {std::llround(static_cast<double>(disk.positioning.n) / options.disk_speed)};
  if (options.ram_percent == 0) return absl::OkStatus();
  if (config.machine.memory_mib.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--ram ", options.ram_percent, ": machine ",
                                                   config.machine.name,
                                                   " has no memory_mib to vary"));
  }
  for (auto& mib : config.machine.memory_mib) {
    mib = std::llround(static_cast<double>(mib) * (1 + options.ram_percent / 100));
  }
  return absl::OkStatus();
}

std::vector<Setting> SetsOf(const std::vector<std::string>& texts, const std::string& origin) {
  std::vector<Setting> sets;
  for (const std::string& text : texts) sets.push_back({origin, text});
  return sets;
}

// The configuration of a cell at a length, complete but for the seed.
absl::StatusOr<RunConfig> ConfigOf(const Table& table, Cell cell, const Length& length,
                                   const ReproduceOptions& options, const LoadContext& context) {
  const Column& column = table.columns[cell.column];
  LoadRequest request;
  request.config = column.experiment.empty() ? table.experiment : column.experiment;
  request.kernel = column.kernel;
  const auto add = [&](const std::vector<Setting>& sets) {
    request.sets.insert(request.sets.end(), sets.begin(), sets.end());
  };
  // Lengths and rows are about the table's own experiment.
  const bool own = !column.experiment.empty();
  if (!own) add(SetsOf(length.sets, table.file + ": lengths: set"));
  add(SetsOf(column.sets, absl::StrCat(table.file, ": column ", column.id, ": set")));
  for (const std::string& set : table.row_sets) {
    if (own) break;
    const std::string value = absl::StrCat(table.rows[cell.row].value);
    add({{table.file + ": row", absl::StrReplaceAll(set, {{"{}", value}})}});
  }
  add(options.sets);
  auto config = LoadRunConfig(request, context);
  if (!config.ok()) return config.status();
  absl::Status status = Vary(*config, options);
  if (status.ok()) status = ValidateRunConfig(*config);
  if (status.ok()) status = PrepareRun(*config);
  if (!status.ok()) return status;
  return config;
}

// Every knob by name, as text.
std::map<std::string, std::string> KnobTexts(const RunConfig& config) {
  std::map<std::string, std::string> texts;
  for (const Knob& knob : KnobsOf(config)) texts[knob.name] = ToToml(knob.get(config));
  return texts;
}

std::string RowLabels(const Table& table, const std::vector<std::size_t>& rows) {
  std::vector<std::string> labels;
  for (const std::size_t row : rows) labels.push_back(table.rows[row].label);
  return absl::StrJoin(labels, ", ");
}

// How this length differs from the full one, read off the configurations themselves.
absl::StatusOr<std::vector<std::string>> Shortened(const Table& table, LengthKind kind, int seeds,
                                                   const LoadContext& context) {
  std::vector<std::string> lines;
  const Length& full = table.length(LengthKind::kFull);
  const Length& length = table.length(kind);
  if (seeds < full.seeds) lines.push_back(absl::StrCat(seeds, " seeds of ", full.seeds));
  std::vector<std::size_t> left_out;
  for (const std::size_t row : full.rows) {
    const auto found = std::find(length.rows.begin(), length.rows.end(), row);
    if (found == length.rows.end()) left_out.push_back(row);
  }
  if (!left_out.empty()) {
    lines.push_back(absl::StrCat(table.row_name, " ", RowLabels(table, left_out), " left out"));
  }
  const Cell cell{0, table.columns[0].rows[0]};
  const auto full_config = ConfigOf(table, cell, full, {}, context);
  if (!full_config.ok()) return full_config.status();
  const auto config = ConfigOf(table, cell, length, {}, context);
  if (!config.ok()) return config.status();
  const auto full_texts = KnobTexts(*full_config);
  for (const auto& [name, text] : KnobTexts(*config)) {
    const std::string& before = full_texts.at(name);
    if (text != before) lines.push_back(absl::StrCat(name, " = ", text, " instead of ", before));
  }
  return lines;
}

std::vector<std::string> VariantsOf(const ReproduceOptions& options) {
  std::vector<std::string> variants;
  if (options.disk_speed != 1) {
    variants.push_back(fmt::format("disk at {} times its speed", options.disk_speed));
  }
  if (options.ram_percent != 0) {
    variants.push_back(fmt::format("{:+} % RAM", options.ram_percent));
  }
  for (const Setting& set : options.sets) variants.push_back(set.text);
  return variants;
}

std::string MachineLine(const RunConfig& config) {
  const MachineFacts facts = FactsOf(config);
  return fmt::format("{}: {} nodes, {} CPUs, {} MiB of {} KiB pages, {} MiB swap",
                     config.machine.name, config.machine.topology.nodes.size(), facts.online_cpus,
                     ToKiB(facts.memory, facts.page_shift) / 1024, 1 << (facts.page_shift.n - 10),
                     ToKiB(facts.swap, facts.page_shift) / 1024);
}

// How much host time is left, from what runs of the same cell, row or table took so far.
class Forecast {
 public:
  explicit Forecast(const std::vector<Point>& points) : points_(points), done_(points.size()) {}

  void Note(std::size_t index, double seconds) {
    done_[index] = true;
    const Cell cell = points_[index].cell;
    spent_ += seconds;
    cells_[{cell.column, cell.row}].Add(seconds);
    rows_[cell.row].Add(seconds);
    all_.Add(seconds);
  }
  [[nodiscard]] int permille() const {
    double left = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!done_[i]) left += Expected(points_[i].cell);
    }
    return spent_ > 0 ? static_cast<int>(1000 * spent_ / (spent_ + left)) : 0;
  }

 private:
  struct Average {
    double sum = 0;
    int n = 0;
    void Add(double value) {
      sum += value;
      ++n;
    }
  };
  [[nodiscard]] double Expected(Cell cell) const {
    const auto same = cells_.find({cell.column, cell.row});
    if (same != cells_.end()) return same->second.sum / same->second.n;
    const auto row = rows_.find(cell.row);
    const Average& average = row != rows_.end() ? row->second : all_;
    return average.n > 0 ? average.sum / average.n : 0;
  }

  const std::vector<Point>& points_;
  std::vector<bool> done_;
  std::map<std::pair<std::size_t, std::size_t>, Average> cells_;
  std::map<std::size_t, Average> rows_;
  Average all_;
  double spent_ = 0;
};

std::string NameOf(const Table& table, const Point& point) {
  return absl::StrCat(table.columns[point.cell.column].label, ", ", table.row_name, " ",
                      table.rows[point.cell.row].label, ", seed ", point.seed + 1);
}

// Runs all points; an error of one (bad input of its machine) is the whole table's.
absl::Status RunPoints(Reproduction& reproduction, const std::vector<Point>& points,
                       const std::map<std::pair<std::size_t, std::size_t>, RunConfig>& configs,
                       const ReproduceOptions& options) {
  absl::Status status;
  Forecast forecast(points);
  std::size_t ended = 0;
  Progress progress(options.progress ? Progress::Mode::kAuto : Progress::Mode::kOff,
                    reproduction.table.id + ":");
  const auto configure = [&](std::size_t i) {
    RunConfig config = configs.at({points[i].cell.column, points[i].cell.row});
    config.seed = points[i].seed + 1;
    return config;
  };
  const auto done = [&](std::size_t i, const absl::StatusOr<RunRecord>& record) {
    if (!record.ok()) {
      if (status.ok()) status = record.status();
      return;
    }
    RunOutcome outcome = Measure(*record);
    forecast.Note(i, outcome.host_s);
    reproduction.runs.At(points[i].cell, points[i].seed) = std::move(outcome);
    ++ended;
    progress.Poll(forecast.permille(), [&] {
      return fmt::format("{} of {} runs; last: {}", ended, points.size(),
                         NameOf(reproduction.table, points[i]));
    });
  };
  RunBatch(points.size(), configure,
           {.workers = options.workers, .interrupted = options.interrupted}, done);
  return status;
}

// What went wrong in single runs, in the order of points.
void GatherTroubles(Reproduction& reproduction, const std::vector<Point>& points) {
  for (const Point& point : points) {
    const RunOutcome& run = reproduction.runs.At(point.cell, point.seed);
    if (run.end == RunOutcome::End::kNotRun) reproduction.partial = true;
    if (run.end != RunOutcome::End::kFailed) continue;
    if (run.exit_code == kExitStalled) reproduction.stalled = true;
    reproduction.troubles.push_back(NameOf(reproduction.table, point) + ": " + run.trouble);
  }
}

// A reproduction of which nothing was run yet, and what to run.
struct Prepared {
  Reproduction reproduction;
  std::vector<Point> points;
  std::map<std::pair<std::size_t, std::size_t>, RunConfig> configs;  // by column and row
};

absl::StatusOr<Prepared> Prepare(const Table& table, const ReproduceOptions& options,
                                 const LoadContext& context) {
  Prepared prepared;
  Reproduction& reproduction = prepared.reproduction;
  reproduction.started = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  reproduction.table = table;
  reproduction.length = options.length;
  reproduction.seeds = options.seeds > 0 ? options.seeds : table.length(options.length).seeds;
  reproduction.variants = VariantsOf(options);
  reproduction.runs = TableRuns(table.columns.size(), table.rows.size(), reproduction.seeds);
  auto shortened = Shortened(table, options.length, reproduction.seeds, context);
  if (!shortened.ok()) return shortened.status();
  reproduction.shortened = *std::move(shortened);

  prepared.points = PointsOf(reproduction);
  for (const Point& point : prepared.points) {
    if (point.seed > 0) break;  // all cells come with the first seed
    auto config = ConfigOf(table, point.cell, table.length(options.length), options, context);
    if (!config.ok()) return config.status();
    prepared.configs[{point.cell.column, point.cell.row}] = *std::move(config);
  }
  if (prepared.points.empty()) {
    return absl::InvalidArgumentError(table.file + ": no cell is to be run");
  }
  reproduction.machine = MachineLine(prepared.configs.begin()->second);
  return prepared;
}

absl::Status RunAndJudge(Prepared& prepared, const ReproduceOptions& options) {
  Reproduction& reproduction = prepared.reproduction;
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = RunPoints(reproduction, prepared.points, prepared.configs, options);
  if (!status.ok()) return status;
  GatherTroubles(reproduction, prepared.points);
  reproduction.verdicts = Judge(reproduction.table, reproduction.rows(), reproduction.runs);
  reproduction.host_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return absl::OkStatus();
}

void AddVariations(std::vector<ReproduceOptions>& all) {
  for (const double disk_speed : {0.5, 2.0}) {
    all.push_back(all.front());
    all.back().disk_speed = disk_speed;
  }
  for (const double ram_percent : {-1.0, 1.0}) {
    all.push_back(all.front());
    all.back().ram_percent = ram_percent;
  }
}

// What went wrong in a variation is the whole's; whether its claims hold is not.
void AddVaried(Reproduction& whole, Reproduction varied) {
  whole.partial = varied.partial;
  whole.stalled = whole.stalled || varied.stalled;
  whole.host_s += varied.host_s;
  const std::string which = absl::StrJoin(varied.variants, ", ");
  for (const std::string& trouble : varied.troubles) {
    whole.troubles.push_back(which + ": " + trouble);
  }
  whole.varied.push_back(std::move(varied));
}

}  // namespace

const char* LengthName(LengthKind kind) {
  switch (kind) {
    case LengthKind::kQuick:
      return "quick";
    case LengthKind::kDefault:
      return "default";
    case LengthKind::kFull:
      return "full";
  }
  return "";
}

bool Reproduction::IsRun(Cell cell) const {
  const std::vector<std::size_t>& column = table.columns[cell.column].rows;
  return std::find(rows().begin(), rows().end(), cell.row) != rows().end() &&
         std::find(column.begin(), column.end(), cell.row) != column.end();
}

ExitCode Reproduction::exit_code() const {
  if (partial) return kExitInterrupted;
  if (stalled) return kExitStalled;
  const bool failed = std::any_of(verdicts.begin(), verdicts.end(),
                                  [](const Verdict& verdict) { return verdict.failed(); });
  return failed || !troubles.empty() ? kExitFailed : kExitDone;
}

absl::StatusOr<Reproduction> Reproduce(const Table& table, const ReproduceOptions& options,
                                       const LoadContext& context) {
  std::vector<ReproduceOptions> all{options};
  if (options.sensitivity) AddVariations(all);
  // Whatever is wrong with one of them is said before the first is run.
  std::vector<Prepared> prepared;
  for (const ReproduceOptions& one : all) {
    auto next = Prepare(table, one, context);
    if (!next.ok()) return next.status();
    prepared.push_back(*std::move(next));
  }
  Reproduction& whole = prepared.front().reproduction;
  for (std::size_t i = 0; i < prepared.size() && !whole.partial; ++i) {
    const absl::Status status = RunAndJudge(prepared[i], all[i]);
    if (!status.ok()) return status;
    if (i > 0) AddVaried(whole, std::move(prepared[i].reproduction));
  }
  return std::move(whole);
}

}  // namespace pagestorm::bench::reproductions
