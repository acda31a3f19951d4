#include "bench/compare/vmstat_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

using Growth = VmGrowth;

constexpr std::string_view kZones[] = {"dma", "dma32", "normal", "high", "movable"};

// The generations that have a row.
enum Era : unsigned { kA = 1, kB = 2, kC = 4, kAB = kA | kB, kBC = kB | kC, kAll = kA | kB | kC };

unsigned EraOf(Compat compat) {
  switch (compat) {
    case Compat::k2013:
      return kA;
    case Compat::k2017:
      return kB;
    case Compat::kCurrent:
      return kC;
  }
  return kC;
}

enum class Format : std::uint8_t { kCount, kPercent, kRate };

struct VmRow {
  std::string label;
  unsigned eras;
  Format format;
  std::function<double(const Growth&)> value;
  std::string zone = {};  // whose machine's row it is; empty: everybody's
};

// A counter as it is.
VmRow Counter(const std::string& label, unsigned eras, const std::string& name) {
  return {label, eras, Format::kCount, [name](const Growth& g) { return g.Of(name); }};
}

double Percentage(double part, double whole, double if_none) {
  return whole > 0 ? 100 * part / whole : if_none;
}

double PerSecond(double count, const Growth& g) {
  return g.elapsed_s > 0 ? count / g.elapsed_s : 0;
}

double KswapdScanned(const Growth& g) { return g.Sum("pgscan_kswapd"); }
double DirectScanned(const Growth& g) { return g.Sum("pgscan_direct"); }

double KswapdReclaimed(const Growth& g) {
  return g.Has("kswapd_steal") ? g.Of("kswapd_steal") : g.Sum("pgsteal_kswapd");
}

// Old kernels count what anybody reclaimed, and of that kswapd's share.
double DirectReclaimed(const Growth& g) {
  return g.Has("kswapd_steal") ? g.Sum("pgsteal") - g.Of("kswapd_steal") : g.Sum("pgsteal_direct");
}

double ZoneScanned(const Growth& g, const std::string& zone) {
  double scanned = g.Of("pgscan_kswapd_" + zone) + g.Of("pgscan_direct_" + zone);
  // Kernels that do not tell zones apart: all of it counts as normal.
  if (zone == "normal") scanned += g.Of("pgscan_kswapd") + g.Of("pgscan_direct");
  return scanned;
}

VmRow ZoneVelocity(const std::string& label, const std::string& zone, Format format) {
  return {"Zone " + label + " velocity", kAB, format,
          [zone](const Growth& g) { return PerSecond(ZoneScanned(g, zone), g); }, zone};
}

double AllocStalls(const Growth& g, Compat compat) {
  return compat == Compat::kCurrent ? g.Sum("allocstall") : g.Of("allocstall");
}

// Weights in 1e-6: 7 a struct page looked at (56 bytes of 8), 19 one isolated, 1038 a page copied.
double CompactionCost(const Growth& g) {
  if (g.Has("compact_blocks_moved")) {
    return (7 * 16384 * g.Of("compact_blocks_moved") + 1038 * g.Of("compact_pages_moved") +
            14 * g.Of("compact_pagemigrate_failed")) /
           1e6;
  }
  return (7 * g.Of("compact_migrate_scanned") + 19 * g.Of("compact_isolated") +
          1038 * g.Of("pgmigrate_success") + 14 * g.Of("pgmigrate_fail")) /
         1e6;
}

// Today's report shows "-0.00" for kernels without these counters.
double CompactionCostNow(const Growth& g) {
  return g.Has("compact_isolated") || g.Has("pgmigrate_success") || g.Has("compact_blocks_moved")
             ? CompactionCost(g)
             : -0.0;
}

// 5000 a hinting fault. A term for copying was written and never added.
double NumaCost(const Growth& g) {
  return (7 * g.Of("numa_pte_updates") + 5000 * g.Of("numa_hint_faults") +
          19 * g.Of("numa_pages_migrated")) /
         1e6;
}

using Rows = std::vector<VmRow>;

