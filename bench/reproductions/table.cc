#include "bench/reproductions/table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/config/toml_file.h"
#include "bench/reproductions/fields.h"
#include "bench/reproductions/metric.h"

namespace pagestorm::bench::reproductions {
namespace {

namespace fs = std::filesystem;

constexpr std::pair<const char*, ClaimKind> kKinds[] = {
    {"ratio_flat", ClaimKind::kRatioFlat},
    {"knee", ClaimKind::kKnee},
    {"ratio_at", ClaimKind::kRatioAt},
    {"growth", ClaimKind::kGrowth},
    {"variance_near_knee", ClaimKind::kVarianceNearKnee},
    {"reduction", ClaimKind::kReduction},
    {"oom_rate_zero", ClaimKind::kOomRateZero},
    {"oom_curve", ClaimKind::kOomCurve},
    {"order", ClaimKind::kOrder},
    {"argmin", ClaimKind::kArgmin},
};
constexpr const char* kLengths[] = {"quick", "default", "full"};
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

std::string MetricNames() {
  std::vector<std::string> names;
  for (const Metric& metric : Metrics()) names.push_back(metric.name);
  return absl::StrJoin(names, ", ");
}

class TableLoader {
 public:
  TableLoader(std::string path, const LoadContext& context) : context_(context) {
    table_.file = path;
    table_.id = fs::path(path).stem().string();
    complaint_.file = std::move(path);
  }

  absl::StatusOr<Table> Load() {
    const auto file = ReadTomlFile(table_.file);
    if (!file.ok()) return file.status();
    Fields fields(*file, "", complaint_);
    ReadHead(fields);
    ReadRows(fields);
    for (const Value* column : Tables(fields, "column")) ReadColumn(*column);
    if (table_.columns.empty()) complaint_.Say(0, "has no [[column]] that can be run");
    ReadFitted(fields);
    ReadLengths(fields);
    for (const Value* claim : Tables(fields, "claim")) ReadClaim(*claim);
    if (table_.claims.empty() && table_.skipped.empty()) complaint_.Say(0, "has no [[claim]]");
    fields.Done();
    if (!complaint_.ok()) return complaint_.status;
    return std::move(table_);
  }

 private:
  [[nodiscard]] std::string UnitOf(ClaimKind kind) const {
    switch (kind) {
      case ClaimKind::kKnee:
        return table_.row_name;
      case ClaimKind::kVarianceNearKnee:
        return "standard deviations a mean";
      case ClaimKind::kReduction:
        return "share saved";
      case ClaimKind::kOomRateZero:
      case ClaimKind::kOomCurve:
        return "share of runs";
      case ClaimKind::kOrder:
        return "tau-b";
      case ClaimKind::kRatioFlat:
      case ClaimKind::kRatioAt:
      case ClaimKind::kGrowth:
      case ClaimKind::kArgmin:
        return "ratio";
    }
    return "";
  }

  // The tables of [[key]]; columns come before fields.Done() calls the key known.
  std::vector<const Value*> Tables(Fields& fields, const std::string& key) {
    std::vector<const Value*> tables;
    const Value* list = fields.Find(key, Value::Kind::kList);
    if (list == nullptr) return tables;
    for (const Value& element : list->list) {
      if (element.kind == Value::Kind::kTable) tables.push_back(&element);
    }
    if (tables.size() != list->list.size()) fields.Refuse(key, absl::StrCat("[[", key, "]]"));
    return tables;
  }

  void ReadHead(Fields& fields) {
    table_.title = fields.Text("title");
    table_.source = fields.Text("source");
    table_.experiment = Experiment(fields);
    table_.noise = fields.Number("noise");
    table_.noise_source = fields.Text("noise_source");
    table_.one_offs = fields.Texts("one_offs");
    table_.draws_rates = fields.Bool("chart_oom_rates", false);
    for (const std::string& name : fields.Texts("metrics")) {
      const auto metric = FindMetric(name);
      if (!metric) fields.Refuse("metrics", MetricNames());
      table_.metrics.push_back(metric.value_or(0));
    }
    if (table_.metrics.empty()) complaint_.Say(0, "metrics is missing: " + MetricNames());
    if (!(table_.noise >= 0 && table_.noise < 1)) fields.Refuse("noise", "0.0..1.0");
  }

