// Published tables: reading them, running them, judging them.
#include "bench/reproductions/reproduce.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/reproductions/chart.h"
#include "bench/reproductions/report.h"
#include "bench/reproductions/sensitivity.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
using namespace reproductions;
namespace {

using Json = nlohmann::json;

constexpr double kOom = -1;  // a run that ended in an OOM kill

// A table of two columns and five rows over a run that takes no time.
const char* const kHead = R"(title = "a table"
source = "nobody"
experiment = "run.toml"
metrics = ["time_s"]
row_knob = "workload.mib"
row_name = "MiB"
rows = [10, 20, 30, 40, 50]
noise = 0.1
noise_source = "a guess"
)";
const char* const kColumns = R"([[column]]
id = "plain"
label = "plain"
kernel = "2.6.26"
published = { time_s = [1, 2, 3, 20, 50] }
[[column]]
id = "v7"
label = "v7 < plain & \"better\""
kernel = "2.6.26-throttle-v7"
published = { time_s = [1, 2, 3, 4, 10] }
[lengths.quick]
rows = [10, 20]
seeds = 1
[lengths.default]
seeds = 4
[lengths.full]
seeds = 6
)";
const char* const kRun = R"(machine = "tests"
[workload]
name = "press"
mib = 4
sweeps = 1
)";

std::string WriteTable(const Scratch& scratch, const std::string& text) {
  const std::string run = scratch.Write("run.toml", kRun);
  std::string table = text;
  const std::size_t at = table.find("\"run.toml\"");
  if (at != std::string::npos) table.replace(at, 10, "\"" + run + "\"");
  return scratch.Write("table.toml", table);
}

absl::StatusOr<Table> Load(const Scratch& scratch, const std::string& text) {
  return LoadTable(WriteTable(scratch, text), TreeContext());
}

std::string ClaimText(const std::string& members) {
  return "[[claim]]\nid = \"x\"\ntext = \"it is so\"\n" + members;
}

Table TableWith(const std::string& claim, const std::string& more = "") {
  const Scratch scratch;
  auto table = Load(scratch, kHead + more + kColumns + ClaimText(claim));
  INFO(table.status().message());
  REQUIRE(table.ok());
  return *std::move(table);
}

// Values of a cell, one a seed; kOom: killed.
using Cells = std::map<std::pair<std::size_t, std::size_t>, std::vector<double>>;

TableRuns RunsOf(const Table& table, const Cells& cells, int seeds = 4) {
  TableRuns runs(table.columns.size(), table.rows.size(), seeds);
  for (const auto& [at, values] : cells) {
    for (std::size_t seed = 0; seed < values.size(); ++seed) {
      RunOutcome& run = runs.At({at.first, at.second}, seed);
      run.end = values[seed] == kOom ? RunOutcome::End::kOom : RunOutcome::End::kFinished;
      run.oom_kills = values[seed] == kOom ? 1 : 0;
      run.values.assign(Metrics().size(), values[seed] == kOom ? 1e9 : values[seed]);
    }
  }
  return runs;
}

Verdict JudgeOne(const Table& table, const Cells& cells, int seeds = 4) {
  const auto verdicts =
      Judge(table, table.length(LengthKind::kDefault).rows, RunsOf(table, cells, seeds));
  REQUIRE(verdicts.size() == 1);
  return verdicts.front();
}

// All five rows of a column with the same spread around each value.
void Fill(Cells& cells, std::size_t column, const std::vector<double>& means, double spread = 0) {
  for (std::size_t row = 0; row < means.size(); ++row) {
    const double m = means[row];
    cells[{column, row}] = {m * (1 - spread), m, m, m * (1 + spread)};
  }
}

// --- claims ---

const std::string kFlat =
    "kind = \"ratio_flat\"\ncolumn = \"v7\"\nrows = [10, 20, 30]\nband = [0.9, 1.1]\n";

// Goes red if the interval is left out of the decision (straddling), or if only one row is looked
// at (a row that leaves the band).
TEST_CASE("ratio_flat: the whole interval over all rows lies in the band", "[bench][reproduce]") {
  const Table table = TableWith(kFlat);
  Cells cells;
  Fill(cells, 0, {1, 2, 3, 20, 50});
  Fill(cells, 1, {1, 2, 3, 4, 10});
  const Verdict even = JudgeOne(table, cells);
  CHECK(even.evaluated);
  CHECK(even.holds);
  CHECK(even.published == 1.0);
  CHECK(even.emulated == 1.0);
  CHECK(even.emulated_n == 4);

  cells[{1, 1}] = {2.5, 2.5, 2.5, 2.5};  // plain / v7 = 0.8 at 20
  const Verdict off = JudgeOne(table, cells);
  CHECK(off.evaluated);
  CHECK_FALSE(off.holds);
  CHECK(off.emulated == 0.8);

  cells[{1, 1}] = {1.6, 2.0, 2.0, 2.4};  // right on average, and nothing is known
  const Verdict straddling = JudgeOne(table, cells);
  CHECK(straddling.emulated == 1.0);
  CHECK(straddling.interval->low < 0.9);
  CHECK_FALSE(straddling.holds);

  cells[{1, 1}] = {kOom, kOom, kOom, 2.0};
  const Verdict killed = JudgeOne(table, cells);
  CHECK_FALSE(killed.evaluated);
  CHECK_FALSE(killed.holds);
  CHECK(killed.note.find("1 of 4 runs without an OOM kill") != std::string::npos);
}

