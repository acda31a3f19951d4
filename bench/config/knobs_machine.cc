// Knobs of the machine: numa::MachineSpec, as docs/machine-files.md describes them.
#include <optional>

#include "bench/config/knob_kinds.h"

namespace pagestorm::bench {
namespace {

constexpr KnobScope kMachine = KnobScope::kMachine;
constexpr std::int64_t kMaxMib = std::int64_t{1} << 32;
constexpr std::int64_t kLongNs = 1'000'000'000'000;

#define PS_FIELD(path) \
  [](auto& c) -> auto& { return c.machine.path; }

void MachineInt(std::vector<Knob>& knobs, const std::string& name, std::int64_t low,
                std::int64_t high, auto field, std::string doc) {
  knobs.push_back(IntKnob("machine." + name, kMachine, low, high, field, std::move(doc)));
}

Knob PageShiftKnob() {
  return {"machine.page_shift",
          kMachine,
          "12, 14, 16",
          "log2 of the page size in bytes",
          [](const RunConfig& c) { return Value::Int(c.machine.page_shift.n); },
          [](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kInt) return false;
            if (v.integer != 12 && v.integer != 14 && v.integer != 16) return false;
            c.machine.page_shift.n = static_cast<int>(v.integer);
            return true;
          }};
}

// Rows of numbers, as a matrix is written; stored row-major.
Knob DistancesKnob() {
  return {"machine.distances",
          kMachine,
          "rows of 10..255, one a node",
          "distance of each node to each, 10 on the diagonal; empty: the topology's",
          [](const RunConfig& c) {
            const auto& all = c.machine.distances;
            std::size_t side = 0;
            while (side * side < all.size()) ++side;
            std::vector<Value> rows;
            for (std::size_t i = 0; i < side; ++i) {
              std::vector<Value> row;
              for (std::size_t j = 0; j < side; ++j) row.push_back(Value::Int(all[i * side + j]));
              rows.push_back(Value::List(std::move(row)));
            }
            return Value::List(std::move(rows));
          },
          [](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kList) return false;
            std::vector<int> all;
            for (const Value& row : v.list) {
              if (row.kind != Value::Kind::kList || row.list.size() != v.list.size()) return false;
              for (const Value& entry : row.list) {
                if (entry.kind != Value::Kind::kInt) return false;
                if (entry.integer < numa::kLocalDistance || entry.integer > numa::kMaxDistance) {
                  return false;
                }
                all.push_back(static_cast<int>(entry.integer));
              }
            }
            c.machine.distances = std::move(all);
            return true;
          }};
}

// The integer members of a table, all of them required and no others.
std::optional<std::vector<std::int64_t>> Integers(const Value& table,
                                                  const std::vector<std::string>& keys,
                                                  std::size_t others = 0) {
  if (table.kind != Value::Kind::kTable || table.members.size() != keys.size() + others) {
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (const std::string& key : keys) {
    const Value* value = table.Find(key);
    if (value == nullptr || value->kind != Value::Kind::kInt || value->integer < 0) {
      return std::nullopt;
    }
    numbers.push_back(value->integer);
  }
  return numbers;
}

Value HoleValue(const numa::Hole& hole) {
  Value table = Value::Table();
  table.Add("start", Value::Int(static_cast<std::int64_t>(hole.start.n)));
  table.Add("pages", Value::Int(hole.pages.n));
  table.Add("kind", Value::Text(hole.kind == numa::Hole::Kind::kLost ? "lost" : "relocated"));
  return table;
}

std::optional<numa::Hole> HoleFrom(const Value& table) {
  const auto numbers = Integers(table, {"start", "pages"}, 1);
  const Value* kind = table.Find("kind");
  if (!numbers || kind == nullptr || kind->kind != Value::Kind::kText) return std::nullopt;
  if (kind->text != "lost" && kind->text != "relocated") return std::nullopt;
  return numa::Hole{{static_cast<std::uint64_t>((*numbers)[0])},
                    {(*numbers)[1]},
                    kind->text == "lost" ? numa::Hole::Kind::kLost : numa::Hole::Kind::kRelocated};
}

Knob HolesKnob() {
  return {"machine.holes",
          kMachine,
          "a list of { start = <pfn>, pages = <n>, kind = \"relocated\" or \"lost\" }",
          "ranges of physical addresses without RAM, ascending",
          [](const RunConfig& c) {
            std::vector<Value> list;
            for (const numa::Hole& hole : c.machine.holes) list.push_back(HoleValue(hole));
            return Value::List(std::move(list));
          },
          [](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kList) return false;
            std::vector<numa::Hole> holes;
            for (const Value& element : v.list) {
              const auto hole = HoleFrom(element);
              if (!hole) return false;
              holes.push_back(*hole);
            }
            c.machine.holes = std::move(holes);
            return true;
          }};
}

