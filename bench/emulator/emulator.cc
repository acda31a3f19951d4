#include "bench/emulator/emulator.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "bench/config/knob_kinds.h"
#include "bench/emulator/wiring.h"
#include "core/check.h"
#include "core/make_engine.h"
#include "mm/block_device.h"
#include "mm/lru.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/reclaim.h"
#include "mm/swap.h"
#include "mm/throttle.h"
#include "numa/host.h"
#include "numa/machine_spec.h"

namespace pagestorm::bench {
namespace {

// Host bytes of everything that grows with emulated memory.
std::int64_t HostBytes(const RunConfig& config, const numa::MemoryMap& map) {
  const auto frames = static_cast<std::int64_t>(map.end.n);
  const std::size_t cpus = numa::EffectiveTopology(config.machine).cpu_count();
  const bool groups = config.cgroup.count > 0 || !config.cgroup.groups.empty();
  return static_cast<std::int64_t>(
      mm::FrameTable::BytesFor(map.end.n, {.stamps = config.stamps, .groups = groups}) +
      mm::LruBytesFor(config.policy.lru, frames, cpus));
}

// A slot's number has 32 bits, and a use count, a place in the swap cache and a stamp on this host.
absl::Status CheckSwap(const RunConfig& config, std::int64_t host_bytes_available) {
  constexpr std::int64_t kSlotsMax = (std::int64_t{1} << 32) - 4;
  const std::int64_t slots = numa::SwapPages(config.machine).n;
  const std::int64_t slot_bytes = 2 + 4 + (config.stamps ? 8 : 0);
  if (slots <= kSlotsMax && slots * slot_bytes <= host_bytes_available) return absl::OkStatus();
  const std::int64_t allowed = std::min(kSlotsMax, host_bytes_available / slot_bytes);
  return absl::InvalidArgumentError(
      // lint: message only
      absl::StrCat("machine ", config.machine.name, ": swap.mib = ", config.machine.swap.mib,
                   ": allowed are -1..",
                   ToKiB(Pages{allowed}, config.machine.page_shift) / 1024 * config.machine.scale,
                   " (slots have 32 bits and ", slot_bytes, " bytes of this host's memory)"));
}

}  // namespace

Emulator::Emulator(const RunConfig& config)
    : config_(config),
      topology_(numa::EffectiveTopology(config.machine)),
      sysctls_(config.sysctls) {}

Emulator::~Emulator() = default;

absl::StatusOr<std::unique_ptr<Emulator>> Emulator::Boot(const RunConfig& config) {
  std::unique_ptr<Emulator> emulator(new Emulator(config));
  const absl::Status status = emulator->BootMachine();
  if (!status.ok()) return status;
  return emulator;
}

absl::Status Emulator::BootMachine() {
  auto mm_config = MmConfigOf(config_, topology_);
  if (!mm_config.ok()) return mm_config.status();
  const std::int64_t available = numa::ReadHostFacts().memory_available_bytes;
  const absl::Status swap = CheckSwap(config_, available);
  if (!swap.ok()) return swap;
  const numa::HostMemoryVerdict verdict =
      numa::HostMemoryCheck(HostBytes(config_, mm_config->map), available);
  if (!verdict.fits) {
    return absl::ResourceExhaustedError(
        // lint: message only
        absl::StrCat("machine ", config_.machine.name, ": ", verdict.line));
  }
  for (const SysctlWrite& write : config_.sysctls) {
    const absl::Status status = CheckSysctl(config_, write);
    if (!status.ok()) return status;
  }
  const EngineConfig engine_config = EngineConfigOf(config_, topology_);
  scheduler_ = SchedulerOf(config_, topology_);
  engine_ = MakeEngine(config_.engine.kind, engine_config, *scheduler_);
  auto memory = mm::MemoryManager::Boot(*engine_, *std::move(mm_config));
  if (!memory.ok()) {
    // lint: message only
    return absl::Status(memory.status().code(), absl::StrCat("machine ", config_.machine.name, ": ",
                                                             memory.status().message()));
  }
  memory_ = *std::move(memory);
  processes_ = std::make_unique<ProcessTable>(*this, config_.engine.kind);
  return absl::OkStatus();
}

MachineOutcome Emulator::Run(const std::string& comm, std::function<void(Process&)> main) {
  MachineOutcome outcome;
  memory_->StartDaemons();
  SpawnHelpers();
  processes_->SpawnInit(comm, std::move(main), [&outcome](ProcessTable::MainEnd end) {
    outcome.main = end;
    outcome.main_end = Now();
  });
  outcome.run = engine_->Run();
  outcome.times = engine_->Times();
  outcome.panicked = memory_->oom->panicked();
  outcome.broken = CheckAtRest(outcome);
  return outcome;
}

void Emulator::Settle() {
  constexpr int kRoundsMax = 60'000;  // ten minutes: a disk that takes longer shows as broken
  const mm::BlockDevice& disk = *memory_->disk;
  for (int i = 0; i < kRoundsMax; ++i) {
    if (disk.InFlight(mm::IoDirection::kRead) + disk.InFlight(mm::IoDirection::kWrite) == 0) break;
    SleepFor(10 * kMillisecond);
  }
  memory_->pagevecs->DrainAll();
}

std::string Emulator::CheckAtRest(const MachineOutcome& outcome) {
  // A machine that was cut while it worked has pages in flight; otherwise nothing may be.
  const bool idle = outcome.run.end == RunEnd::kDone;
  std::string broken = memory_->CheckInvariants(idle);
  if (broken.empty() && engine_->live_tasks() != 0) {
    broken = absl::StrCat(engine_->live_tasks(), " tasks are still alive");
  }
  return broken;
}

// --- helpers of a run ---

void Emulator::SpawnHelpers() {
  SpawnNuisance();
  SpawnSampler();
  if (config_.control || !config_.sysctls.empty()) SpawnSysctlWriter();
}

// Background processes: each wakes, touches its pages, sleeps.
void Emulator::SpawnNuisance() {
  const numa::NuisanceSpec& nuisance = config_.machine.nuisance;
  for (int i = 0; i < nuisance.daemons; ++i) {
    processes_->SpawnDaemon(absl::StrCat("daemon/", i), [this, i, nuisance](Process& self) {
      Rng rng = engine_->seeds().Stream("daemon", i);
      const std::int64_t pages = std::max<std::int64_t>(1, nuisance.daemon_pages);
      const std::uint32_t first = self.MapAnon(pages);
      for (std::uint64_t round = 1;; ++round) {
        for (std::uint32_t page = 0; page < static_cast<std::uint32_t>(pages); ++page) {
          self.Write(first + page, round);
        }
        const std::int64_t mean = nuisance.daemon_period.n;
        SleepForHousekeeping({rng.Between(mean / 2, mean + mean / 2)});
      }
    });
  }
}

void Emulator::SpawnSampler() {
  if (config_.sample_ms == 0) return;
  CpuMask device;
  device.set(topology_.cpu_count());
  engine_->Spawn({.name = "sampler", .allowed = device, .daemon = true}, [this] {
    for (;;) {
      samples_.push_back(TakeSample());
      SleepForHousekeeping(config_.sample_ms * kMillisecond);
    }
  });
}

Sample Emulator::TakeSample() {
  using mm::VmEvent;
  using mm::ZoneStat;
  const mm::VmStat& stat = *memory_->vmstat;
  const mm::Reclaimer::Peaks peaks = memory_->reclaimer->PeaksNow();
  Sample sample;
  sample.time = Now();
  sample.free = stat.Global(ZoneStat::kNrFreePages);
  sample.inactive = stat.Global(ZoneStat::kNrInactive) + stat.Global(ZoneStat::kNrInactiveFile);
  sample.active = stat.Global(ZoneStat::kNrActive) + stat.Global(ZoneStat::kNrActiveFile);
  sample.writeback = stat.Global(ZoneStat::kNrWriteback);
  sample.reclaimers = peaks.reclaimers;
  sample.isolated = peaks.isolated;
  sample.pswpout = stat.Event(VmEvent::kPswpout);
  sample.pswpin = stat.Event(VmEvent::kPswpin);
  sample.pgmajfault = stat.Event(VmEvent::kPgmajfault);
  sample.allocstall = stat.Event(VmEvent::kAllocstall);
  sample.oom_kills = memory_->oom->kills();
  sample.free_swap = memory_->swap->free_slots();
  return sample;
}

// --- kernel parameters ---

// Knobs of the chosen gates that have a file in /proc/sys/vm.
std::vector<mm::GateKnob> SysctlsOf(const mm::ThrottlePolicy& throttle) {
  std::vector<mm::GateKnob> knobs;
  if (mm::HasGate(throttle.gate, "throttle") && !throttle.sysctl.empty()) {
    knobs.push_back({.low = INT32_MIN, .high = INT32_MAX, .sysctl = throttle.sysctl});
  }
  for (const mm::GateType* type : mm::KnownGates()) {
    if (!mm::HasGate(throttle.gate, type->name)) continue;
    for (const mm::GateKnob& knob : type->knobs) {
      if (!knob.sysctl.empty()) knobs.push_back(knob);
    }
  }
  return knobs;
}

void Emulator::SpawnSysctlWriter() {
  CpuMask device;
  device.set(topology_.cpu_count());
  sysctl_queue_ = std::make_unique<WaitQueue>(*engine_, "sysctl");
  const Task& writer =
      engine_->Spawn({.name = "sysctl", .allowed = device, .daemon = true}, [this] {
        std::optional<SysctlWrite> write;
        for (;;) {
          sysctl_queue_->Wait([&] { return (write = TakeDueSysctl()).has_value(); });
          ApplySysctl(*write);
        }
      });
  sysctl_writer_ = writer.id;
  for (const SysctlWrite& write : config_.sysctls) engine_->WakeAt(writer.id, {write.at_ns});
}

std::optional<SysctlWrite> Emulator::TakeDueSysctl() {
  const std::lock_guard guard(sysctls_mu_);
  if (sysctls_written_ == sysctls_.size()) return std::nullopt;
  const SysctlWrite& next = sysctls_[sysctls_written_];
  if (next.at_ns > FreshNow().n) return std::nullopt;
  ++sysctls_written_;
  return next;
}

absl::StatusOr<SysctlWrite> Emulator::WriteSysctl(const std::string& name, std::int64_t value) {
  PS_CHECK(config_.control, "RunConfig::control is needed");
  SysctlWrite write{0, name, value};
  const absl::Status status = CheckSysctl(config_, write);
  if (!status.ok()) return status;
  write.at_ns = engine_->EarliestWake().n;
  {
    const std::lock_guard guard(sysctls_mu_);
    const auto place = std::upper_bound(
        sysctls_.begin() + static_cast<std::ptrdiff_t>(sysctls_written_), sysctls_.end(), write,
        [](const SysctlWrite& a, const SysctlWrite& b) { return a.at_ns < b.at_ns; });
    sysctls_.insert(place, write);
  }
  engine_->WakeAt(sysctl_writer_, {write.at_ns});
  return write;
}

std::vector<SysctlWrite> Emulator::sysctls() const {
  const std::lock_guard guard(sysctls_mu_);
  return sysctls_;
}

absl::Status CheckSysctl(const RunConfig& config, const SysctlWrite& write) {
  std::string name = write.name;
  if (name.rfind("vm.", 0) == 0) name = name.substr(3);
  constexpr std::int64_t kMinFreeKbytesMax = 1'000'000'000;  // as alloc.min_free_kbytes
  if (name == "min_free_kbytes" && write.value >= 0 && write.value <= kMinFreeKbytesMax) {
    return absl::OkStatus();
  }
  std::string others;
  for (const mm::GateKnob& knob : SysctlsOf(config.policy.throttle)) {
    if (name == knob.sysctl && write.value >= knob.low && write.value <= knob.high) {
      return absl::OkStatus();
    }
    absl::StrAppend(&others, ", vm.", knob.sysctl, " = ", RangeText(knob.low, knob.high));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "sysctl ", write.name, " = ", write.value,
      ": allowed while the machine runs: vm.min_free_kbytes = 0..", kMinFreeKbytesMax, others));
}