TEST_CASE("ratio_at: base over column at one row, open above", "[bench][reproduce]") {
  const Table table =
      TableWith("kind = \"ratio_at\"\ncolumn = \"v7\"\nrow = 50\nband = [4, inf]\n");
  Cells cells;
  cells[{0, 4}] = {50, 50, 50, 50};
  cells[{1, 4}] = {10, 10, 10, 10};
  CHECK(JudgeOne(table, cells).emulated == 5.0);
  CHECK(JudgeOne(table, cells).published == 5.0);
  CHECK(JudgeOne(table, cells).holds);
  cells[{1, 4}] = {20, 20, 20, 20};
  CHECK_FALSE(JudgeOne(table, cells).holds);
  cells[{1, 4}] = {8, 10, 10, 25};  // 3.8 on average, up to 5.9
  CHECK_FALSE(JudgeOne(table, cells).holds);
  cells[{0, 4}] = {kOom, kOom, kOom, kOom};
  CHECK_FALSE(JudgeOne(table, cells).evaluated);
}

// Goes red if a killed run's value enters a mean: RunsOf() gives killed runs absurd ones.
TEST_CASE("Claims: a run that ended in an OOM kill is in no mean", "[bench][reproduce]") {
  const Table table =
      TableWith("kind = \"growth\"\ncolumn = \"v7\"\nrow = 50\nbase_row = 10\nband = [2, 4]\n");
  Cells cells;
  cells[{1, 4}] = {3, kOom, 3, kOom};
  cells[{1, 0}] = {1, 1, 1, 1};
  const Verdict verdict = JudgeOne(table, cells);
  CHECK(verdict.emulated == 3.0);
  CHECK(verdict.emulated_n == 2);
  CHECK(verdict.holds);
  CHECK(verdict.published == 10.0);
  const CellSummary summary = SummaryOf(RunsOf(table, cells), {1, 4}, table.metrics.front());
  CHECK(summary.mean == 3.0);
  CHECK(summary.ooms.kills == 2);
  CHECK(summary.ooms.runs == 4);
}

TEST_CASE("growth: fails outside of its band, needs both rows", "[bench][reproduce]") {
  const Table table =
      TableWith("kind = \"growth\"\ncolumn = \"v7\"\nrow = 50\nbase_row = 10\nband = [2, 4]\n");
  Cells cells;
  cells[{1, 0}] = {1, 1, 1, 1};
  cells[{1, 4}] = {5, 5, 5, 5};
  CHECK_FALSE(JudgeOne(table, cells).holds);
  cells[{1, 4}] = {2, 2, 2, 8};  // 3.5 on average
  CHECK_FALSE(JudgeOne(table, cells).holds);
  cells.erase({1, 4});
  CHECK_FALSE(JudgeOne(table, cells).evaluated);
}

// Goes red if the knee is its first row off the line alone: the last row on it counts as well.
TEST_CASE("knee: between the last row on the flat line and the first off it",
          "[bench][reproduce]") {
  const std::string claim =
      "kind = \"knee\"\ncolumn = \"plain\"\nflat_to = 20\ntolerance = 0.25\nband = ";
  const Table table = TableWith(claim + "[30, 40]\n");
  Cells cells;
  Fill(cells, 0, {1, 2, 3, 20, 50});
  const Verdict verdict = JudgeOne(table, cells);
  CHECK(verdict.published == 35.0);
  CHECK(verdict.emulated == 35.0);
  CHECK(verdict.interval->low == 30.0);
  CHECK(verdict.interval->high == 40.0);
  CHECK(verdict.holds);
  CHECK_FALSE(JudgeOne(TableWith(claim + "[35, 45]\n"), cells).holds);

  Fill(cells, 0, {1, 2, 10, 20, 50});  // leaves at 30
  CHECK_FALSE(JudgeOne(table, cells).holds);
  cells[{0, 2}] = {3, 3, 3, 30};  // one boot in four leaves early, so some resamples do
  const Verdict straddling = JudgeOne(table, cells);
  CHECK(straddling.interval->low < 30);
  CHECK_FALSE(straddling.holds);

  Fill(cells, 0, {1, 2, 3, 4, 5});
  const Verdict never = JudgeOne(table, cells);
  CHECK_FALSE(never.evaluated);
  CHECK_FALSE(never.holds);
}

