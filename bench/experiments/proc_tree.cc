#include "bench/experiments/proc_tree.h"

#include <algorithm>

#include "fmt/format.h"
#include "mm/memcg.h"
#include "mm/proc_files.h"
#include "mm/zone.h"

namespace pagestorm::bench {
namespace {

// /proc/stat: times over all CPUs in 1/100 s. CPUs are not told apart: the engines account time to
// tasks. Source: spec workloads-and-reports 4.4.
std::string ProcStat(Emulator& emulator) {
  constexpr std::int64_t kTickNs = 10'000'000;
  Engine& engine = emulator.engine();
  const Engine::CpuTimes times = engine.Times();
  std::uint64_t switches = 0;
  for (std::size_t i = 0; i < engine.online_cpus(); ++i) {
    switches += static_cast<std::uint64_t>(engine.cpu({static_cast<std::int32_t>(i)}).switches);
  }
  return fmt::format(
      "cpu  {} 0 {} {} 0 0 0 0 0\nintr 0\nctxt {}\nbtime 0\nprocesses {}\nprocs_running 0\n"
      "procs_blocked 0\n",
      times.user.n / kTickNs, times.system.n / kTickNs, times.idle.n / kTickNs, switches,
      emulator.processes().created());
}

// "1234.50": microseconds with two digits, as lock_stat prints ns.
std::string Micros(std::int64_t ns) {
  const std::int64_t tens = (ns + 5) / 10;
  return fmt::format("{}.{:02}", tens / 100, tens % 100);
}

struct LockClass {
  std::string name;
  LockStats stats;
};

std::string LockLine(const LockClass& lock) {
  const LockStats& s = lock.stats;
  // Bounces and minima are not kept: the columns show 0.
  return fmt::format(
      "{:>40}:{:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14}\n", lock.name,
      0, s.contentions, Micros(0), Micros(s.wait_ns_max), Micros(s.wait_ns), 0, s.acquisitions,
      Micros(0), Micros(s.hold_ns_max), Micros(s.hold_ns));
}

// /proc/lock_stat of the zones' two locks, version 0.2. Source: spec workloads-and-reports 4.5.
std::string ProcLockStat(Emulator& emulator) {
  LockClass zone{"&zone->lock", {}};
  LockClass lru{"&zone->lru_lock", {}};
  for (const auto& each : emulator.memory().zones) {
    zone.stats += each->lock.stats();
    lru.stats += each->lru_lock.stats();
  }
  std::vector<LockClass> classes{zone, lru};
  std::stable_sort(classes.begin(), classes.end(), [](const LockClass& a, const LockClass& b) {
    return a.stats.contentions > b.stats.contentions;
  });
  const std::string rule(40 + 1 + 15 * 10, '-');
  std::string text = "lock_stat version 0.2\n" + rule + "\n";
  text += fmt::format(
      "{:>40} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14}\n",
      "class name", "con-bounces", "contentions", "waittime-min", "waittime-max", "waittime-total",
      "acq-bounces", "acquisitions", "holdtime-min", "holdtime-max", "holdtime-total");
  text += rule + "\n\n";
  for (const LockClass& lock : classes) text += LockLine(lock);
  return text;
}

}  // namespace

std::vector<TextFile> ProcTree(Emulator& emulator) {
  std::vector<TextFile> files;
  for (auto& [path, text] : mm::CgroupFiles(emulator.memory())) {
    files.push_back({path, std::move(text)});
  }
  for (auto& [path, text] : mm::AllProcFiles(emulator.memory())) {
    files.push_back({path, std::move(text)});
  }
  files.push_back({"proc/lock_stat", ProcLockStat(emulator)});
  files.push_back({"proc/stat", ProcStat(emulator)});
  return files;
}

}  // namespace pagestorm::bench
