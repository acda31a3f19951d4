// The small files of /sys/devices/system/node, and the list of everything mm/proc_files.h offers.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "mm/memory_manager.h"
#include "mm/proc_files.h"
#include "numa/topology.h"

namespace pagestorm::mm {
namespace {

std::vector<int> CpusOf(const MemoryManager& mm, const PgData& node) {
  std::vector<int> cpus;
  for (std::size_t i = 0; i < mm.engine.online_cpus(); ++i) {
    const CpuId id{static_cast<int>(i)};
    if (mm.engine.cpu(id).node == node.id) cpus.push_back(id.n);
  }
  return cpus;
}

template <class Condition>
std::string NodesWith(const MemoryManager& mm, Condition condition) {
  std::vector<int> ids;
  for (const auto& node : mm.nodes) {
    if (condition(*node)) ids.push_back(node->id.n);
  }
  std::ranges::sort(ids);
  return RangeList(ids) + "\n";
}

const PgData& NodeOf(const MemoryManager& mm, int position) {
  return *mm.nodes[static_cast<std::size_t>(position)];
}

}  // namespace

std::string RangeList(const std::vector<int>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    absl::StrAppendFormat(&out, "%s%d", out.empty() ? "" : ",", numbers[i]);
    if (last != i) absl::StrAppendFormat(&out, "-%d", numbers[last]);
    i = last + 1;
  }
  return out;
}

std::string HexMask(const std::vector<int>& numbers, int bits) {
  const auto groups = static_cast<std::size_t>(std::max(1, (bits + 31) / 32));
  std::vector<std::uint32_t> words(groups, 0);
  for (const int n : numbers) words[static_cast<std::size_t>(n) / 32] |= 1U << (n % 32);
  std::string out;
  for (std::size_t i = groups; i-- > 0;) {
    absl::StrAppendFormat(&out, "%08x%s", words[i], i == 0 ? "" : ",");
  }
  return out;
}

std::string NodeNumastat(const MemoryManager& mm, int position) {
  constexpr std::pair<const char*, ZoneStat> kLines[] = {
      {"numa_hit", ZoneStat::kNumaHit},         {"numa_miss", ZoneStat::kNumaMiss},
      {"numa_foreign", ZoneStat::kNumaForeign}, {"interleave_hit", ZoneStat::kNumaInterleave},
      {"local_node", ZoneStat::kNumaLocal},     {"other_node", ZoneStat::kNumaOther},
  };
  std::string out;
  for (const auto& [name, stat] : kLines) {
    std::int64_t sum = 0;
    for (const Zone* zone : NodeOf(mm, position).zones) sum += mm.vmstat->Read(zone->ordinal, stat);
    absl::StrAppendFormat(&out, "%s %d\n", name, sum);
  }
  return out;
}

std::string NodeDistance(const MemoryManager& mm, int position) {
  std::string out;
  const std::size_t count = mm.nodes.size();
  const auto row = static_cast<std::size_t>(position);
  for (std::size_t i = 0; i < count; ++i) {
    const int distance = !mm.config.distance.empty() ? mm.config.distance[row * count + i]
                         : i == row                  ? numa::kLocalDistance
                                                     : numa::kRemoteDistance;
    absl::StrAppendFormat(&out, "%s%d", i == 0 ? "" : " ", distance);
  }
  return out + "\n";
}

std::string NodeCpulist(const MemoryManager& mm, int position) {
  return RangeList(CpusOf(mm, NodeOf(mm, position))) + "\n";
}

std::string NodeCpumap(const MemoryManager& mm, int position) {
  return HexMask(CpusOf(mm, NodeOf(mm, position)), static_cast<int>(mm.engine.online_cpus())) +
         "\n";
}

ProcFiles AllProcFiles(const MemoryManager& mm) {
  const std::string nodes = "sys/devices/system/node/";
  const auto has_cpu = [&mm](const PgData& node) { return !CpusOf(mm, node).empty(); };
  const auto has_memory = [](const PgData& node) { return !node.zones.empty(); };
  const auto has_normal = [&mm](const PgData& node) {
    return std::ranges::any_of(
        node.zones, [&mm](const Zone* zone) { return zone->index <= mm.layout().NormalIndex(); });
  };
  const auto any = [](const PgData&) { return true; };
  ProcFiles files{
      {"proc/buddyinfo", ProcBuddyinfo(mm)},
      {"proc/meminfo", ProcMeminfo(mm)},
      {"proc/pagetypeinfo", ProcPagetypeinfo(mm)},
      {"proc/vmstat", ProcVmstat(mm)},
      {"proc/zoneinfo", ProcZoneinfo(mm)},
      {nodes + "has_cpu", NodesWith(mm, has_cpu)},
      {nodes + "has_memory", NodesWith(mm, has_memory)},
      {nodes + "has_normal_memory", NodesWith(mm, has_normal)},
      {nodes + "online", NodesWith(mm, any)},
      {nodes + "possible", NodesWith(mm, any)},
  };
  for (int i = 0; i < static_cast<int>(mm.nodes.size()); ++i) {
    const std::string node = absl::StrFormat("%snode%d/", nodes, NodeOf(mm, i).id.n);
    files.emplace_back(node + "cpulist", NodeCpulist(mm, i));
    files.emplace_back(node + "cpumap", NodeCpumap(mm, i));
    files.emplace_back(node + "distance", NodeDistance(mm, i));
    files.emplace_back(node + "meminfo", NodeMeminfo(mm, i));
    files.emplace_back(node + "numastat", NodeNumastat(mm, i));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace pagestorm::mm