TEST_CASE("variance_near_knee: the largest spread over seeds", "[bench][reproduce]") {
  const Table table = TableWith(
      "kind = \"variance_near_knee\"\ncolumn = \"plain\"\nrows = [30, 40]\nband = [0.2, inf]\n"
      "published = 0.41\npublished_n = 2\n");
  Cells cells;
  cells[{0, 2}] = {3, 3, 3, 3};
  cells[{0, 3}] = {4, 20, 4, 20};  // mean 12, deviation 9.24
  const Verdict wide = JudgeOne(table, cells);
  CHECK(wide.emulated == Approx(0.7698).epsilon(1e-3));
  CHECK(wide.published == 0.41);
  CHECK(wide.published_n == 2);
  // Some resamples draw one value four times: with 4 seeds this much spread is not proven.
  CHECK_FALSE(wide.holds);
  std::vector<double> many;
  for (int i = 0; i < 20; ++i) many.push_back(i % 2 == 0 ? 4 : 20);
  cells[{0, 2}] = std::vector<double>(20, 3.0);
  cells[{0, 3}] = many;
  CHECK(JudgeOne(table, cells, 20).holds);
  cells[{0, 3}] = std::vector<double>(20, 4.0);
  CHECK_FALSE(JudgeOne(table, cells, 20).holds);
  CHECK(JudgeOne(table, cells, 20).evaluated);
}

TEST_CASE("reduction: how much less than another cell", "[bench][reproduce]") {
  const Table table = TableWith(
      "kind = \"reduction\"\ncell = [\"v7\", 50]\nagainst = [\"plain\", 50]\nband = [0.7, 0.9]\n");
  Cells cells;
  cells[{0, 4}] = {100, 100, 100, 100};
  cells[{1, 4}] = {20, 20, 20, 20};
  CHECK(JudgeOne(table, cells).emulated == 0.8);
  CHECK(JudgeOne(table, cells).published == 0.8);
  CHECK(JudgeOne(table, cells).holds);
  cells[{1, 4}] = {60, 60, 60, 60};
  CHECK_FALSE(JudgeOne(table, cells).holds);
  cells[{1, 4}] = {2, 2, 2, 74};
  CHECK_FALSE(JudgeOne(table, cells).holds);
  cells[{1, 4}] = {kOom, kOom, kOom, kOom};
  CHECK_FALSE(JudgeOne(table, cells).evaluated);
}

TEST_CASE("oom_rate_zero: one kill anywhere is one too many", "[bench][reproduce]") {
  const Table table =
      TableWith("kind = \"oom_rate_zero\"\ncolumn = \"v7\"\nband = [0, 0]\npublished = 0\n");
  Cells cells;
  Fill(cells, 1, {1, 2, 3, 4, 10});
  const Verdict none = JudgeOne(table, cells);
  CHECK(none.holds);
  CHECK(none.note.find("0 of 20 runs; the true rate is at most 16.8 %") != std::string::npos);
  cells[{1, 3}] = {4, 4, 4, kOom};
  CHECK_FALSE(JudgeOne(table, cells).holds);
  CHECK(JudgeOne(table, cells).emulated == 0.05);
  CHECK_FALSE(JudgeOne(table, {}).evaluated);
}

// Goes red if `against` is not looked at: an ablation of what never happens proves nothing.
TEST_CASE("oom_rate_zero: without kills to take away it is not evaluated", "[bench][reproduce]") {
  const Table table =
      TableWith("kind = \"oom_rate_zero\"\ncolumn = \"v7\"\nagainst = \"plain\"\nband = [0, 0]\n");
  Cells cells;
  Fill(cells, 0, {1, 2, 3, 4, 10});
  Fill(cells, 1, {1, 2, 3, 4, 10});
  CHECK_FALSE(JudgeOne(table, cells).evaluated);
  CHECK(JudgeOne(table, cells).note.find("none of 20 runs of plain") != std::string::npos);
  cells[{0, 4}] = {10, kOom, 10, 10};
  CHECK(JudgeOne(table, cells).holds);
  cells[{1, 4}] = {10, kOom, 10, 10};
  CHECK_FALSE(JudgeOne(table, cells).holds);
}

