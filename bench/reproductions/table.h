// A published table as data: on which kernels it was measured, what it says, and what is claimed
// about it. configs/reproductions/<id>.toml holds one; docs/reproductions/README.md describes the
// format.
//
// A table knows nothing of how its kernels work: a column is a kernel preset and, for ablations,
// knobs set on top of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/config/loader.h"

namespace pagestorm::bench::reproductions {

// How a claim is computed; docs/reproductions/README.md says each exactly.
enum class ClaimKind : std::uint8_t {
  kRatioFlat,         // ratio of two columns, over several rows
  kKnee,              // rows between which a column leaves its flat line
  kRatioAt,           // ratio of two columns at one row
  kGrowth,            // a column's value at one row over its own at another
  kVarianceNearKnee,  // spread over seeds, largest of several rows
  kReduction,         // how much less one cell has than another
  kOomRateZero,       // share of runs that end in an OOM kill
  kOomCurve,          // that share against the rows
  kOrder,             // order of several cells
  kArgmin,            // which of several cells is least
};
[[nodiscard]] const char* ClaimKindName(ClaimKind kind);

// A column at a row; indices into the table.
struct Cell {
  std::size_t column = 0;
  std::size_t row = 0;
  friend bool operator==(const Cell&, const Cell&) = default;
};

// Both ends included; an end may be infinite.
struct Band {
  double low = 0;
  double high = 0;
  [[nodiscard]] bool Contains(double value) const { return low <= value && value <= high; }
};

struct Claim {
  std::string id;    // "iii", or "iii-v6" where a table makes it twice
  std::string text;  // what is claimed, for people
  ClaimKind kind = ClaimKind::kRatioAt;
  std::size_t metric = 0;
  // What it is computed from, ascending rows. ratio_flat, ratio_at: the value is base / cells, pair
  // by pair. growth: cells[0] / base[0]. reduction: 1 - cells[0] / base[0]. argmin: base[0] is
  // best. oom_rate_zero: base has the kills that cells lack; empty: none are asked for.
  std::vector<Cell> cells, base;
  Band band;
  std::optional<double> published;  // none: computed from the published figures
  std::int64_t published_n = 0;     // figures or runs behind it; 0: not said
  std::string unit;
  std::int64_t flat_to = 0;  // knee: rows up to here make the flat line
  double tolerance = 0.25;   // knee: share above the line that counts as having left it
  std::int64_t at = 0;       // oom_curve: the row of the published point
  std::int64_t shift = 8;    // oom_curve: it may lie so far from there
  std::int64_t span = 15;    // oom_curve: the rate lies strictly between 0 and 1 over so much
};

struct Column {
  std::string id;
  std::string label;
  std::string kernel;             // a preset
  std::vector<std::string> sets;  // "reclaim.isolated_visible=true": an ablation
  // A run configuration of its own, to which neither lengths nor rows set anything: it must be what
  // its rows say. Empty: the table's.
  std::string experiment;
  bool drawn = true;              // in the chart
  std::vector<std::size_t> rows;  // those it is run at, ascending by index
  // One value a row of the table for each published metric; none: not published.
  struct Published {
    std::size_t metric = 0;
    std::vector<std::optional<double>> values;
  };
  std::vector<Published> published;
};

struct Row {
  std::int64_t value = 0;
  std::string label;
};

// What is run: less of it while one waits, all of it for the record.
enum class LengthKind : std::uint8_t { kQuick, kDefault, kFull };
struct Length {
  std::vector<std::size_t> rows;
  int seeds = 0;
  std::vector<std::string> sets;  // "workload.loops=100"
  // What an emulated time is multiplied by where it is drawn beside a published one: 10 where 100
  // of 1000 loops are run. Claims never use it.
  double time_factor = 1;
};

struct Table {
  std::string id;
  std::string file;
  std::string title;
  std::string source;      // who published it, where, when
  std::string experiment;  // path of the run configuration: machine and workload
  std::string row_knob;    // what differs from row to row: "workload.groups"; empty: row_sets
  // Knobs that a row sets, with {} for its value; of a row_knob, "workload.groups={}".
  std::vector<std::string> row_sets;
  std::string row_name;  // "groups"
  std::vector<Row> rows;
  std::vector<Column> columns;       // baseline first
  std::vector<std::size_t> metrics;  // shown; the first is the one that is drawn
  bool draws_rates = false;          // the chart shows OOM rates instead of the first metric
  double noise = 0.1;                // share by which published figures may differ by chance
  std::string noise_source;
  std::vector<std::string> one_offs;  // what was done once and cannot be repeated from here
  std::vector<Cell> fitted;           // what the machine and the workload were fitted to
  std::array<Length, 3> lengths;      // by LengthKind
  std::vector<Claim> claims;
  std::vector<std::string> skipped;  // columns whose kernel is not there, claims about them

  [[nodiscard]] const Length& length(LengthKind kind) const {
    return lengths[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] bool IsFitted(Cell cell) const;
  // All its figures are fitted: it says nothing, and is not scored.
  [[nodiscard]] bool IsFitted(const Claim& claim) const;
  [[nodiscard]] std::optional<double> Published(Cell cell, std::size_t metric) const;
};

// Reads a table by name from configs/reproductions, or by path. InvalidArgument, NotFound: one
// line with file, line, key, value and what is allowed.
absl::StatusOr<Table> LoadTable(const std::string& name, const LoadContext& context);

// Names of the tables there are.
std::vector<std::string> KnownTables(const ConfigRoots& roots);

}  // namespace pagestorm::bench::reproductions
