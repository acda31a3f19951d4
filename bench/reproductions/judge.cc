#include "bench/reproductions/judge.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "bench/stats/comparison.h"
#include "bench/stats/describe.h"
#include "core/rng.h"
#include "fmt/format.h"

namespace pagestorm::bench::reproductions {
namespace {

constexpr int kResamples = 2000;
constexpr std::uint64_t kBootstrapSeed = 1;  // a result must not depend on when it is computed
constexpr std::int64_t kMinSurvivors = 2;    // one run has no spread

using MaybeReading = std::optional<Reading>;

MaybeReading Plain(double value) { return Reading{value, value, value}; }

double RowValue(const Table& table, Cell cell) {
  return static_cast<double>(table.rows[cell.row].value);
}

// base / cells, the ratio that is farthest from 1, and the least and the largest.
MaybeReading Ratios(const Claim& claim, const Figures& figures) {
  MaybeReading reading;
  for (std::size_t i = 0; i < claim.cells.size(); ++i) {
    const auto cell = figures.Mean(claim.cells[i], claim.metric);
    const auto base = figures.Mean(claim.base[i], claim.metric);
    if (!cell || !base || *cell <= 0) return std::nullopt;
    const double ratio = *base / *cell;
    if (!reading) reading = Plain(ratio);
    if (std::abs(ratio - 1) > std::abs(reading->value - 1)) reading->value = ratio;
    reading->low = std::min(reading->low, ratio);
    reading->high = std::max(reading->high, ratio);
  }
  return reading;
}

// The last row on the flat line and the first that has left it; the value lies between them.
MaybeReading Knee(const Claim& claim, const Table& table, const Figures& figures) {
  std::vector<double> slopes;
  std::optional<double> on_line;
  for (const Cell cell : claim.cells) {
    const auto mean = figures.Mean(cell, claim.metric);
    if (!mean) return std::nullopt;
    const double row = RowValue(table, cell);
    const double slope = *mean / row;
    if (table.rows[cell.row].value <= claim.flat_to) {
      slopes.push_back(slope);
    } else if (slopes.empty()) {
      return std::nullopt;
    } else if (slope > stats::Median(slopes) * (1 + claim.tolerance)) {
      return Reading{(*on_line + row) / 2, *on_line, row};
    }
    on_line = row;
  }
  return std::nullopt;
}

MaybeReading LargestVariation(const Claim& claim, const Figures& figures) {
  MaybeReading reading;
  for (const Cell cell : claim.cells) {
    const auto variation = figures.Variation(cell, claim.metric);
    if (variation && (!reading || *variation > reading->value)) reading = Plain(*variation);
  }
  return reading;
}

// cells[0] / base[0].
std::optional<double> Share(const Claim& claim, const Figures& figures) {
  const auto cell = figures.Mean(claim.cells[0], claim.metric);
  const auto base = figures.Mean(claim.base[0], claim.metric);
  if (!cell || !base || *base <= 0) return std::nullopt;
  return *cell / *base;
}

OomCount OomsOf(const std::vector<Cell>& cells, const Figures& figures) {
  OomCount all;
  for (const Cell cell : cells) {
    const OomCount count = figures.Ooms(cell);
    all.kills += count.kills;
    all.runs += count.runs;
  }
  return all;
}

MaybeReading OomRate(const Claim& claim, const Figures& figures) {
  const OomCount all = OomsOf(claim.cells, figures);
  if (all.runs == 0) return std::nullopt;
  return Plain(static_cast<double>(all.kills) / static_cast<double>(all.runs));
}

// Whether the published figures of two cells differ by more than chance. Unpublished ones count as
// different.
bool PublishedDiffers(const Claim& claim, const Table& table, Cell a, Cell b) {
  const auto x = table.Published(a, claim.metric);
  const auto y = table.Published(b, claim.metric);
  return !x || !y || std::abs(*x - *y) > table.noise * std::min(*x, *y);
}

MaybeReading Order(const Claim& claim, const Table& table, const Figures& figures) {
  std::vector<double> published;
  std::vector<double> measured;
  for (const Cell cell : claim.cells) {
    const auto x = table.Published(cell, claim.metric);
    const auto y = figures.Mean(cell, claim.metric);
    if (!x || !y) return std::nullopt;
    published.push_back(*x);
    measured.push_back(*y);
  }
  const auto tau = stats::KendallTauB(published, measured, [&](std::size_t i, std::size_t j) {
    return PublishedDiffers(claim, table, claim.cells[i], claim.cells[j]);
  });
  return tau ? Plain(*tau) : std::nullopt;
}

// The least of the others over the best: above 1 while the best is best.
MaybeReading Argmin(const Claim& claim, const Table& table, const Figures& figures) {
  const Cell best = claim.base[0];
  const auto least = figures.Mean(best, claim.metric);
  if (!least || *least <= 0) return std::nullopt;
  MaybeReading reading;
  for (const Cell cell : claim.cells) {
    if (cell == best || !PublishedDiffers(claim, table, cell, best)) continue;
    const auto mean = figures.Mean(cell, claim.metric);
    if (!mean) return std::nullopt;
    if (!reading || *mean / *least < reading->value) reading = Plain(*mean / *least);
  }
  return reading;
}

// --- what of a claim can be looked at ---

bool IsRun(const Table& table, const std::vector<std::size_t>& rows, Cell cell) {
  const std::vector<std::size_t>& column = table.columns[cell.column].rows;
  return std::find(rows.begin(), rows.end(), cell.row) != rows.end() &&
         std::find(column.begin(), column.end(), cell.row) != column.end();
}

std::string CellName(const Table& table, Cell cell) {
  return absl::StrCat(table.columns[cell.column].label, " at ", table.row_name, " ",
                      table.rows[cell.row].label);
}

// A claim over many rows is looked at where it was run; one about two cells needs both.
Claim WhereRun(const Claim& claim, const Table& table, const std::vector<std::size_t>& rows) {
  Claim part = claim;
  const bool pairs = claim.base.size() == claim.cells.size();
  part.cells.clear();
  if (pairs) part.base.clear();
  for (std::size_t i = 0; i < claim.cells.size(); ++i) {
    if (!IsRun(table, rows, claim.cells[i])) continue;
    if (pairs && !IsRun(table, rows, claim.base[i])) continue;
    part.cells.push_back(claim.cells[i]);
    if (pairs) part.base.push_back(claim.base[i]);
  }
  return part;
}

bool CountsRates(ClaimKind kind) {
  return kind == ClaimKind::kOomRateZero || kind == ClaimKind::kOomCurve;
}

// All cells of a claim, those it compares with included.
std::vector<Cell> AllCells(const Claim& claim) {
  std::vector<Cell> cells = claim.cells;
  cells.insert(cells.end(), claim.base.begin(), claim.base.end());
  return cells;
}

// Why a claim cannot be evaluated; empty if it can. `n`: the runs behind it, at its thinnest cell.
std::string WhyNot(const Claim& part, const Table& table, const std::vector<std::size_t>& rows,
                   const MeasuredFigures& measured, std::int64_t& n) {
  if (part.cells.empty()) return "the rows that it is about are not run at this length";
  bool first = true;
  for (const Cell cell : AllCells(part)) {
    if (!IsRun(table, rows, cell)) {
      return absl::StrCat(CellName(table, cell), " is not run at this length");
    }
    const OomCount count = measured.Ooms(cell);
    const std::int64_t survivors = count.runs - count.kills;
    if (CountsRates(part.kind)) {
      n = first ? count.runs : std::min(n, count.runs);
      if (count.runs == 0) return absl::StrCat(CellName(table, cell), " has no run that ended");
    } else {
      n = first ? survivors : std::min(n, survivors);
      if (survivors < kMinSurvivors) {
        return fmt::format("{} has {} of {} runs without an OOM kill, and {} are needed",
                           CellName(table, cell), survivors, count.runs, kMinSurvivors);
      }
    }
    first = false;
  }
  if (part.kind == ClaimKind::kOomRateZero && !part.base.empty()) {
    const OomCount base = OomsOf(part.base, measured);
    if (base.kills == 0) {
      return fmt::format("there is nothing to take away: none of {} runs of {} was killed",
                         base.runs, table.columns[part.base[0].column].label);
    }
  }
  return "";
}

// --- intervals ---

std::optional<stats::Interval> SeedBootstrap(const Claim& claim, const Table& table,
                                             const TableRuns& runs) {
  Rng rng = Seeds(kBootstrapSeed).Stream("seed bootstrap");
  stats::Sample lows;
  stats::Sample highs;
  for (int i = 0; i < kResamples; ++i) {
    std::vector<std::size_t> drawn(runs.seeds());
    for (std::size_t& seed : drawn) seed = rng.Below(runs.seeds());
    const auto reading = Read(claim, table, MeasuredFigures(runs, std::move(drawn)));
    if (!reading) continue;  // a resample without a survivor where one is needed
    lows.push_back(reading->low);
    highs.push_back(reading->high);
  }
  if (lows.empty()) return std::nullopt;
  return stats::Interval{stats::Quantile(lows, 0.025), stats::Quantile(highs, 0.975)};
}

// --- the OOM rate against the rows ---

struct CurvePoint {
  double row = 0;
  OomCount count;
  stats::Interval band;
  [[nodiscard]] double rate() const {
    return static_cast<double>(count.kills) / static_cast<double>(count.runs);
  }
  [[nodiscard]] bool between() const { return 0 < count.kills && count.kills < count.runs; }
};

// The curve between its points is a straight line. None outside of them.
std::optional<CurvePoint> CurveAt(const std::vector<CurvePoint>& curve, double row, double* rate) {
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const CurvePoint& right = curve[i];
    if (right.row < row) continue;
    if (i == 0 && right.row > row) return std::nullopt;
    const CurvePoint& left = right.row > row ? curve[i - 1] : right;
    const double width = right.row - left.row;
    const double share = width > 0 ? (row - left.row) / width : 0;
    const auto mix = [share](double a, double b) { return a + share * (b - a); };
    *rate = mix(left.rate(), right.rate());
    CurvePoint point;
    point.row = row;
    point.band = {mix(left.band.low, right.band.low), mix(left.band.high, right.band.high)};
    return point;
  }
  return std::nullopt;
}

void JudgeCurve(const Claim& claim, const Table& table, const MeasuredFigures& measured,
                Verdict& verdict) {
  std::vector<CurvePoint> curve;
  for (const Cell cell : claim.cells) {
    CurvePoint point{RowValue(table, cell), measured.Ooms(cell), {}};
    point.band = stats::WilsonInterval(point.count.kills, point.count.runs);
    curve.push_back(point);
  }
  double between = 0;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    if (curve[i - 1].between() && curve[i].between()) between += curve[i].row - curve[i - 1].row;
  }
  double rate = 0;
  const auto here = CurveAt(curve, static_cast<double>(claim.at), &rate);
  if (!here) {
    verdict.note = absl::StrCat("no row at or around ", table.row_name, " ", claim.at, " is run");
    return;
  }
  verdict.evaluated = true;
  verdict.emulated = rate;
  verdict.interval = here->band;
  std::optional<std::int64_t> shift;
  for (std::int64_t away = 0; away <= claim.shift && !shift; ++away) {
    for (const std::int64_t by : {-away, away}) {
      double ignored = 0;
      const auto point = CurveAt(curve, static_cast<double>(claim.at + by), &ignored);
      if (!point || shift) continue;
      if (point->band.low <= *claim.published && *claim.published <= point->band.high) {
        shift = by;
        verdict.interval = point->band;
      }
    }
  }
  verdict.holds = shift.has_value() && between >= static_cast<double>(claim.span);
  const std::string where =
      shift ? fmt::format("the published {:.0f} % lie within the 95 % band {:+d} {} away",
                          *claim.published * 100, *shift, table.row_name)
            : fmt::format("the published {:.0f} % lie within no 95 % band up to {} {} away",
                          *claim.published * 100, claim.shift, table.row_name);
  verdict.note =
      fmt::format("{}; the rate lies strictly between 0 and 1 over {:.0f} {}, {} are needed", where,
                  between, table.row_name, claim.span);
}