Knob PointsKnob() {
  return {"machine.latency.points",
          kMachine,
          "a list of { distance = 10..255, latency_ns = <ns>, mb_per_s = <10^6 bytes/s> }",
          "idle latency and bandwidth of memory by distance, ascending",
          [](const RunConfig& c) {
            std::vector<Value> list;
            for (const numa::DistancePoint& point : c.machine.latency.points) {
              Value table = Value::Table();
              table.Add("distance", Value::Int(point.distance));
              table.Add("latency_ns", Value::Int(point.latency.n));
              table.Add("mb_per_s", Value::Int(point.mb_per_s));
              list.push_back(std::move(table));
            }
            return Value::List(std::move(list));
          },
          [](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kList) return false;
            std::vector<numa::DistancePoint> points;
            for (const Value& element : v.list) {
              const auto numbers = Integers(element, {"distance", "latency_ns", "mb_per_s"});
              if (!numbers || (*numbers)[0] > numa::kMaxDistance) return false;
              points.push_back({static_cast<int>((*numbers)[0]), Ns{(*numbers)[1]}, (*numbers)[2]});
            }
            c.machine.latency.points = std::move(points);
            return true;
          }};
}

void AddMemory(std::vector<Knob>& knobs) {
  knobs.push_back(EnumKnob<numa::Arch>(
      "machine.arch", kMachine, {{"x86_64", numa::Arch::kX86_64}, {"ia64", numa::Arch::kIa64}},
      PS_FIELD(arch), "which zones there are"));
  knobs.push_back(PageShiftKnob());
  knobs.push_back(IntListKnob("machine.memory_mib", kMachine, 0, kMaxMib, PS_FIELD(memory_mib),
                              "MiB of every node, or of each; empty: the topology's"));
  MachineInt(knobs, "mib_per_cpu", 0, kMaxMib, PS_FIELD(mib_per_cpu),
             "where memory_mib is empty: MiB of a node for each of its CPUs; 0: the topology's");
  knobs.push_back(IntListKnob("machine.movable_mib", kMachine, 0, kMaxMib, PS_FIELD(movable_mib),
                              "MiB of every node, or of each, that become ZONE_MOVABLE"));
  knobs.push_back(DistancesKnob());
  MachineInt(
      knobs, "scale", 1, 1 << 20, PS_FIELD(scale),
      "memory, swap, boot reserve, slab, cache and workload are divided by it; times are not");
  knobs.push_back(IntListKnob("machine.boot_reserve_pages", kMachine, 0, std::int64_t{1} << 32,
                              PS_FIELD(boot_reserve_pages),
                              "pages of every node, or of each, that the kernel takes at boot"));
  MachineInt(knobs, "slab_reclaimable_pages", 0, std::int64_t{1} << 32,
             PS_FIELD(slab_reclaimable_pages),
             "pages of dentries, inodes and buffer heads there are after boot, all nodes together");
  MachineInt(knobs, "page_cache_pages", 0, std::int64_t{1} << 32, PS_FIELD(page_cache_pages),
             "pages of files that are cached after boot, clean, all nodes together");
  knobs.push_back(HolesKnob());
}