// Goes red if the shift is not searched, or if the width between 0 and 1 is not asked for.
TEST_CASE("oom_curve: the published point within the band, neither 0 nor 1 over a stretch",
          "[bench][reproduce]") {
  const std::string claim =
      "kind = \"oom_curve\"\ncolumn = \"plain\"\nband = [0, 1]\nshift = 8\n"
      "span = 20\npublished = 0.1\nat = ";
  const auto rates = [](const std::vector<int>& kills) {  // of 20 runs each
    Cells cells;
    for (std::size_t row = 0; row < kills.size(); ++row) {
      std::vector<double> values(20, 1.0);
      std::fill_n(values.begin(), kills[row], kOom);
      cells[{0, row}] = values;
    }
    return cells;
  };
  const Table table = TableWith(claim + "30\n");
  const Verdict good = JudgeOne(table, rates({0, 1, 2, 5, 20}), 20);
  CHECK(good.evaluated);
  CHECK(good.holds);
  CHECK(good.emulated == 0.1);
  CHECK(good.note.find("+0 MiB away") != std::string::npos);
  CHECK(good.note.find("over 20 MiB") != std::string::npos);
  // 10 % lie within the band of 0 of 20, but not within that of 12 of 20: 8 away is far enough.
  CHECK(JudgeOne(table, rates({0, 1, 12, 12, 12}), 20).holds);
  CHECK_FALSE(JudgeOne(table, rates({1, 12, 12, 12, 12}), 20).holds);
  // A wall: nothing between 0 and 1.
  const Verdict wall = JudgeOne(table, rates({0, 0, 0, 20, 20}), 20);
  CHECK(wall.evaluated);
  CHECK_FALSE(wall.holds);
  // It need not be monotone.
  CHECK(JudgeOne(table, rates({0, 3, 1, 5, 2}), 20).holds);
  CHECK_FALSE(JudgeOne(TableWith(claim + "90\n"), rates({0, 1, 2, 5, 20}), 20).evaluated);
  CHECK_FALSE(JudgeOne(table, {}, 20).evaluated);
}

// Goes red if pairs within the noise are counted: published 100 and 105 are a tie.
TEST_CASE("order: pairs whose published gap is noise are not judged", "[bench][reproduce]") {
  const Scratch scratch;
  std::string columns = kColumns;
  columns.replace(columns.find("[1, 2, 3, 20, 50]"), 17, "[50, 100, 105, 200, 400]");
  const auto table =
      Load(scratch,
           kHead + columns +
               ClaimText("kind = \"order\"\ncells = [[\"plain\", 10], [\"plain\", 20], [\"plain\", "
                         "30], [\"plain\", 40]]\nband = [0.6, 1]\n"));
  INFO(table.status().message());
  REQUIRE(table.ok());
  Cells cells;
  Fill(cells, 0, {1, 3, 2, 4, 5});  // 20 and 30 are swapped
  CHECK(JudgeOne(*table, cells).published == 1.0);
  CHECK(JudgeOne(*table, cells).emulated == 1.0);
  CHECK(JudgeOne(*table, cells).holds);
  Fill(cells, 0, {4, 3, 2, 1, 5});
  CHECK(JudgeOne(*table, cells).emulated == -1.0);
  CHECK_FALSE(JudgeOne(*table, cells).holds);
  cells[{0, 0}] = {1, 1, 1, 20};  // 5.75 on average: behind the others in many resamples
  Fill(cells, 0, {1, 2, 3, 4, 5});
  cells[{0, 0}] = {1, 1, 1, 20};
  CHECK_FALSE(JudgeOne(*table, cells).holds);
  cells[{0, 0}] = {kOom, kOom, kOom, kOom};
  CHECK_FALSE(JudgeOne(*table, cells).evaluated);
}

// Goes red if the rival within the noise (published 1.05 against 1) is judged.
TEST_CASE("argmin: the best beats every rival beyond the noise", "[bench][reproduce]") {
  const Scratch scratch;
  std::string columns = kColumns;
  columns.replace(columns.find("[1, 2, 3, 20, 50]"), 17, "[2, 1, 1.05, 3, 9]");
  const auto table =
      Load(scratch,
           kHead + columns +
               ClaimText("kind = \"argmin\"\nbest = [\"plain\", 20]\ncells = [[\"plain\", 10], "
                         "[\"plain\", 20], [\"plain\", 30], [\"plain\", 40]]\nband = [1, inf]\n"));
  INFO(table.status().message());
  REQUIRE(table.ok());
  Cells cells;
  Fill(cells, 0, {3, 2, 1, 4, 5});  // 30 is better, and does not count
  CHECK(JudgeOne(*table, cells).published == 2.0);
  CHECK(JudgeOne(*table, cells).emulated == 1.5);
  CHECK(JudgeOne(*table, cells).holds);
  Fill(cells, 0, {3, 5, 1, 4, 5});
  CHECK_FALSE(JudgeOne(*table, cells).holds);
  Fill(cells, 0, {3, 2, 1, 4, 5});
  cells[{0, 1}] = {1, 1, 1, 6};
  CHECK_FALSE(JudgeOne(*table, cells).holds);
  cells[{0, 3}] = {kOom, kOom, kOom, kOom};
  CHECK_FALSE(JudgeOne(*table, cells).evaluated);
}

