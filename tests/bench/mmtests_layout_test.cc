// Reports in mmtests' layouts, against published figures. Values and formats: spec
// workloads-and-reports 3.1 to 3.6, numa-balancing-v5 7.3 and 7.4, kswapd-4.11 8.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "bench/compare/layout.h"
#include "bench/compare/summary.h"
#include "bench/compare/vmstat_rows.h"

namespace pagestorm::bench {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Style kA{Compat::k2013, true};
constexpr Style kB{Compat::k2017, true};
constexpr Style kC{Compat::kCurrent, true};

// A golden text without its first line break, so that it may start on a line of its own.
std::string Golden(const char* text) { return text + 1; }

// The line of a table that starts with `label`, without it and the blanks that follow.
std::string LineOf(const std::string& table, const std::string& label) {
  const std::size_t at = table.find("\n" + label + " ");
  if (at == std::string::npos) return "no such line";
  const std::size_t first = table.find_first_not_of(' ', at + 1 + label.size());
  return table.substr(first, table.find('\n', first) - first);
}

TEST_CASE("PercentBetter: positive is better, with the reports' own corner cases",
          "[bench][compare]") {
  CHECK(PercentBetter(Better::kHigher, 200, 250, Compat::k2017) == 25);
  CHECK(PercentBetter(Better::kHigher, 200, 200, Compat::k2017) == 0);
  CHECK(PercentBetter(Better::kHigher, 200, 0, Compat::k2017) == 0);
  CHECK(PercentBetter(Better::kHigher, 0, 5, Compat::k2017) == 100);
  CHECK(PercentBetter(Better::kLower, 200, 250, Compat::k2017) == -25);
  CHECK(PercentBetter(Better::kLower, 200, 0, Compat::k2017) == 100);
  CHECK(PercentBetter(Better::kLower, 200, 0, Compat::k2013) == 0);
  CHECK(PercentBetter(Better::kLower, 0, 5, Compat::kCurrent) == -99);
  CHECK(PercentBetter(Better::kLower, 0, 0, Compat::kCurrent) == 0);
}

TEST_CASE("SplitName: at the first dash, a release candidate stays whole", "[bench][compare]") {
  using Parts = std::pair<std::string, std::string>;
  CHECK(SplitName("4.11.0-rc1-keepawake-v2", true) == Parts{"4.11.0-rc1", "keepawake-v2"});
  CHECK(SplitName("3.9.0-vanilla", true) == Parts{"3.9.0", "vanilla"});
  CHECK(SplitName("baseline", true) == Parts{"baseline", ""});
  CHECK(SplitName("4.11.0-rc1", true) == Parts{"4.11.0-rc1", ""});
  CHECK(SplitName("4.11.0-rcu-v1", true) == Parts{"4.11.0", "rcu-v1"});
  // Two digits break it, and need not.
  CHECK(SplitName("2.6.26-rc10-mm1", true) == Parts{"2.6.26", "rc10-mm1"});
  CHECK(SplitName("2.6.26-rc10-mm1", false) == Parts{"2.6.26-rc10", "mm1"});
}

TEST_CASE("ComparisonTable: of 2017, as published", "[bench][compare][golden]") {
  // Rows that a mail leaves out still make columns wide.
  const std::vector<Row> rows{
      {"Amean", "p50-Read", {21670074.18, 22668332.52}},
      {"Amean", "p99-Allocation", {247003.02, 125765.57}},
      {"Amean", "final-p50-Allocation", {1, 1}},
      {"CoeffVar", "p99-Allocation", {247003.02, 6291171.56}},
  };
  CHECK(ComparisonTable({"4.11.0-rc1-vanilla", "4.11.0-rc1-keepawake-v2"}, rows, {kB}) == Golden(R"(
                                         4.11.0-rc1            4.11.0-rc1
                                            vanilla          keepawake-v2
Amean    p50-Read             21670074.18 (  0.00%) 22668332.52 ( -4.61%)
Amean    p99-Allocation         247003.02 (  0.00%)   125765.57 ( 49.08%)
Amean    final-p50-Allocation        1.00 (  0.00%)        1.00 (  0.00%)
CoeffVar p99-Allocation         247003.02 (  0.00%)  6291171.56 (-2447.00%)
)"));
}

TEST_CASE("ComparisonTable: of 2013, as published", "[bench][compare][golden]") {
  const std::vector<Row> rows{
      {"User", "NUMA01", {52623.86, 49514.41, 53783.60}},
      {"User", "NUMA01_THEADLOCAL", {17595.48, 17620.51, 19734.74}},
      {"System", "NUMA02", {9.36, 9.96, 13.02}},
      {"Elapsed", "NUMA02_SMT", {58.48, 47.79, 51.56}},
      {"CPU", "NUMA01", {4414, 4349, 4333}},
  };
  const std::vector<std::string> names{"3.9.0-vanilla", "3.9.0-favorpref-v5",
                                       "3.9.0-scanshared-v5"};
  CHECK(ComparisonTable(names, rows, {kA}) == Golden(R"(
                                          3.9.0                 3.9.0                 3.9.0
                                        vanilla          favorpref-v5         scanshared-v5
User    NUMA01               52623.86 (  0.00%)    49514.41 (  5.91%)    53783.60 ( -2.20%)
User    NUMA01_THEADLOCAL    17595.48 (  0.00%)    17620.51 ( -0.14%)    19734.74 (-12.16%)
System  NUMA02                   9.36 (  0.00%)        9.96 ( -6.41%)       13.02 (-39.10%)
Elapsed NUMA02_SMT              58.48 (  0.00%)       47.79 ( 18.28%)       51.56 ( 11.83%)
CPU     NUMA01                4414.00 (  0.00%)     4349.00 (  1.47%)     4333.00 (  1.84%)
)"));
  // Throughput is wider, and higher is better.
  const std::vector<Row> bops{{"TPut", "1", {24474, 23503, 24858}, Better::kHigher},
                              {"TPut", "25", {456121, 434898, 432072}, Better::kHigher}};
  CHECK(ComparisonTable(names, bops, {kA, 13}) == Golden(R"(
                         3.9.0                  3.9.0                  3.9.0
                       vanilla           favorpref-v5          scanshared-v5
TPut 1      24474.00 (  0.00%)     23503.00 ( -3.97%)     24858.00 (  1.57%)
TPut 25    456121.00 (  0.00%)    434898.00 ( -4.65%)    432072.00 ( -5.27%)
)"));
}

TEST_CASE("ComparisonTable: of today, with decimals, asterisks and values that are none",
          "[bench][compare][golden]") {
  const std::vector<Row> rows{
      {"Amean", "elapsed", {1.5, 0.93359, 1.5}, Better::kLower, 4, {false, true, false}},
      {"Stddev", "elapsed", {0.02, 0.01, kNaN}, Better::kLower, 4},
  };
  CHECK(ComparisonTable({"6.1-a", "6.1-b", "6.1-c"}, rows, {kC}) == Golden(R"(
                                  6.1                    6.1                    6.1
                                    a                      b                      c
Amean  elapsed      1.5000 (   0.00%)      0.9336 *  37.76%*      1.5000 (   0.00%)
Stddev elapsed      0.0200 (   0.00%)      0.0100 (  50.00%)         NaN (    NaN%)
)"));
}

TEST_CASE("DurationTable: User, System, Elapsed; long names run together",
          "[bench][compare][golden]") {
  const std::vector<Duration> durations{{5178.63, 63.37, 254.06}, {5177.18, 77.01, 254.28}};
  CHECK(DurationTable({"3.9.0-vanilla", "3.9.0-favorpref-v5"}, durations, kA) == Golden(R"(
              3.9.0       3.9.0
            vanillafavorpref-v5
User        5178.63     5177.18
System        63.37       77.01
Elapsed      254.06      254.28
)"));
  CHECK(DurationTable({"3.9.0-vanilla", "3.9.0-favorpref-v5"}, durations, kC) == Golden(R"(
                       3.9.0       3.9.0
                     vanillafavorpref-v5
Duration User        5178.63     5177.18
Duration System        63.37       77.01
Duration Elapsed      254.06      254.28
)"));
}

const std::set<std::string, std::less<>> kUsualZones{"dma", "dma32", "normal"};

TEST_CASE("VmstatTable: of 2013, the derived rows of two published columns",
          "[bench][compare][golden]") {
  const std::vector<VmGrowth> columns{
      {{{"pgmigrate_success", 9020528},
        {"numa_pte_updates", 119292401},
        {"numa_hint_faults", 755901},
        {"numa_hint_faults_local", 595478},
        {"numa_pages_migrated", 9020528},
        {"compact_isolated", 0}},
       kUsualZones,
       3000},
      {{{"pgmigrate_success", 2012272},
        {"numa_pte_updates", 19189011},
        {"numa_hint_faults", 198452},
        {"numa_hint_faults_local", 140889},
        {"numa_pages_migrated", 2012272}},
       kUsualZones,
       254.06},
  };
  const std::string table = VmstatTable({"3.9.0-autonuma", "3.9.0-specjbb"}, columns, {kA});
  CHECK(LineOf(table, "Page migrate success") == "9020528     2012272");
  CHECK(LineOf(table, "Page migrate failure") == "0           0");
  CHECK(LineOf(table, "Compaction cost") == "9363        2088");
  CHECK(LineOf(table, "NUMA PTE updates") == "119292401    19189011");
  CHECK(LineOf(table, "NUMA hint local percent") == "78          70");
  CHECK(LineOf(table, "AutoNUMA cost") == "4785        1164");
  // Rows of later generations, and of zones that nobody has.
  CHECK(LineOf(table, "Allocation stalls") == "no such line");
  CHECK(LineOf(table, "Zone movable velocity") == "no such line");
}

TEST_CASE("VmstatTable: of 2017, with the formats that slip by two zones",
          "[bench][compare][golden]") {
  const auto column = [](double kswapd_scanned, double kswapd, double direct_scanned, double direct,
                         double writes, double swap_outs, double elapsed) {
    return VmGrowth{{{"pgscan_kswapd", kswapd_scanned},
                     {"pgsteal_kswapd", kswapd},
                     {"pgscan_direct", direct_scanned},
                     {"pgsteal_direct", direct},
                     {"nr_vmscan_write", writes},
                     {"pswpout", swap_outs}},
                    kUsualZones,
                    elapsed};
  };
  const std::vector<VmGrowth> columns{
      column(57036946, 55993488, 6910672, 6905990, 0, 0, 4565.01),
      column(82488665, 63474329, 3132699, 2964843, 4410243, 608, 4687.52)};
  const std::string table =
      VmstatTable({"4.10.0-rc7-mmots-20170209", "4.10.0-rc7-clear-v1r25"}, columns, {kB});
  const std::size_t reclaim = table.find("Swap Ins");
  const std::size_t end = table.find("Page reclaim immediate");
  REQUIRE(end != std::string::npos);
  CHECK(table.substr(0, table.find("Minor")) == Golden(R"(
                            4.10.0-rc7  4.10.0-rc7
                          mmots-20170209 clear-v1r25
)"));
  CHECK(table.substr(reclaim, end - reclaim) == Golden(R"(
Swap Ins                             0           0
Swap Outs                            0         608
Allocation stalls                    0           0
DMA allocs                           0           0
DMA32 allocs                         0           0
Normal allocs                        0           0
Movable allocs                       0           0
Direct pages scanned           6910672     3132699
Kswapd pages scanned          57036946    82488665
Kswapd pages reclaimed        55993488    63474329
Direct pages reclaimed         6905990     2964843
Kswapd efficiency                  98%         76%
Kswapd velocity              12494.375   17597.507
Direct efficiency                  99%         94%
Direct velocity               1513.835     668.306
Percentage direct scans            10%          3%
Zone normal velocity         14008.210   18265.813
Zone dma32 velocity              0.000       0.000
Zone dma velocity                0.000       0.000
Page writes by reclaim           0.000 4410243.000
Page writes file                     0     4409635
Page writes anon                     0         608
)"));
  CHECK(LineOf(table, "NUMA hint local percent") == "100         100");
  CHECK(LineOf(table, "AutoNUMA cost") == "0%          0%");
  // Without the quirk each row has its own format.
  const std::string plain = VmstatTable({"a", "b"}, columns, {.style = {Compat::k2017, false}});
  CHECK(LineOf(plain, "Page writes by reclaim") == "0     4410243");
  CHECK(LineOf(plain, "NUMA hint local percent") == "100%        100%");
  CHECK(LineOf(plain, "AutoNUMA cost") == "0           0");
}

TEST_CASE("VmstatTable: of today, percentages with decimals, zones summed", "[bench][compare]") {
  const VmGrowth old{{{"pgsteal_dma", 10},
                      {"pgsteal_dma32", 90},
                      {"kswapd_steal", 60},
                      {"pgscan_kswapd_dma32", 75},
                      {"pgscan_direct_dma", 50},
                      {"allocstall", 3}},
                     {"dma", "dma32"},
                     2};
  const VmGrowth now{
      {{"allocstall_normal", 2}, {"allocstall_movable", 5}, {"pgfault", 9}}, {"normal"}, 2};
  const std::string table = VmstatTable({"x-old", "x-new"}, {old, now}, {kC});
  CHECK(LineOf(table, "Ops Kswapd efficiency") == "80.00         100.00");
  CHECK(LineOf(table, "Ops Direct pages reclaimed") == "40.00           0.00");
  CHECK(LineOf(table, "Ops Kswapd velocity") == "37.50           0.00");
  CHECK(LineOf(table, "Ops Allocation stalls") == "3.00           7.00");
  CHECK(LineOf(table, "Ops Compaction cost") == "-0.00          -0.00");
  CHECK(LineOf(table, "Ops Minor Faults") == "0.00           9.00");
  const std::string short_table =
      VmstatTable({"x-old", "x-new"}, {old, now}, {.style = kC, .keep_zeros = false});
  CHECK(LineOf(short_table, "Ops Swap Ins") == "no such line");
  CHECK(LineOf(short_table, "Ops Allocation stalls") == "3.00           7.00");
  CHECK(LineOf(VmstatTable({"x"}, {now}, {kB}), "Allocation stalls") == "0");
}

TEST_CASE("ParseVmstat: names and numbers, or the line that is none", "[bench][compare]") {
  const auto good = ParseVmstat("nr_free_pages 12\npgfault 34\n");
  REQUIRE(good.ok());
  CHECK(good->at("pgfault") == 34);
  CHECK(ParseVmstat("nr_free_pages 12\npgfault\n").status().message() ==
        "2: \"pgfault\" is no name and number");
  CHECK_FALSE(ParseVmstat("pgfault twelve\n").ok());
}

TEST_CASE("summary: statistics by mmtests' definitions", "[bench][compare]") {
  const stats::Sample sample{1, 2, 4};
  CHECK(Amean(sample) == Approx(7.0 / 3));
  CHECK(Hmean(sample, Compat::kCurrent) == 12.0 / 7);
  CHECK(Hmean({1, 0}, Compat::k2017) == -1);
  CHECK(std::isnan(Hmean({1, 0}, Compat::kCurrent)));
  // Deviations -4/3, -1/3, 5/3: squares 42/9.
  CHECK(Stddev(sample, Compat::k2017) == Approx(std::sqrt(42.0 / 27)));
  CHECK(Stddev(sample, Compat::kCurrent) == Approx(std::sqrt(42.0 / 18)));
  CHECK(Stddev({5}, Compat::k2017) == 0);
  CHECK(std::isnan(Stddev({5}, Compat::kCurrent)));
  CHECK(CoeffVar(sample, Compat::k2017) == Approx(100 * std::sqrt(42.0 / 27) * 3 / 7));
  // 1/x - 1/m: 5/12, -1/12, -4/12, squares 42/144.
  CHECK(HarmonicStddev(sample, Compat::kCurrent) ==
        Approx(std::sqrt(42.0 / 144 * std::pow(12.0 / 7, 4) / 3)));
  CHECK(BestOf({3, 1, 2}, 95, Better::kLower) == stats::Sample{1, 2});
  CHECK(BestOf({3, 1, 2}, 95, Better::kHigher) == stats::Sample{3, 2});
  CHECK(BestOf({3}, 95, Better::kHigher) == stats::Sample{3});
  CHECK(Pctile({40, 10, 30, 20}, 50, Better::kLower) == 20);
  CHECK(Pctile({40, 10, 30, 20}, 50, Better::kHigher) == 30);
  CHECK(std::isnan(Amean({})));
}

std::vector<std::string> Labels(const std::vector<Row>& rows) {
  std::vector<std::string> labels;
  for (const Row& row : rows) labels.push_back(row.statistic + " " + row.operation);
  return labels;
}

TEST_CASE("SummaryRows: by statistic, then operation; the mean alone for single values",
          "[bench][compare]") {
  using Strings = std::vector<std::string>;
  const std::vector<Operation> two{{"time", Better::kLower, 4, {{1, 2}, {3}}},
                                   {"rate", Better::kHigher, 2, {{5, 6}, {7}}}};
  CHECK(Labels(SummaryRows(two, Compat::k2017)) ==
        Strings{"Min time", "Min rate", "Amean time", "Hmean rate", "Stddev time", "Stddev rate",
                "CoeffVar time", "CoeffVar rate", "Max time", "Max rate"});
  const std::vector<Row> now = SummaryRows(two, Compat::kCurrent);
  CHECK(Labels(now).back() == "BHmean.95 rate");
  CHECK(now[2].decimals == 4);
  CHECK(now[5].better == Better::kLower);  // spread, of a rate too
  const std::vector<Operation> one{{"time", Better::kLower, 4, {{1}, {3}}}};
  CHECK(Labels(SummaryRows(one, Compat::kCurrent)) == Strings{"Amean time"});
}

TEST_CASE("SummaryRows: marks a mean that leaves both deviations behind", "[bench][compare]") {
  // Deviations 1 and 1: the marks begin at a difference of 2 * 1.95996.
  const auto marks = [](double shift, Compat compat) -> bool {
    const Operation operation{
        "time", Better::kLower, 2, {{9, 10, 11}, {9 + shift, 10 + shift, 11 + shift}}};
    return SummaryRows({operation}, compat)[1].significant[1];
  };
  CHECK(marks(3.92, Compat::kCurrent));
  CHECK(marks(-3.92, Compat::kCurrent));
  CHECK_FALSE(marks(3.91, Compat::kCurrent));
  CHECK_FALSE(marks(100, Compat::k2017));
}

}  // namespace
}  // namespace pagestorm::bench