void Emulator::ApplySysctl(const SysctlWrite& write) {
  std::string name = write.name;
  if (name.rfind("vm.", 0) == 0) name = name.substr(3);
  if (name == "min_free_kbytes") {
    memory_->allocator->SetupWatermarks(write.value);
  } else {
    static_cast<void>(memory_->gate->SetKnob(name, write.value));
  }
}

std::int64_t HostBytesOf(const RunConfig& config) {
  const auto map = numa::EffectiveMemoryMap(config.machine);
  return map.ok() ? HostBytes(config, *map) : 0;
}

MachineFacts FactsOf(const RunConfig& config) {
  MachineFacts facts;
  facts.page_shift = config.machine.page_shift;
  facts.online_cpus = static_cast<int>(config.machine.topology.cpu_count());
  facts.swap = numa::SwapPages(config.machine);
  const auto map = numa::EffectiveMemoryMap(config.machine);
  if (!map.ok()) return facts;
  numa::PresentRule rule;
  rule.struct_page_bytes = config.policy.alloc.struct_page_bytes;
  for (std::size_t i = 0; i < map->nodes.size(); ++i) {
    Pages node;
    for (const numa::ZoneSpan& zone : map->nodes[i].zones) {
      if (zone.spanned.n > 0) {
        node += numa::ComputePresent(zone, config.machine.page_shift, rule).present;
      }
    }
    const Pages reserve = numa::BootReserve(config.machine, i);
    if (node > reserve) facts.memory += node - reserve;
  }
  return facts;
}

}  // namespace pagestorm::bench