TEST_CASE("Claims: what was fitted is not scored, what is not run is not evaluated",
          "[bench][reproduce]") {
  const Table table =
      TableWith("kind = \"knee\"\ncolumn = \"plain\"\nflat_to = 20\nband = [0, 1]\n",
                "fitted = { column = \"plain\" }\n");
  Cells cells;
  Fill(cells, 0, {1, 2, 3, 20, 50});
  const Verdict verdict = JudgeOne(table, cells);
  CHECK_FALSE(verdict.holds);
  CHECK_FALSE(verdict.scored);
  CHECK_FALSE(verdict.failed());
  CHECK(std::string(VerdictWord(verdict)) == "fitted");

  const Table other =
      TableWith("kind = \"ratio_at\"\ncolumn = \"v7\"\nrow = 50\nband = [4, inf]\n");
  const auto quick = Judge(other, other.length(LengthKind::kQuick).rows, RunsOf(other, cells));
  CHECK_FALSE(quick.front().evaluated);
  CHECK(quick.front().failed());
}

// --- reading ---

struct Bad {
  const char* from;  // a piece of a good table
  const char* to;    // what stands there instead
  const char* part;  // of the complaint
};
const Bad kBad[] = {
    {"title = \"a table\"\n", "", "title is missing"},
    {"noise = 0.1", "noise = 2.0", ":8: noise = 2.0: allowed: 0.0..1.0"},
    {"metrics = [\"time_s\"]", "metrics = [\"happiness\"]", ":4: metrics = [\"happiness\"]"},
    {"metrics = [\"time_s\"]", "metrics = []", "metrics is missing"},
    {"rows = [10, 20, 30, 40, 50]", "rows = [10, 20, 30, 40, 10]", "each value once"},
    {"rows = [10, 20, 30, 40, 50]", "rows = [10, 20]", "published.time_s"},
    {"row_name = \"MiB\"", "row_name = 3", ":6: row_name = 3: allowed: a text"},
    {"row_name = \"MiB\"", "row_nane = \"MiB\"", "row_name is missing"},
    {"row_name = \"MiB\"", "row_name = \"MiB\"\nfrob = 1", ":7: unknown key frob = 1"},
    {"experiment = \"run.toml\"", "experiment = \"no-such\"", "experiment = \"no-such\""},
    {"kernel = \"2.6.26\"", "kernel = \"7.0\"", "kernel = \"7.0\": there is none"},
    {"id = \"v7\"", "id = \"plain\"", "an id that no other column has"},
    {"label = \"plain\"", "label = \"plain\"\nlable = 1", "[[column]] lable = 1"},
    {"rows = [10, 20]\nseeds = 1", "rows = [15]\nseeds = 1", "lengths.quick.rows = [15]"},
    {"seeds = 4", "seeds = 0", "lengths.default.seeds = 0: allowed: an integer 1..100000"},
    {"[lengths.full]", "[lengths.fool]", "[lengths.full] missing"},
    {"kind = \"ratio_flat\"", "kind = \"ratio_falt\"",
     "kind = \"ratio_falt\": allowed: ratio_flat"},
    {"band = [0.9, 1.1]", "band = [1.1, 0.9]", "two numbers, ascending"},
    {"column = \"v7\"\nrows", "column = \"v9\"\nrows", "column = \"v9\": allowed: plain, v7"},
    {"rows = [10, 20, 30]\n", "rows = [11]\n", "[[claim]] rows = [11]: allowed: 10, 20"},
    {"id = \"x\"", "id = 1", "[[claim]] id = 1"},
    {"it is so", "it is so\"\nmore = \"1", "unknown key [[claim]] more"},
    {"kind = \"ratio_flat\"\ncolumn = \"v7\"\nrows = [10, 20, 30]\n",
     "kind = \"ratio_at\"\ncolumn = \"v7\"\nrow = 30\n", "differ by no more than the noise"},
    {"kind = \"ratio_flat\"\ncolumn = \"v7\"\nrows = [10, 20, 30]\n",
     "kind = \"order\"\ncells = [[\"v7\", 10]]\n", "at least two of"},
    {"kind = \"ratio_flat\"\ncolumn = \"v7\"\nrows = [10, 20, 30]\n",
     "kind = \"reduction\"\ncell = [\"v7\", 10]\nagainst = 3\n", "against = 3: allowed: "},
    {"kind = \"ratio_flat\"\ncolumn = \"v7\"\nrows = [10, 20, 30]\n",
     "kind = \"oom_curve\"\ncolumn = \"v7\"\nat = 30\n", "the published rate"},
};