void AddDevices(std::vector<Knob>& knobs) {
  MachineInt(knobs, "swap.mib", -1, kMaxMib, PS_FIELD(swap.mib),
             "MiB of swap space; 0: none, -1: twice the memory");
  MachineInt(knobs, "swap.devices", 1, 1, PS_FIELD(swap.devices), "swap devices; one is emulated");
  MachineInt(knobs, "disk.transfer_mb_per_s", 1, 1'000'000, PS_FIELD(disk.transfer_mb_per_s),
             "sequential rate, 10^6 bytes/s");
  MachineInt(knobs, "disk.positioning_ns", 0, 1'000'000'000, PS_FIELD(disk.positioning.n),
             "paid by a request that does not continue the last one");
  MachineInt(knobs, "disk.nr_requests", 4, 100'000, PS_FIELD(disk.nr_requests),
             "requests queued in each direction; more submitters sleep");
  MachineInt(knobs, "disk.max_request_kib", 4, 1 << 20, PS_FIELD(disk.max_request_kib),
             "neighbouring pages are merged up to this");
}

void AddLatency(std::vector<Knob>& knobs) {
  knobs.push_back(PointsKnob());
  MachineInt(knobs, "latency.cpu_mb_per_s", 1, 1'000'000'000, PS_FIELD(latency.cpu_mb_per_s),
             "what one CPU alone can stream, 10^6 bytes/s");
  knobs.push_back(BoolKnob("machine.latency.use_memory_attributes", kMachine,
                           PS_FIELD(latency.use_memory_attributes),
                           "take latency and bandwidth from the topology where it has them"));
  MachineInt(knobs, "latency.zero_page_fixed_ns", 0, kLongNs, PS_FIELD(latency.zero_page_fixed.n),
             "zeroing a page costs this, a latency and its bytes by bandwidth");
  MachineInt(knobs, "latency.copy_page_fixed_ns", 0, kLongNs, PS_FIELD(latency.copy_page_fixed.n),
             "the same for copying");
  MachineInt(knobs, "latency.transfer_same_core_ns", 0, kLongNs,
             PS_FIELD(latency.transfer_same_core.n),
             "a cache line moves between two threads of a core");
  MachineInt(knobs, "latency.transfer_same_l2_ns", 0, kLongNs, PS_FIELD(latency.transfer_same_l2.n),
             "... between two cores that share an L2");
  MachineInt(knobs, "latency.transfer_same_llc_ns", 0, kLongNs,
             PS_FIELD(latency.transfer_same_llc.n), "... that share the last-level cache");
  MachineInt(knobs, "latency.transfer_same_package_ns", 0, kLongNs,
             PS_FIELD(latency.transfer_same_package.n), "... within a package and node");
}

void AddNuisance(std::vector<Knob>& knobs) {
  MachineInt(knobs, "nuisance.free_ram_per_mille", 0, 500, PS_FIELD(nuisance.free_ram_per_mille),
             "usable RAM varies by this share with the seed");
  MachineInt(knobs, "nuisance.daemons", 0, 1000, PS_FIELD(nuisance.daemons),
             "background processes that wake, touch their pages and sleep");
  MachineInt(knobs, "nuisance.daemon_pages", 0, 1 << 20, PS_FIELD(nuisance.daemon_pages),
             "pages of each");
  MachineInt(knobs, "nuisance.daemon_period_ns", 1'000'000, kLongNs,
             PS_FIELD(nuisance.daemon_period.n), "mean time between two wake-ups");
}

Knob KswapdKnob() {
  return BoolKnob("machine.kswapd_shares_cpus", kMachine, PS_FIELD(kswapd_shares_cpus),
                  "threads engine: kswapd runs on its node's CPUs; false: on one of its own");
}

}  // namespace

std::vector<Knob> MachineKnobs() {
  std::vector<Knob> knobs;
  knobs.push_back(TextKnob("machine.name", kMachine, PS_FIELD(name), "a text", "for reports"));
  knobs.push_back(
      TextKnob("machine.topology", kMachine, PS_FIELD(topology_source),
               "\"host\", a file ending in .xml, or an hwloc synthetic description",
               "nodes, CPUs, caches; a file is looked for beside the file that names it"));
  AddMemory(knobs);
  AddDevices(knobs);
  AddLatency(knobs);
  AddNuisance(knobs);
  knobs.push_back(KswapdKnob());
  for (Knob& knob : CostKnobs()) knobs.push_back(std::move(knob));
  return knobs;
}

#undef PS_FIELD

}  // namespace pagestorm::bench