void AddFaults(Rows& rows, Compat compat) {
  rows.push_back({"Minor Faults", kAll, Format::kCount,
                  [](const Growth& g) { return g.Of("pgfault") - g.Of("pgmajfault"); }});
  rows.push_back(Counter("Major Faults", kAll, "pgmajfault"));
  rows.push_back(Counter("Swap Ins", kAll, "pswpin"));
  rows.push_back(Counter("Swap Outs", kAll, "pswpout"));
  rows.push_back({"Allocation stalls", kBC, Format::kCount,
                  [compat](const Growth& g) { return AllocStalls(g, compat); }});
  rows.push_back(Counter("DMA allocs", kBC, "pgalloc_dma"));
  rows.push_back(Counter("DMA32 allocs", kBC, "pgalloc_dma32"));
  rows.push_back(Counter("Normal allocs", kBC, "pgalloc_normal"));
  rows.push_back(Counter("Movable allocs", kBC, "pgalloc_movable"));
}

void AddReclaim(Rows& rows) {
  rows.push_back({"Direct pages scanned", kAll, Format::kCount, DirectScanned});
  rows.push_back({"Kswapd pages scanned", kAll, Format::kCount, KswapdScanned});
  rows.push_back({"Kswapd pages reclaimed", kAll, Format::kCount, KswapdReclaimed});
  rows.push_back({"Direct pages reclaimed", kAll, Format::kCount, DirectReclaimed});
  rows.push_back({"Kswapd efficiency", kAll, Format::kPercent, [](const Growth& g) {
                    return Percentage(KswapdReclaimed(g), KswapdScanned(g), 100);
                  }});
  rows.push_back({"Kswapd velocity", kAll, Format::kRate,
                  [](const Growth& g) { return PerSecond(KswapdScanned(g), g); }});
  rows.push_back({"Direct efficiency", kAll, Format::kPercent, [](const Growth& g) {
                    return Percentage(DirectReclaimed(g), DirectScanned(g), 100);
                  }});
  rows.push_back({"Direct velocity", kAll, Format::kRate,
                  [](const Growth& g) { return PerSecond(DirectScanned(g), g); }});
  rows.push_back({"Percentage direct scans", kAll, Format::kPercent, [](const Growth& g) {
                    return Percentage(DirectScanned(g), DirectScanned(g) + KswapdScanned(g), 0);
                  }});
}

// The fifth zone's format is a count's: published tables have one slipped rate below the zones of a
// machine that lacks two of them, not two.
void AddZones(Rows& rows) {
  rows.push_back(ZoneVelocity("normal", "normal", Format::kRate));
  rows.push_back(ZoneVelocity("dma32", "dma32", Format::kRate));
  rows.push_back(ZoneVelocity("dma", "dma", Format::kRate));
  rows.push_back(ZoneVelocity("movable", "movable", Format::kRate));
  rows.push_back(ZoneVelocity("highmem", "high", Format::kCount));
}

void AddWrites(Rows& rows) {
  rows.push_back(Counter("Page writes by reclaim", kAll, "nr_vmscan_write"));
  rows.push_back({"Page writes file", kAll, Format::kCount,
                  [](const Growth& g) { return g.Of("nr_vmscan_write") - g.Of("pswpout"); }});
  rows.push_back(Counter("Page writes anon", kAll, "pswpout"));
  rows.push_back(Counter("Page reclaim immediate", kAll, "nr_vmscan_immediate_reclaim"));
  rows.push_back(Counter("Sector Reads", kAll, "pgpgin"));
  rows.push_back(Counter("Sector Writes", kAll, "pgpgout"));
  rows.push_back(Counter("Page rescued immediate", kAll, "pgrescued"));
  rows.push_back(Counter("Slabs scanned", kAll, "slabs_scanned"));
  rows.push_back(Counter("Direct inode steals", kAll, "pginodesteal"));
  rows.push_back(Counter("Kswapd inode steals", kAll, "kswapd_inodesteal"));
  rows.push_back(Counter("Kswapd skipped wait", kAll, "kswapd_skip_congestion_wait"));
}