TEST_CASE("LoadTable: what is wrong is said in one line with file, line and what is allowed",
          "[bench][reproduce]") {
  const std::string good = std::string(kHead) + kColumns + ClaimText(kFlat);
  {
    const Scratch scratch;
    INFO(Load(scratch, good).status().message());
    CHECK(Load(scratch, good).ok());
  }
  for (const Bad& bad : kBad) {
    CAPTURE(bad.to);
    std::string text = good;
    const std::size_t at = text.find(bad.from);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(bad.from).size(), bad.to);
    const Scratch scratch;
    const auto table = Load(scratch, text);
    REQUIRE_FALSE(table.ok());
    const std::string message(table.status().message().data(), table.status().message().size());
    CAPTURE(message);
    CHECK(message.find(bad.part) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.find("table.toml") != std::string::npos);
  }
  CHECK_FALSE(LoadTable("no-such", TreeContext()).ok());
}

TEST_CASE("LoadTable: a column whose kernel is not there yet is left out, with its claims",
          "[bench][reproduce]") {
  const Scratch scratch;
  std::string text = std::string(kHead) + kColumns + ClaimText(kFlat);
  text.replace(text.find("kernel = \"2.6.26-throttle-v7\""), 29,
               "kernel = \"9.9\"\noptional = true");
  const auto table = Load(scratch, text);
  INFO(table.status().message());
  REQUIRE(table.ok());
  CHECK(table->columns.size() == 1);
  CHECK(table->claims.empty());
  CHECK(table->skipped.size() == 2);
}

TEST_CASE("Tables: every table of the tree loads, and its published figures make its own claims",
          "[bench][reproduce]") {
  const LoadContext context = TreeContext();
  const std::vector<std::string> names = KnownTables(context.roots);
  CHECK(names.size() >= 7);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto table = LoadTable(name, context);
    INFO(table.status().message());
    REQUIRE(table.ok());
    for (const Claim& claim : table->claims) {
      CAPTURE(claim.id);
      const auto reading = Read(claim, *table, PublishedFigures(*table));
      if (reading) {
        CHECK(claim.band.Contains(reading->low));
        CHECK(claim.band.Contains(reading->high));
      }
    }
  }
}

// --- running ---

ReproduceOptions Quietly(LengthKind length, int workers = 1) {
  ReproduceOptions options;
  options.length = length;
  options.workers = workers;
  return options;
}

Reproduction Run(const Table& table, const ReproduceOptions& options) {
  auto reproduction = Reproduce(table, options, TreeContext());
  INFO(reproduction.status().message());
  REQUIRE(reproduction.ok());
  return *std::move(reproduction);
}

// A table whose experiment file exists as long as it does.
struct Tiny {
  Scratch scratch;
  Table table;
  explicit Tiny(const std::string& claims = ClaimText(kFlat)) {
    std::string text = std::string(kHead) + kColumns + claims;
    text.replace(text.find("rows = [10, 20, 30, 40, 50]"), 27, "rows = [2, 4, 6, 8, 10]");
    text.replace(text.find("rows = [10, 20]\n"), 16, "rows = [2, 4]\n");
    const std::size_t at = text.find("rows = [10, 20, 30]\n");
    if (at != std::string::npos) text.replace(at, 20, "rows = [2, 4, 6]\n");
    auto loaded = Load(scratch, text);
    INFO(loaded.status().message());
    REQUIRE(loaded.ok());
    table = *std::move(loaded);
  }
};

Json WithoutHost(const Reproduction& reproduction) {
  Json json = Json::parse(ReproductionJson(reproduction));
  json.erase("host");
  return json;
}

TEST_CASE("Reproduce: the result does not depend on the number of workers", "[bench][reproduce]") {
  const Tiny tiny;
  const Reproduction one = Run(tiny.table, Quietly(LengthKind::kDefault, 1));
  const Reproduction three = Run(tiny.table, Quietly(LengthKind::kDefault, 3));
  CHECK(WithoutHost(one) == WithoutHost(three));
  CHECK(ReproductionText(one) == ReproductionText(three));
  CHECK(ReproductionSvg(one) == ReproductionSvg(three));
}

TEST_CASE("Reproduce: says exactly what was shortened and varied", "[bench][reproduce]") {
  const Tiny tiny;
  const Reproduction quick = Run(tiny.table, Quietly(LengthKind::kQuick));
  CHECK(quick.shortened == std::vector<std::string>{"1 seeds of 6", "MiB 6, 8, 10 left out"});
  CHECK(quick.runs.At({1, 1}, 0).end == RunOutcome::End::kFinished);
  CHECK(quick.runs.At({1, 2}, 0).end == RunOutcome::End::kNotRun);
  CHECK_FALSE(quick.verdicts.front().evaluated);  // one seed has no spread
  CHECK(quick.exit_code() == kExitFailed);

  ReproduceOptions options = Quietly(LengthKind::kQuick);
  options.seeds = 2;
  options.sets = {{"--set", "workload.sweeps=2"}};
  options.disk_speed = 2;
  options.ram_percent = 5;
  const Reproduction varied = Run(tiny.table, options);
  CHECK(varied.variants ==
        std::vector<std::string>{"disk at 2 times its speed", "+5 % RAM", "workload.sweeps=2"});
  CHECK(varied.seeds == 2);
  CHECK(varied.machine != quick.machine);
}