  // The path of a run configuration.
  std::string Experiment(Fields& fields) {
    const std::string name = fields.Text("experiment");
    if (!complaint_.ok()) return "";
    const auto path = FindConfig(context_.roots, "experiments", name);
    std::error_code error;
    if (path.ok() && fs::exists(*path, error)) return *path;
    fields.Refuse("experiment", "a name in configs/experiments or a path");
    return "";
  }

  void ReadRows(Fields& fields) {
    if (fields.Has("row_sets")) {
      table_.row_sets = fields.Texts("row_sets");
    } else {
      table_.row_knob = fields.Text("row_knob");
      table_.row_sets = {table_.row_knob + "={}"};
    }
    table_.row_name = fields.Text("row_name");
    const std::vector<std::int64_t> values = fields.Ints("rows");
    const std::vector<std::string> labels = fields.Texts("row_labels");
    if (values.empty()) complaint_.Say(0, "rows is missing: a list of integers");
    if (!labels.empty() && labels.size() != values.size()) {
      fields.Refuse("row_labels", absl::StrCat(values.size(), " texts, one a row"));
      return;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (RowOf(values[i])) fields.Refuse("rows", "each value once");
      table_.rows.push_back({values[i], labels.empty() ? absl::StrCat(values[i]) : labels[i]});
    }
  }

  void ReadColumn(const Value& value) {
    Fields fields(value, "[[column]] ", complaint_);
    Column column;
    column.id = fields.Text("id");
    column.label = fields.Text("label");
    column.kernel = fields.Text("kernel");
    column.sets = fields.Texts("set");
    if (fields.Has("experiment")) column.experiment = Experiment(fields);
    column.drawn = fields.Bool("chart", true);
    column.rows = Rows(fields, "rows");
    const bool optional = fields.Bool("optional", false);
    ReadPublished(fields, column);
    fields.Done();
    if (ColumnOf(column.id)) fields.Refuse("id", "an id that no other column has");
    if (const auto kernel = FindConfig(context_.roots, "kernels", column.kernel); !kernel.ok()) {
      if (!optional) return complaint_.Say(fields.LineOf("kernel"), Text(kernel.status()));
      table_.skipped.push_back(
          absl::StrCat("column \"", column.label, "\": there is no kernel ", column.kernel));
      absent_.push_back(column.id);
      return;
    }
    table_.columns.push_back(std::move(column));
  }

  void ReadPublished(Fields& fields, Column& column) {
    const Value* published = fields.Find("published", Value::Kind::kTable);
    if (published == nullptr) return;
    Fields inner(*published, "[[column]] published.", complaint_);
    for (const Member& member : published->members) {
      const auto metric = FindMetric(member.key);
      if (!metric) inner.Refuse(member.key, MetricNames());
      Column::Published figures{metric.value_or(0), {}};
      for (const double figure : inner.Numbers(member.key)) {
        figures.values.push_back(std::isfinite(figure) ? std::optional(figure) : std::nullopt);
      }
      if (figures.values.size() != table_.rows.size()) {
        inner.Refuse(member.key, absl::StrCat(table_.rows.size(), " numbers, one a row, or nan"));
      }
      column.published.push_back(std::move(figures));
    }
  }

  void ReadFitted(Fields& fields) {
    const Value* fitted = fields.Find("fitted", Value::Kind::kTable);
    if (fitted == nullptr) return;
    Fields inner(*fitted, "fitted.", complaint_);
    const std::optional<std::size_t> column = ColumnNamed(inner, "column");
    for (const std::size_t row : Rows(inner, "rows")) {
      table_.fitted.push_back({column.value_or(0), row});
    }
    inner.Done();
  }

