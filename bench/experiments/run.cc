#include "bench/experiments/run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/emulator/emulator.h"
#include "bench/experiments/control_pipe.h"
#include "bench/experiments/gather.h"
#include "bench/experiments/progress.h"
#include "core/engine.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::int64_t PeakRssKib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A workload configured with the run's parameters; Validate() has filled in what was "auto".
absl::StatusOr<std::unique_ptr<Workload>> ConfiguredWorkload(RunConfig& config) {
  std::unique_ptr<Workload> workload = MakeWorkload(config.workload);
  if (workload == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("workload = \"", config.workload, "\": there is none of that name"));
  }
  for (std::size_t i = 0; i < config.params.size(); ++i) {
    workload->params()[i].value = config.params[i].value;
  }
  const absl::Status status = workload->Validate(FactsOf(config));
  if (!status.ok()) return status;
  config.params = workload->params();
  if (workload->max_sharers() >= mm::kMaxSharers) {
    return absl::InvalidArgumentError(
        absl::StrCat("workload ", config.workload, ": ", workload->max_sharers(),
                     " processes that share a page: allowed are less than ", mm::kMaxSharers,
                     " (its references are counted in 16 bits)"));
  }
  const auto most = static_cast<std::int64_t>(Engine::max_tasks());
  if (workload->max_tasks() + 1000 > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("workload ", config.workload, ": ", workload->max_tasks(),
                     " tasks: this host allows ", most - 1000, " (sysctl vm.max_map_count)"));
  }
  return workload;
}

std::string Describe(Emulator& emulator, Ns now) {
  const mm::Reclaimer::Peaks peaks = emulator.memory().reclaimer->PeaksNow();
  return fmt::format(
      "emulated {:.2f} s, {} tasks, {} in reclaim, {} pages isolated, {} swapped out, {} killed",
      static_cast<double>(now.n) / 1e9, emulator.engine().live_tasks(), peaks.reclaimers,
      peaks.isolated, emulator.memory().vmstat->Event(mm::VmEvent::kPswpout),
      emulator.memory().oom->kills());
}

// What has come through the pipe since the last look. A bad line changes nothing.
void WriteSysctls(ControlPipe& pipe, Emulator& emulator) {
  for (const std::string& line : pipe.TakeLines()) {
    auto write = ParseSysctlLine(line);
    if (write.ok()) write = emulator.WriteSysctl(write->name, write->value);
    if (write.ok()) {
      fmt::print(stderr, "control: {} = {} at {:.9f} s\n", write->name, write->value,
                 static_cast<double>(write->at_ns) / 1e9);
    } else {
      const std::string_view message(write.status().message().data(),
                                     write.status().message().size());
      fmt::print(stderr, "control: {}\n", message);
    }
  }
}

// The clock of the CPU that is furthest, racy.
Ns LatestClock(Engine& engine) {
  std::int64_t latest = 0;
  for (std::size_t i = 0; i < engine.cpu_count(); ++i) {
    const Cpu& cpu = engine.cpu({static_cast<std::int32_t>(i)});
    if (cpu.current() != nullptr) latest = std::max(latest, static_cast<std::int64_t>(cpu.clock));
  }
  return {latest};
}

}  // namespace

LoadContext MakeLoadContext(ConfigRoots roots) {
  LoadContext context;
  context.roots = std::move(roots);
  context.workloads = KnownWorkloads();
  context.workload_params = [](std::string_view name) -> std::optional<std::vector<WorkloadParam>> {
    const std::unique_ptr<Workload> workload = MakeWorkload(name);
    if (workload == nullptr) return std::nullopt;
    return workload->params();
  };
  return context;
}

absl::Status PrepareRun(RunConfig& config) { return ConfiguredWorkload(config).status(); }

absl::Status CheckRun(RunConfig config) {
  const absl::Status status = PrepareRun(config);
  return status.ok() ? Emulator::Boot(config).status() : status;
}

absl::StatusOr<RunRecord> ExecuteRun(const RunConfig& config, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  RunRecord record;
  record.host.started = UtcNow();
  record.host.host_name = HostName();
  record.config = config;
  auto booted = Emulator::Boot(config);
  if (!booted.ok()) return booted.status();
  Emulator& emulator = **booted;
  // After the emulator in this order: what the workload leaves refers to the machine.
  auto workload = ConfiguredWorkload(record.config);
  if (!workload.ok()) return workload.status();

  GatherBefore(emulator, record);
  {
    Progress progress(options.progress ? Progress::Mode::kAuto : Progress::Mode::kOff,
                      absl::StrCat(config.workload, " seed ", config.seed, ":"));
    emulator.set_poll([&] {
      if (options.interrupted != nullptr && options.interrupted->load()) emulator.RequestStop();
      if (options.control != nullptr) WriteSysctls(*options.control, emulator);
      if (options.on_permille) options.on_permille((*workload)->progress_permille());
      progress.Poll((*workload)->progress_permille(),
                    [&] { return Describe(emulator, LatestClock(emulator.engine())); });
    });
    record.outcome = emulator.Run(config.workload, [&](Process& self) { (*workload)->Main(self); });
  }
  record.config.sysctls = emulator.sysctls();
  record.workload = (*workload)->Report();
  GatherAfter(emulator, record);
  record.host.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  record.host.peak_rss_kib = PeakRssKib();
  workload->reset();
  return record;
}

}  // namespace pagestorm::bench