// --- one claim ---

std::string NoteOf(const Claim& part, const MeasuredFigures& measured) {
  if (part.kind != ClaimKind::kOomRateZero) return "";
  const OomCount all = OomsOf(part.cells, measured);
  const stats::Interval interval = stats::ClopperPearsonInterval(all.kills, all.runs);
  return fmt::format("{} of {} runs; the true rate is at most {:.1f} % with 95 % confidence",
                     all.kills, all.runs, interval.high * 100);
}

void JudgeValue(const Claim& part, const Table& table, const TableRuns& runs,
                const MeasuredFigures& measured, Verdict& verdict) {
  const auto reading = Read(part, table, measured);
  if (!reading) {
    verdict.note = part.kind == ClaimKind::kKnee
                       ? "the column does not leave its flat line within the rows that are run"
                       : "a figure is missing";
    return;
  }
  verdict.emulated = reading->value;
  verdict.interval = SeedBootstrap(part, table, runs);
  if (!verdict.interval) {
    verdict.note = "no resample has a value";
    return;
  }
  verdict.evaluated = true;
  verdict.holds =
      part.band.Contains(verdict.interval->low) && part.band.Contains(verdict.interval->high);
  verdict.note = NoteOf(part, measured);
}

Verdict JudgeClaim(const Claim& claim, const Table& table, const std::vector<std::size_t>& rows,
                   const TableRuns& runs) {
  Verdict verdict;
  verdict.id = absl::StrCat(table.id, "/", claim.id);
  verdict.scored = !table.IsFitted(claim);
  verdict.published = claim.published;
  verdict.published_n = claim.published_n;
  if (!verdict.published && claim.kind != ClaimKind::kOomCurve) {
    if (const auto reading = Read(claim, table, PublishedFigures(table))) {
      verdict.published = reading->value;
    }
  }
  const MeasuredFigures measured(runs);
  const Claim part = WhereRun(claim, table, rows);
  verdict.note = WhyNot(part, table, rows, measured, verdict.emulated_n);
  if (!verdict.note.empty()) return verdict;
  if (claim.kind == ClaimKind::kOomCurve) {
    JudgeCurve(part, table, measured, verdict);
  } else {
    JudgeValue(part, table, runs, measured, verdict);
  }
  return verdict;
}

}  // namespace