void AddHugePages(Rows& rows) {
  rows.push_back(Counter("THP fault alloc", kAll, "thp_fault_alloc"));
  rows.push_back(Counter("THP collapse alloc", kAll, "thp_collapse_alloc"));
  rows.push_back(Counter("THP splits", kAB, "thp_split"));
  rows.push_back(Counter("THP split", kC, "thp_split_page"));
  rows.push_back(Counter("THP split failed", kC, "thp_split_page_failed"));
  rows.push_back(Counter("THP fault fallback", kAll, "thp_fault_fallback"));
  rows.push_back(Counter("THP collapse fail", kAll, "thp_collapse_alloc_failed"));
}

void AddCompaction(Rows& rows) {
  rows.push_back(Counter("Compaction stalls", kAll, "compact_stall"));
  rows.push_back(Counter("Compaction success", kAll, "compact_success"));
  rows.push_back(Counter("Compaction failures", kAll, "compact_fail"));
  rows.push_back({"Compaction efficiency", kC, Format::kPercent, [](const Growth& g) {
                    return Percentage(g.Of("compact_success"), g.Of("compact_stall"), 0);
                  }});
  rows.push_back(Counter("Page migrate success", kAll, "pgmigrate_success"));
  // The first reports asked for a name that no kernel has.
  rows.push_back({"Page migrate failure", kA, Format::kCount, [](const Growth&) { return 0.0; }});
  rows.push_back(Counter("Page migrate failure", kBC, "pgmigrate_fail"));
  rows.push_back(Counter("Compaction pages isolated", kAll, "compact_isolated"));
  rows.push_back(Counter("Compaction migrate scanned", kAll, "compact_migrate_scanned"));
  rows.push_back(Counter("Compaction free scanned", kAll, "compact_free_scanned"));
  rows.push_back({"Compaction cost", kAB, Format::kCount, CompactionCost});
  rows.push_back({"Compaction cost", kC, Format::kCount, CompactionCostNow});
  rows.push_back(Counter("Kcompactd wake", kC, "compact_daemon_wake"));
  rows.push_back(Counter("Kcompactd migrate scanned", kC, "compact_daemon_migrate_scanned"));
  rows.push_back(Counter("Kcompactd free scanned", kC, "compact_daemon_free_scanned"));
}

void AddNuma(Rows& rows) {
  rows.push_back(Counter("NUMA alloc hit", kBC, "numa_hit"));
  rows.push_back(Counter("NUMA alloc miss", kBC, "numa_miss"));
  rows.push_back(Counter("NUMA interleave hit", kBC, "numa_interleave"));
  rows.push_back(Counter("NUMA alloc local", kBC, "numa_local"));
  rows.push_back(Counter("NUMA PTE updates", kA, "numa_pte_updates"));
  rows.push_back(Counter("NUMA base PTE updates", kB, "numa_pte_updates"));
  rows.push_back(Counter("NUMA huge PMD updates", kB, "numa_huge_pte_updates"));
  rows.push_back({"NUMA page range updates", kB, Format::kCount, [](const Growth& g) {
                    return g.Of("numa_pte_updates") + 512 * g.Of("numa_huge_pte_updates");
                  }});
  rows.push_back(Counter("NUMA base-page range updates", kC, "numa_pte_updates"));
  rows.push_back({"NUMA PTE updates", kC, Format::kCount, [](const Growth& g) {
                    return g.Of("numa_pte_updates") - 512 * g.Of("numa_huge_pte_updates");
                  }});
  rows.push_back(Counter("NUMA PMD updates", kC, "numa_huge_pte_updates"));
  rows.push_back(Counter("NUMA hint faults", kAll, "numa_hint_faults"));
  rows.push_back(Counter("NUMA hint local faults", kAll, "numa_hint_faults_local"));
  const auto local = [](const Growth& g) {
    return Percentage(g.Of("numa_hint_faults_local"), g.Of("numa_hint_faults"), 100);
  };
  rows.push_back({"NUMA hint local percent", kA, Format::kCount, local});
  rows.push_back({"NUMA hint local percent", kBC, Format::kPercent, local});
  rows.push_back(Counter("NUMA pages migrated", kAll, "numa_pages_migrated"));
  rows.push_back({"AutoNUMA cost", kAll, Format::kCount, NumaCost});
}