  void ReadLengths(Fields& fields) {
    const Value* lengths = fields.Find("lengths", Value::Kind::kTable);
    if (lengths == nullptr) return complaint_.Say(0, "[lengths.quick], .default, .full missing");
    Fields outer(*lengths, "lengths.", complaint_);
    for (std::size_t i = 0; i < table_.lengths.size(); ++i) {
      const std::string name(kLengths[i]);
      const Value* value = outer.Find(name, Value::Kind::kTable);
      if (value == nullptr) return complaint_.Say(lengths->line, "[lengths." + name + "] missing");
      Fields inner(*value, "lengths." + name + ".", complaint_);
      Length& length = table_.lengths[i];
      length.seeds = static_cast<int>(inner.Int("seeds", 1, 100'000));
      length.sets = inner.Texts("set");
      length.time_factor = inner.Number("time_factor", 1);
      if (!(length.time_factor > 0)) inner.Refuse("time_factor", "a number above 0");
      length.rows = Rows(inner, "rows");
      inner.Done();
    }
    outer.Done();
  }

  void ReadClaim(const Value& value) {
    Fields fields(value, "[[claim]] ", complaint_);
    Claim claim;
    claim.id = fields.Text("id");
    claim.text = fields.Text("text");
    const std::string kind = fields.Text("kind");
    const auto* known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                     [&](const auto& entry) { return kind == entry.first; });
    if (known == std::end(kKinds)) {
      std::vector<std::string> names;
      for (const auto& entry : kKinds) names.push_back(entry.first);
      return fields.Refuse("kind", absl::StrJoin(names, ", "));
    }
    claim.kind = known->second;
    claim.unit = fields.Text("unit", UnitOf(claim.kind));
    const auto metric = FindMetric(fields.Text("metric", DefaultMetric()));
    if (!metric) fields.Refuse("metric", MetricNames());
    claim.metric = metric.value_or(0);
    if (fields.Has("published")) claim.published = fields.Number("published");
    claim.published_n = fields.Int("published_n", 0, 1'000'000, 0);
    const std::vector<double> band = fields.Numbers("band");
    if (band.size() != 2 || !(band[0] <= band[1])) {
      return fields.Refuse("band", "two numbers, ascending; inf is one");
    }
    claim.band = {band[0], band[1]};
    absent_claim_ = false;
    ReadCells(fields, claim);
    fields.Done();
    if (absent_claim_) {
      table_.skipped.push_back(absl::StrCat("claim ", claim.id, ": one of its columns is absent"));
      return;
    }
    CheckClaim(fields, claim);
    table_.claims.push_back(std::move(claim));
  }

  void ReadCells(Fields& fields, Claim& claim) {
    switch (claim.kind) {
      case ClaimKind::kRatioFlat:
      case ClaimKind::kRatioAt: {
        const auto column = ColumnNamed(fields, "column");
        const auto against = fields.Has("against") ? ColumnNamed(fields, "against") : 0;
        const auto rows = claim.kind == ClaimKind::kRatioAt
                              ? std::vector<std::size_t>{RowNamed(fields, "row")}
                              : Rows(fields, "rows");
        if (!column || !against || !complaint_.ok()) return;
        claim.cells = CellsOf(*column, rows);
        claim.base = CellsOf(*against, rows);
        return;
      }
      case ClaimKind::kGrowth: {
        const auto column = ColumnNamed(fields, "column");
        if (!column) return;
        claim.cells = {{*column, RowNamed(fields, "row")}};
        claim.base = {{*column, RowNamed(fields, "base_row")}};
        return;
      }
      case ClaimKind::kKnee:
        claim.flat_to = fields.Int("flat_to", 0, kAny);
        claim.tolerance = fields.Number("tolerance", 0.25);
        return ReadCurve(fields, claim);
      case ClaimKind::kOomCurve:
        claim.at = fields.Int("at", 0, kAny);
        claim.shift = fields.Int("shift", 0, kAny, 8);
        claim.span = fields.Int("span", 0, kAny, 15);
        if (!claim.published) fields.Refuse("published", "the published rate, a share of 1");
        return ReadCurve(fields, claim);
      case ClaimKind::kVarianceNearKnee:
        return ReadCurve(fields, claim);
      case ClaimKind::kOomRateZero:
        ReadCurve(fields, claim);
        return ReadWhatIsTakenAway(fields, claim);
      case ClaimKind::kReduction:
        claim.cells = {CellNamed(fields, "cell")};
        claim.base = {CellNamed(fields, "against")};
        return;
      case ClaimKind::kArgmin:
        claim.base = {CellNamed(fields, "best")};
        [[fallthrough]];
      case ClaimKind::kOrder:
        return ReadCellList(fields, claim);
    }
  }

  void ReadCurve(Fields& fields, Claim& claim) {
    const auto column = ColumnNamed(fields, "column");
    const auto rows = Rows(fields, "rows");
    if (column && complaint_.ok()) claim.cells = CellsOf(*column, rows);
  }

  // The column whose kills an ablation or a policy is claimed to take away, at the same rows.
  void ReadWhatIsTakenAway(Fields& fields, Claim& claim) {
    if (!fields.Has("against")) return;
    const auto against = ColumnNamed(fields, "against");
    if (!against || !complaint_.ok()) return;
    std::vector<std::size_t> rows;
    for (const Cell cell : claim.cells) rows.push_back(cell.row);
    claim.base = CellsOf(*against, rows);
    if (claim.base.size() != claim.cells.size()) {
      fields.Refuse("against", "a column that is run at all rows of the claim");
    }
  }

  void ReadCellList(Fields& fields, Claim& claim) {
    const Value* list = fields.Find("cells", Value::Kind::kList);
    if (list == nullptr) return fields.Refuse("cells", kCellsAllowed);
    for (const Value& element : list->list) {
      if (const auto cell = AsCell(element)) claim.cells.push_back(*cell);
    }
    if (claim.cells.size() != list->list.size() || claim.cells.size() < 2) {
      if (!absent_claim_) fields.Refuse("cells", kCellsAllowed);
    }
  }

  // What a claim of its kind needs beyond the types of its members.
  void CheckClaim(Fields& fields, const Claim& claim) {
    if (!complaint_.ok()) return;
    for (const Claim& other : table_.claims) {
      if (other.id == claim.id) fields.Refuse("id", "an id that no other claim has");
    }
    const bool curve = claim.kind == ClaimKind::kKnee || claim.kind == ClaimKind::kOomCurve;
    for (std::size_t i = 1; curve && i < claim.cells.size(); ++i) {
      if (ValueOf(claim.cells[i - 1]) >= ValueOf(claim.cells[i])) {
        complaint_.Say(fields.line(), absl::StrCat("[[claim]] ", claim.id, ": its rows ascend"));
      }
    }
    // A sign is a claim only where the published difference is more than noise.
    const bool sign = claim.kind == ClaimKind::kRatioAt || claim.kind == ClaimKind::kGrowth ||
                      claim.kind == ClaimKind::kReduction;
    if (!sign || claim.cells.empty() || claim.base.empty()) return;
    const auto a = table_.Published(claim.cells[0], claim.metric);
    const auto b = table_.Published(claim.base[0], claim.metric);
    if (a && b && std::abs(*a - *b) <= table_.noise * std::min(*a, *b)) {
      complaint_.Say(fields.line(), absl::StrCat("[[claim]] ", claim.id, ": the published ", *a,
                                                 " and ", *b, " differ by no more than the noise"));
    }
  }

  // --- names ---

  [[nodiscard]] std::optional<std::size_t> RowOf(std::int64_t value) const {
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      if (table_.rows[i].value == value) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::size_t> ColumnOf(const std::string& id) const {
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      if (table_.columns[i].id == id) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string RowValues() const {
    std::vector<std::int64_t> values;
    for (const Row& row : table_.rows) values.push_back(row.value);
    return absl::StrJoin(values, ", ");
  }
  [[nodiscard]] std::string ColumnIds() const {
    std::vector<std::string> ids;
    for (const Column& column : table_.columns) ids.push_back(column.id);
    return absl::StrJoin(ids, ", ");
  }
  [[nodiscard]] std::int64_t ValueOf(Cell cell) const { return table_.rows[cell.row].value; }
  [[nodiscard]] std::string DefaultMetric() const {
    return table_.metrics.empty() ? "" : Metrics()[table_.metrics.front()].name;
  }
  static std::string Text(const absl::Status& status) {
    return {status.message().data(), status.message().size()};
  }

  // Rows by value, in the table's order; all of them if absent.
  std::vector<std::size_t> Rows(Fields& fields, const std::string& key) {
    std::vector<std::size_t> rows;
    for (const std::int64_t value : fields.Ints(key)) {
      const auto row = RowOf(value);
      if (!row) fields.Refuse(key, RowValues());
      rows.push_back(row.value_or(0));
    }
    std::sort(rows.begin(), rows.end());
    if (rows.empty()) {
      rows.resize(table_.rows.size());
      std::iota(rows.begin(), rows.end(), std::size_t{0});
    }
    return rows;
  }
  std::size_t RowNamed(Fields& fields, const std::string& key) {
    const auto row = RowOf(fields.Int(key, -kAny, kAny));
    if (!row) fields.Refuse(key, RowValues());
    return row.value_or(0);
  }
  // None: there is no such column, which is a complaint unless its kernel is absent.
  std::optional<std::size_t> ColumnNamed(Fields& fields, const std::string& key) {
    const std::string id = fields.Text(key);
    const auto column = ColumnOf(id);
    if (!column && !IsAbsent(id)) fields.Refuse(key, ColumnIds());
    return column;
  }
  bool IsAbsent(const std::string& id) {
    const bool absent = std::find(absent_.begin(), absent_.end(), id) != absent_.end();
    absent_claim_ = absent_claim_ || absent;
    return absent;
  }
  std::optional<Cell> AsCell(const Value& value) {
    if (value.kind != Value::Kind::kList || value.list.size() != 2) return std::nullopt;
    const Value& id = value.list[0];
    const Value& row = value.list[1];
    if (id.kind != Value::Kind::kText || row.kind != Value::Kind::kInt) return std::nullopt;
    const auto column_index = ColumnOf(id.text);
    const auto row_index = RowOf(row.integer);
    if (!column_index) IsAbsent(id.text);
    if (!column_index || !row_index) return std::nullopt;
    return Cell{*column_index, *row_index};
  }
  Cell CellNamed(Fields& fields, const std::string& key) {
    const Value* value = fields.Find(key, Value::Kind::kList);
    const auto cell = value == nullptr ? std::nullopt : AsCell(*value);
    if (!cell && !absent_claim_) fields.Refuse(key, "[\"<column>\", <row>]");
    return cell.value_or(Cell{});
  }
  // The rows at which the column is run.
  [[nodiscard]] std::vector<Cell> CellsOf(std::size_t column,
                                          const std::vector<std::size_t>& rows) const {
    std::vector<Cell> cells;
    const std::vector<std::size_t>& run = table_.columns[column].rows;
    for (const std::size_t row : rows) {
      if (std::find(run.begin(), run.end(), row) != run.end()) cells.push_back({column, row});
    }
    return cells;
  }

  static constexpr const char* kCellsAllowed = "at least two of [\"<column>\", <row>]";

  const LoadContext& context_;
  Table table_;
  Complaint complaint_;
  std::vector<std::string> absent_;  // ids of skipped columns
  bool absent_claim_ = false;        // the claim being read names one
};

}  // namespace

const char* ClaimKindName(ClaimKind kind) {
  for (const auto& [name, known] : kKinds) {
    if (known == kind) return name;
  }
  return "";
}

bool Table::IsFitted(Cell cell) const {
  return std::find(fitted.begin(), fitted.end(), cell) != fitted.end();
}

bool Table::IsFitted(const Claim& claim) const {
  const auto is_fitted = [&](Cell cell) { return IsFitted(cell); };
  return !claim.cells.empty() && std::all_of(claim.cells.begin(), claim.cells.end(), is_fitted) &&
         std::all_of(claim.base.begin(), claim.base.end(), is_fitted);
}

std::optional<double> Table::Published(Cell cell, std::size_t metric) const {
  for (const Column::Published& figures : columns[cell.column].published) {
    if (figures.metric == metric) return figures.values[cell.row];
  }
  return std::nullopt;
}

absl::StatusOr<Table> LoadTable(const std::string& name, const LoadContext& context) {
  const auto path = FindConfig(context.roots, "reproductions", name);
  if (!path.ok()) {
    return absl::NotFoundError(
        absl::StrCat("table \"", name, "\": there is none of that name; allowed are ",
                     absl::StrJoin(KnownTables(context.roots), ", "), " and paths of .toml files"));
  }
  return TableLoader(*path, context).Load();
}

std::vector<std::string> KnownTables(const ConfigRoots& roots) {
  return KnownConfigs(roots, "reproductions");
}

}  // namespace pagestorm::bench::reproductions
