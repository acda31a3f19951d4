#include "mm/vmstat.h"

#include <catch2/catch.hpp>
#include <set>

#include "tests/support/machine.h"

namespace pagestorm::mm {
namespace {

using testing::Cpus;
using testing::Machine;

// Runs `body` as one task on each CPU given, in order of CPU number at equal times.
void OnCpu(Machine& machine, int cpu, std::function<void()> body) {
  CpuMask only;
  only.set(static_cast<std::size_t>(cpu));
  machine.engine.Spawn({.name = "test", .allowed = only}, std::move(body));
}

TEST_CASE("VmStat: thresholds grow with CPUs and memory up to 125", "[mm][vmstat]") {
  // 2 * fls(cpus) * (1 + fls(present in 128 MiB))
  CHECK(VmStat::ThresholdFor(1, Pages{1}, {12}) == 2);
  CHECK(VmStat::ThresholdFor(2, Pages{254520}, {12}) == 16);
  CHECK(VmStat::ThresholdFor(8, Pages{65480}, {16}) == 48);
  CHECK(VmStat::ThresholdFor(64, Pages{16777216}, {12}) == 125);
}

TEST_CASE("VmStat: a delta is folded once it exceeds the threshold, not before", "[mm][vmstat]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  VmStat stat(machine.engine, 2);
  stat.SetThreshold(1, 10);
  OnCpu(machine, 0, [&] {
    for (int i = 0; i < 10; ++i) stat.Add(1, ZoneStat::kNrFreePages, 1);
    CHECK(stat.Read(1, ZoneStat::kNrFreePages) == 0);
    CHECK(stat.Exact(1, ZoneStat::kNrFreePages) == 10);
    stat.Add(1, ZoneStat::kNrFreePages, 1);
    CHECK(stat.Read(1, ZoneStat::kNrFreePages) == 11);
    CHECK(stat.Global(ZoneStat::kNrFreePages) == 11);
    stat.Add(1, ZoneStat::kNrFreePages, -10);
    CHECK(stat.Read(1, ZoneStat::kNrFreePages) == 11);
    stat.Add(1, ZoneStat::kNrFreePages, -1);
    CHECK(stat.Read(1, ZoneStat::kNrFreePages) == 0);
    stat.Add(1, ZoneStat::kNrFreePages, 1000);  // more than eight bits hold
    CHECK(stat.Read(1, ZoneStat::kNrFreePages) == 1000);
    CHECK(stat.Read(0, ZoneStat::kNrFreePages) == 0);
  });
  machine.engine.Run();
}

// Mutation tried: folding at >= threshold, and a fold that keeps the delta.
TEST_CASE("VmStat: reads drift by at most CPUs times threshold, and a fold ends that",
          "[mm][vmstat]") {
  constexpr int kCpus = 4;
  Machine machine(EngineKind::kVirtual, Cpus(kCpus));
  VmStat stat(machine.engine, 1);
  stat.SetThreshold(0, 20);
  for (int cpu = 0; cpu < kCpus; ++cpu) {
    OnCpu(machine, cpu, [&, cpu] {
      Rng rng = machine.engine.seeds().Stream("drift", cpu);
      for (int i = 0; i < 2000; ++i) {
        stat.Add(0, ZoneStat::kNrActive, rng.Between(-3, 5));
        Charge({rng.Between(1, 100)});
        const std::int64_t exact = stat.Exact(0, ZoneStat::kNrActive);
        const std::int64_t seen = stat.Read(0, ZoneStat::kNrActive);
        if (exact - seen > kCpus * 20 || seen - exact > kCpus * 20) FAIL_CHECK("drift");
      }
    });
  }
  machine.engine.Run();
  const std::int64_t exact = stat.Exact(0, ZoneStat::kNrActive);
  CHECK(exact > 4000);
  for (int cpu = 0; cpu < kCpus; ++cpu) stat.FoldCpu({cpu});
  CHECK(stat.Read(0, ZoneStat::kNrActive) == exact);
  CHECK(stat.Exact(0, ZoneStat::kNrActive) == exact);
  CHECK_FALSE(stat.FoldZone(0, {0}));
}

TEST_CASE("VmStat: a negative value reads as zero", "[mm][vmstat]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  VmStat stat(machine.engine, 1);
  stat.AddGlobal(0, ZoneStat::kNrDirty, -5);
  CHECK(stat.Read(0, ZoneStat::kNrDirty) == 0);
  CHECK(stat.Global(ZoneStat::kNrDirty) == 0);
  CHECK(stat.Exact(0, ZoneStat::kNrDirty) == -5);
}

TEST_CASE("VmStat: a service CPU has no delta", "[mm][vmstat]") {
  EngineConfig config = Cpus(1);
  config.cpus.push_back({.node = {0}, .kind = CpuKind::kService});
  Machine machine(EngineKind::kVirtual, config);
  VmStat stat(machine.engine, 1);
  stat.SetThreshold(0, 100);
  OnCpu(machine, 1, [&] {
    stat.Add(0, ZoneStat::kNrWriteback, 1);
    stat.Count(VmEvent::kPswpout);
    CHECK(stat.Read(0, ZoneStat::kNrWriteback) == 1);
  });
  machine.engine.Run();
  CHECK(stat.Event(VmEvent::kPswpout) == 1);
}

TEST_CASE("VmStat: counters stay exact under real threads", "[mm][vmstat][stress]") {
  constexpr int kCpus = 4;
  Machine machine(EngineKind::kThreads, Cpus(kCpus));
  VmStat stat(machine.engine, 2);
  stat.SetThreshold(0, 7);
  stat.SetThreshold(1, 125);
  for (int cpu = 0; cpu < kCpus; ++cpu) {
    OnCpu(machine, cpu, [&] {
      for (int i = 0; i < 20'000; ++i) {
        stat.Add(0, ZoneStat::kNumaHit, 1);
        stat.Add(1, ZoneStat::kNrFreePages, i % 2 == 0 ? 3 : -2);
        stat.Count(VmEvent::kPgfree);
        if (i % 5000 == 0) stat.FoldCpu(CurrentCpu().id);
      }
    });
  }
  machine.engine.Run();
  CHECK(stat.Exact(0, ZoneStat::kNumaHit) == kCpus * 20'000);
  CHECK(stat.Exact(1, ZoneStat::kNrFreePages) == kCpus * 10'000);
  CHECK(stat.Event(VmEvent::kPgfree) == kCpus * 20'000);
}

TEST_CASE("VmStat: names are the kernel's, and no two are alike", "[mm][vmstat]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kZoneStats; ++i) {
    names.insert(ZoneStatName(static_cast<ZoneStat>(i), false));
  }
  for (std::size_t i = 0; i < kVmEvents; ++i) names.insert(VmEventName(static_cast<VmEvent>(i)));
  CHECK(names.size() == kZoneStats + kVmEvents);
  CHECK(ZoneStatName(ZoneStat::kNrActive, false) == "nr_active");
  CHECK(ZoneStatName(ZoneStat::kNrActive, true) == "nr_active_anon");
  CHECK(ZoneStatName(ZoneStat::kNumaOther, false) == "numa_other");
  CHECK(VmEventName(ForZone(VmEvent::kPgscanKswapdDma, 1)) == "pgscan_kswapd_dma32");
  CHECK(VmEventName(VmEvent::kPgrotated) == "pgrotated");
}

}  // namespace
}  // namespace pagestorm::mm