Rows RowsOf(Compat compat) {
  Rows rows;
  AddFaults(rows, compat);
  AddReclaim(rows);
  AddZones(rows);
  AddWrites(rows);
  AddHugePages(rows);
  AddCompaction(rows);
  AddNuma(rows);
  const unsigned era = EraOf(compat);
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [era](const VmRow& row) { return (row.eras & era) == 0; }),
             rows.end());
  return rows;
}

bool Present(const VmRow& row, const std::vector<Growth>& columns) {
  return row.zone.empty() || std::any_of(columns.begin(), columns.end(), [&](const Growth& g) {
           return g.zones.contains(row.zone);
         });
}

std::string Cell(double value, Format format) {
  switch (format) {
    case Format::kPercent:
      return fmt::format("{:>11}%", static_cast<std::int64_t>(value));
    case Format::kRate:
      return fmt::format("{:12.3f}", value);
    case Format::kCount:
      break;
  }
  return fmt::format("{:>12}", static_cast<std::int64_t>(value));
}

bool AllZero(const MonitorRow& row) {
  return std::all_of(row.cells.begin(), row.cells.end(), [](const std::string& cell) {
    return cell.find_first_of("123456789") == std::string::npos;
  });
}

}  // namespace

bool VmGrowth::Has(std::string_view name) const { return counters.contains(name); }

double VmGrowth::Of(std::string_view name) const {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

double VmGrowth::Sum(std::string_view name) const {
  double sum = Of(name);
  for (const std::string_view zone : kZones) sum += Of(fmt::format("{}_{}", name, zone));
  return sum;
}

absl::StatusOr<VmCounters> ParseVmstat(const std::string& text) {
  VmCounters counters;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::int64_t value = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[1], &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(number, ": \"", line, "\" is no name and number"));
    }
    counters[words[0]] = static_cast<double>(value);
  }
  return counters;
}

std::string VmstatTable(const std::vector<std::string>& names, const std::vector<VmGrowth>& columns,
                        const VmstatOptions& options) {
  const Compat compat = options.style.compat;
  const bool current = compat == Compat::kCurrent;
  const Rows rows = RowsOf(compat);
  std::vector<MonitorRow> printed;
  std::size_t longest = 0;  // of all labels: a table of few rows is as wide as a full one
  std::size_t present = 0;  // rows so far
  for (const VmRow& row : rows) {
    longest = std::max(longest, row.label.size());
    if (!Present(row, columns)) continue;
    // The slip: formats go by the number of rows printed, not by the row.
    const Format format = options.style.quirks ? rows[present].format : row.format;
    ++present;
    MonitorRow line{row.label, {}};
    for (const Growth& growth : columns) {
      const double value = row.value(growth);
      line.cells.push_back(current ? Fixed(value, 15, 2) : Cell(value, format));
    }
    if (options.keep_zeros || !AllZero(line)) printed.push_back(std::move(line));
  }
  for (MonitorRow& row : printed) {
    row.label = fmt::format("{}{:<{}}", current ? "Ops " : "", row.label, longest);
  }
  return MonitorTable(names, printed, current ? 15 : 12, options.style.quirks);
}

std::vector<VmstatValues> VmstatNumbers(const std::vector<VmGrowth>& columns, Compat compat) {
  std::vector<VmstatValues> all;
  for (const VmRow& row : RowsOf(compat)) {
    if (!Present(row, columns)) continue;
    VmstatValues values{row.label, {}};
    for (const Growth& growth : columns) {
      values.values.push_back(row.value(growth) + 0.0);  // no minus before a zero
    }
    all.push_back(std::move(values));
  }
  return all;
}

}  // namespace pagestorm::bench