// Mutation tried, red: the disk's speed left as it is.
TEST_CASE("Reproduce: other disks and memory sizes stand beside the table", "[bench][reproduce]") {
  const Tiny tiny;
  CHECK(SensitivityGrid(Run(tiny.table, Quietly(LengthKind::kQuick))).empty());
  ReproduceOptions options = Quietly(LengthKind::kQuick);
  options.sensitivity = true;
  const Reproduction reproduction = Run(tiny.table, options);

  ReproduceOptions slow = Quietly(LengthKind::kQuick);
  slow.disk_speed = 0.5;
  REQUIRE(reproduction.varied.size() == 4);
  CHECK(WithoutHost(reproduction.varied[0]) == WithoutHost(Run(tiny.table, slow)));
  const Grid grid = SensitivityGrid(reproduction);
  REQUIRE(grid.size() == 1 + 1 + 4);  // the names, one claim, two columns of two rows
  CHECK(grid[0] == std::vector<std::string>{"", "as it is", "disk at 0.5 times its speed",
                                            "disk at 2 times its speed", "-1 % RAM", "+1 % RAM"});
  CHECK(grid[1][0] == "table/x");
  CHECK(grid[1][1] == "not evaluated -");
  CHECK(grid[2][0] == "plain, 2");
  CHECK(WithoutHost(reproduction).at("varied").size() == 4);
  CHECK(ReproductionText(reproduction).find("disk at 0.5 times") != std::string::npos);
  CHECK(ReproductionMarkdown(reproduction, {}).find("| -1 % RAM |") != std::string::npos);
}

// Mutations tried, red: a variation that cannot be prepared left out; its troubles dropped.
TEST_CASE("Reproduce: what goes wrong on another machine is the whole's", "[bench][reproduce]") {
  const Tiny tiny;
  ReproduceOptions options = Quietly(LengthKind::kQuick);
  options.sensitivity = true;
  options.sets = {{"--set", "workload.mib=20"},
                  {"--set", "throttle.gate=throttle"},
                  {"--set", "throttle.limit=0"}};
  const Reproduction stuck = Run(tiny.table, options);
  CHECK(stuck.exit_code() == kExitStalled);
  REQUIRE(stuck.troubles.size() == 5 * 4);  // five machines, two columns of two rows
  CHECK(stuck.troubles[4].find("disk at 0.5 times its speed, workload.mib=20") == 0);

  // Nothing would be run, and yet it is said.
  const std::atomic<bool> interrupted{true};
  options.interrupted = &interrupted;
  options.sets = {{"--set", "machine.memory_mib=[]"}, {"--set", "machine.mib_per_cpu=32"}};
  const auto refused = Reproduce(tiny.table, options, TreeContext());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("--ram -1: machine tests") == 0);
}

TEST_CASE("Reproduce: bad input is found before anything runs", "[bench][reproduce]") {
  const Tiny tiny;
  ReproduceOptions options = Quietly(LengthKind::kQuick);
  options.sets = {{"--set", "workload.frobs=1"}};
  CHECK(Reproduce(tiny.table, options, TreeContext()).status().message().find("workload.frobs") !=
        absl::string_view::npos);
  options.sets.clear();
  options.disk_speed = 0;
  CHECK_FALSE(Reproduce(tiny.table, options, TreeContext()).ok());
  options.disk_speed = 1;
  options.ram_percent = 99;
  CHECK_FALSE(Reproduce(tiny.table, options, TreeContext()).ok());
}

TEST_CASE("Reproduce: once interrupted it reports what it has", "[bench][reproduce]") {
  const Tiny tiny;
  std::atomic<bool> interrupted{true};
  ReproduceOptions options = Quietly(LengthKind::kQuick);
  options.interrupted = &interrupted;
  const Reproduction nothing = Run(tiny.table, options);
  CHECK(nothing.partial);
  CHECK(nothing.exit_code() == kExitInterrupted);
  CHECK(Json::parse(ReproductionJson(nothing)).at("partial") == true);
}

// --- reports ---

