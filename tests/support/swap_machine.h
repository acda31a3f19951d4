// A whole machine for tests of swap, faults and the OOM killer: real reclaim, disk and address
// spaces, in little memory, with content stamps.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/wait_queue.h"
#include "mm/address_space.h"
#include "mm/memory_manager.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/pagevec.h"
#include "mm/swap.h"
#include "mm/vmstat.h"
#include "tests/support/machine.h"

namespace pagestorm::testing {

struct SwapMachineOptions {
  EngineKind kind = EngineKind::kVirtual;
  int nodes = 1;
  int cpus = 2;
  std::int64_t kib_per_node = 16 * 1024;  // of 4 KiB pages
  std::int64_t swap = 16 * 1024;          // slots
  mm::MmPolicy policy{};
  mm::MmCosts costs{};
  mm::DiskConfig disk{.positioning_ns = 200'000, .bytes_per_second = 400'000'000};
  std::uint64_t seed = 1;
  bool sync_in_cs = false;
  Ns time_limit{600 * kSecond.n};
  std::vector<mm::MemCgroupSpec> cgroups{};
  std::int64_t page_cache_pages = 0;
};

class SwapMachine {
 public:
  explicit SwapMachine(const SwapMachineOptions& options = {})
      : base_(options.kind, EngineFor(options)),
        engine(base_.engine),
        owned_(mm::MemoryManager::Boot(engine, ConfigFor(options)).value()),
        mm(*owned_),
        done_(engine, "the end of the test's tasks"),
        parts_mu_(options.kind) {}

  // From any task, or before Run(). A user task: registered with the OOM killer while it runs, with
  // an empty space of its own or `space` (a forked one), which it destroys at its end, however that
  // comes.
  using Body = std::function<void(mm::TaskMm&)>;
  Task& Spawn(const std::string& name, Body body, mm::MmStruct* space = nullptr,
              TaskId parent = {}) {
    auto owned = std::make_unique<mm::TaskMm>();
    mm::TaskMm& part = *owned;
    {
      std::lock_guard guard(parts_mu_);
      parts_.push_back(std::move(owned));
    }
    part.space = space;
    part.parent = parent;
    running_.fetch_add(1);
    return engine.Spawn({.name = name, .mm = &part}, [this, &part, body = std::move(body)] {
      Life life(*this, part);
      if (life.born) body(part);
    });
  }

  // Runs everything spawned; then, in a last task, lets I/O end and empties the pagevecs.
  //   first: on a task without address space, before the others are waited for.
  RunResult Run(std::function<void()> first = {}) {
    mm.StartDaemons();
    engine.Spawn({.name = "main"}, [this, first = std::move(first)] {
      if (first) first();
      done_.Wait([this] { return running_.load() == 0; });
      while (mm.vmstat->Global(mm::ZoneStat::kNrWriteback) > 0) SleepFor(kSecond / 100);
      SleepFor(kSecond);
      mm.pagevecs->DrainAll();
    });
    return engine.Run();
  }

  [[nodiscard]] std::int64_t Event(mm::VmEvent event) const { return mm.vmstat->Event(event); }
  [[nodiscard]] std::int64_t Stat(mm::ZoneStat stat) const {
    std::int64_t sum = 0;
    for (std::size_t zone = 0; zone < mm.zones.size(); ++zone) sum += mm.vmstat->Exact(zone, stat);
    return sum;
  }
  // Empty, or what is wrong; after Run().
  [[nodiscard]] std::string Wrong() {
    std::string wrong = mm.CheckInvariants(/*expect_idle=*/true);
    if (wrong.empty()) wrong = mm.swap->CheckInvariants();
    return wrong;
  }

 private:
  static EngineConfig EngineFor(const SwapMachineOptions& options) {
    EngineConfig config;
    for (int i = 0; i < options.cpus; ++i) {
      config.cpus.push_back({.node = {i * options.nodes / options.cpus}});
    }
    config.cpus.push_back({.node = {0}, .kind = CpuKind::kService});
    config.seed = options.seed;
    config.sync_in_cs = options.sync_in_cs;
    config.time_limit = options.time_limit;
    config.bind = false;
    return config;
  }
  static mm::MmConfig ConfigFor(const SwapMachineOptions& options) {
    numa::MemoryMapOptions map;
    for (int node = 0; node < options.nodes; ++node) {
      map.nodes.push_back({.id = {node}, .bytes = options.kib_per_node << 10});
    }
    mm::MmConfig config;
    config.map = numa::BuildMemoryMap(map).value();
    config.policy = options.policy;
    config.costs = options.costs;
    config.swap = {options.swap};
    config.disk = options.disk;
    config.cgroups = options.cgroups;
    config.page_cache_pages = options.page_cache_pages;
    config.device_cpus.set(static_cast<std::size_t>(options.cpus));
    return config;
  }

  // What a process is between its first and its last instruction.
  struct Life {
    Life(SwapMachine& owner, mm::TaskMm& task_part) : machine(owner), part(task_part) {
      part.task = &Current();
      try {
        if (part.space == nullptr) part.space = machine.mm.spaces->Create({});
      } catch (const Cancelled&) {
      }
      born = part.space != nullptr;
      machine.mm.oom->AddTask(part);
    }
    ~Life() {
      mm::MmStruct* space = machine.mm.oom->TakeSpace(part);
      if (space != nullptr) machine.mm.spaces->Destroy(space);
      machine.mm.oom->RemoveTask(part);
      if (machine.running_.fetch_sub(1) == 1) machine.done_.WakeAll();
    }
    Life(const Life&) = delete;
    Life& operator=(const Life&) = delete;
    SwapMachine& machine;
    mm::TaskMm& part;
    bool born = false;
  };

  Machine base_;

 public:
  Engine& engine;

 private:
  std::unique_ptr<mm::MemoryManager> owned_;

 public:
  mm::MemoryManager& mm;

 private:
  WaitQueue done_;
  std::atomic<int> running_{0};
  RawLock parts_mu_;
  std::deque<std::unique_ptr<mm::TaskMm>> parts_;
};

}  // namespace pagestorm::testing