std::optional<Reading> Read(const Claim& claim, const Table& table, const Figures& figures) {
  switch (claim.kind) {
    case ClaimKind::kRatioFlat:
    case ClaimKind::kRatioAt:
      return Ratios(claim, figures);
    case ClaimKind::kKnee:
      return Knee(claim, table, figures);
    case ClaimKind::kGrowth: {
      const auto share = Share(claim, figures);
      return share ? Plain(*share) : std::nullopt;
    }
    case ClaimKind::kReduction: {
      const auto share = Share(claim, figures);
      return share ? Plain(1 - *share) : std::nullopt;
    }
    case ClaimKind::kVarianceNearKnee:
      return LargestVariation(claim, figures);
    case ClaimKind::kOomRateZero:
      return OomRate(claim, figures);
    case ClaimKind::kOrder:
      return Order(claim, table, figures);
    case ClaimKind::kArgmin:
      return Argmin(claim, table, figures);
    case ClaimKind::kOomCurve:
      break;
  }
  return std::nullopt;
}

std::vector<Verdict> Judge(const Table& table, const std::vector<std::size_t>& rows,
                           const TableRuns& runs) {
  std::vector<Verdict> verdicts;
  for (const Claim& claim : table.claims) {
    verdicts.push_back(JudgeClaim(claim, table, rows, runs));
  }
  return verdicts;
}

}  // namespace pagestorm::bench::reproductions