TEST_CASE("Reproduction: JSON has the keys that readers rely on", "[bench][reproduce]") {
  const Tiny tiny(
      ClaimText(kFlat) +
      "[[claim]]\nid = \"y\"\ntext = \"open\"\nkind = \"ratio_at\"\ncolumn = \"v7\"\nrow "
      "= 10\nband = [4, inf]\n");
  const Json json = Json::parse(ReproductionJson(Run(tiny.table, Quietly(LengthKind::kDefault))));
  CHECK(json.at("schema") == "pagestorm.reproduction");
  CHECK(json.at("schema_version") == kReproductionSchema);
  CHECK(json.at("table") == "table");
  CHECK(json.at("engine") == "virtual");
  CHECK(json.at("seeds") == 4);
  CHECK(json.at("shortened").is_array());
  const Json& claim = json.at("claims").at(0);
  CHECK(claim.at("id") == "table/x");
  CHECK(claim.at("text") == "it is so");
  for (const char* side : {"published", "emulated"}) {
    CHECK(claim.at(side).at("value").is_number());
    CHECK(claim.at(side).at("unit") == "ratio");
    CHECK(claim.at(side).at("n").is_number_integer());
  }
  CHECK(claim.at("interval").size() == 2);
  CHECK(claim.at("band") == Json::array({0.9, 1.1}));
  CHECK(claim.at("holds").is_boolean());
  CHECK(claim.at("evaluated") == true);
  CHECK(json.at("claims").at(1).at("band") == Json::array({4.0, nullptr}));
  const Json& row = json.at("columns").at(1).at("rows").at(4);
  CHECK(row.at("row") == 10);
  CHECK(row.at("oom").at("runs") == 4);
  CHECK(row.at("metrics").at("time_s").at("published") == 10.0);
  CHECK(row.at("runs").size() == 4);
}

// Whether every tag is closed in order: enough for what we write ourselves. Says what is wrong.
std::string XmlFault(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "an open tag";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "< in a tag: " + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /\n", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != name) return "closes what is not open: " + tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::string entity = text.substr(at, text.find(';', at) - at + 1);
    if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") {
      return "an unknown entity " + entity;
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

TEST_CASE("ReproductionSvg: well-formed, without script, with both curves and a band",
          "[bench][reproduce]") {
  const Tiny tiny;
  const std::string svg = ReproductionSvg(Run(tiny.table, Quietly(LengthKind::kDefault)));
  CHECK(XmlFault(svg) == "");
  CHECK(svg.rfind("<svg xmlns=", 0) == 0);
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("stroke-dasharray") != std::string::npos);
  CHECK(svg.find("<polygon") != std::string::npos);
  CHECK(svg.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(svg.find("v7 &lt; plain &amp; &quot;better&quot;") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(XmlFault("<a><b></a>") != "");
  CHECK(XmlFault("<a>x & y</a>") != "");
}

TEST_CASE("ReproductionSvg: a chart of nothing but killed runs is a chart", "[bench][reproduce]") {
  const Tiny tiny;
  Reproduction reproduction = Run(tiny.table, Quietly(LengthKind::kQuick));
  for (std::size_t column = 0; column < 2; ++column) {
    for (std::size_t row = 0; row < 2; ++row) {
      reproduction.runs.At({column, row}, 0).end = RunOutcome::End::kOom;
    }
  }
  for (const bool rates : {false, true}) {
    reproduction.table.draws_rates = rates;
    const std::string svg = ReproductionSvg(reproduction);
    CHECK(XmlFault(svg) == "");
    CHECK(svg.find("nan") == std::string::npos);
  }
}

TEST_CASE("WithSection: replaces a table's section and leaves the rest of the page alone",
          "[bench][reproduce]") {
  const std::string section = "<!-- begin a -->\nnew\n<!-- end a -->\n";
  CHECK(WithSection("", "a", section) == section);
  CHECK(WithSection("# Page\n", "a", section) == "# Page\n\n" + section);
  const std::string page =
      "# Page\n<!-- begin a -->\nold\n<!-- end a -->\n<!-- begin b -->\nkept\n";
  const std::string replaced = WithSection(page, "a", section);
  CHECK(replaced == "# Page\n" + section + "<!-- begin b -->\nkept\n");
  CHECK(WithSection(replaced, "a", section) == replaced);
}

TEST_CASE("ReproductionMarkdown: is a section that names its command and its chart",
          "[bench][reproduce]") {
  const Tiny tiny;
  const std::string text =
      ReproductionMarkdown(Run(tiny.table, Quietly(LengthKind::kQuick)),
                           {.command = "pagestorm reproduce t", .commit = "c0"});
  CHECK(text.rfind("<!-- begin table -->\n", 0) == 0);
  CHECK(text.find("`pagestorm reproduce t`") != std::string::npos);
  CHECK(text.find("commit c0") != std::string::npos);
  CHECK(text.find("(table.svg)") != std::string::npos);
  CHECK(text.find("<!-- end table -->") != std::string::npos);
}

}  // namespace
}  // namespace pagestorm::bench
