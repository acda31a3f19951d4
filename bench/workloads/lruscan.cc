#include "bench/workloads/lruscan.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "bench/workloads/stamp.h"
#include "core/wait_queue.h"
#include "mm/lru.h"
#include "mm/memory_manager.h"
#include "mm/pagevec.h"

namespace pagestorm::bench {
namespace {

enum Param { kTasks, kMib, kBatches, kJudgeNs };

class Lruscan final : public Workload {
 public:
  [[nodiscard]] std::string_view name() const override { return "lruscan"; }
  std::vector<WorkloadParam>& params() override { return params_; }
  absl::Status Validate(const MachineFacts& machine) override;
  [[nodiscard]] std::int64_t max_tasks() const override { return Value(kTasks) + 1; }
  void Main(Process& self) override;
  [[nodiscard]] WorkloadReport Report() override;
  [[nodiscard]] Headline headline() const override { return {"pages_per_second", true}; }
  [[nodiscard]] int progress_permille() const override {
    const std::int64_t all = Value(kTasks) * Value(kBatches);
    return static_cast<int>(done_.load(std::memory_order_relaxed) * 1000 /
                            std::max<std::int64_t>(all, 1));
  }

 private:
  // What one task leaves behind; written by it alone.
  struct Slot {
    std::int64_t pages = 0;
    std::int64_t empty = 0;  // isolations that found nothing
    std::int64_t lost = 0;
    Ns ended;
    bool finished = false;
  };

  [[nodiscard]] std::int64_t Value(Param param) const { return params_[param].value; }
  void Child(Process& self, std::int64_t task);
  void ScanBatch(mm::MemoryManager& memory, mm::Zone& zone, Slot& slot);

  std::vector<WorkloadParam> params_{
      {"tasks", "processes; 0: one a CPU", 0, 0, 1'000'000},
      {"mib", "MiB each process fills; 0: half of memory over all of them", 0, 0, 1 << 24},
      {"batches", "times each process takes 32 pages and puts them back", 500, 1, 100'000'000},
      {"judge_ns", "CPU time between, for each page, ns", 400, 0, 1'000'000},
  };
  std::int64_t pages_ = 0;  // of one task
  std::vector<Slot> slots_;
  std::atomic<std::int64_t> ready_{0};
  std::atomic<std::int64_t> done_{0};
  std::unique_ptr<WaitQueue> start_queue_;
  std::atomic<std::int64_t> started_ns_{0};
};

absl::Status Lruscan::Validate(const MachineFacts& machine) {
  if (Value(kTasks) == 0) params_[kTasks].value = machine.online_cpus;
  const std::int64_t memory_mib = ToBytes(machine.memory, machine.page_shift) >> 20;
  if (Value(kMib) == 0) {
    params_[kMib].value = std::max<std::int64_t>(1, memory_mib / 2 / Value(kTasks));
  }
  if (Value(kMib) * Value(kTasks) * 4 > memory_mib * 3) {
    return absl::InvalidArgumentError(
        "workload.mib = " + std::to_string(Value(kMib)) + " of " + std::to_string(Value(kTasks)) +
        " tasks: at most three quarters of the machine's " + std::to_string(memory_mib) + " MiB");
  }
  pages_ = (Value(kMib) << 20) >> machine.page_shift.n;
  slots_.resize(static_cast<std::size_t>(Value(kTasks)));
  return absl::OkStatus();
}

void Lruscan::Main(Process& self) {
  start_queue_ = std::make_unique<WaitQueue>(CurrentEngine(), "lruscan's start");
  std::int64_t forked = 0;
  for (std::int64_t task = 0; task < Value(kTasks); ++task) {
    Process* child =
        self.Fork("lruscan", KernelFootprint{}, [this, task](Process& me) { Child(me, task); });
    if (child != nullptr) ++forked;
  }
  PS_CHECK(forked == Value(kTasks), "three quarters of memory are enough for every fork");
  while (self.children() > 0) static_cast<void>(self.WaitChild());
}

// The zone that has most of the pages: all CPUs are to meet at one LRU.
mm::Zone& FullestZone(mm::MemoryManager& memory) {
  const auto size = [](const auto& zone) { return zone->lru->Size(mm::LruList::kActiveAnon); };
  return **std::max_element(memory.zones.begin(), memory.zones.end(),
                            [&](const auto& a, const auto& b) { return size(a) < size(b); });
}

void Lruscan::Child(Process& self, std::int64_t task) {
  Slot& slot = slots_[static_cast<std::size_t>(task)];
  const std::uint32_t first = self.MapAnon(pages_);
  const auto pages = static_cast<std::uint32_t>(pages_);
  for (std::uint32_t page = 0; page < pages; ++page) {
    self.Write(first + page, StampOf(task, page, 1));
  }
  mm::MemoryManager& memory = self.memory();
  memory.pagevecs->DrainLocal();
  if (ready_.fetch_add(1) + 1 == Value(kTasks)) started_ns_.store(FreshNow().n);
  start_queue_->WakeAll();
  start_queue_->Wait([this] { return ready_.load() >= Value(kTasks); }, {.interruptible = true});
  mm::Zone& zone = FullestZone(memory);
  for (std::int64_t i = 0; i < Value(kBatches); ++i) ScanBatch(memory, zone, slot);
  slot.ended = FreshNow();
  for (std::uint32_t page = 0; page < pages; ++page) {
    if (!self.Holds(first + page, StampOf(task, page, 1))) ++slot.lost;
  }
  slot.finished = true;
}

void Lruscan::ScanBatch(mm::MemoryManager& memory, mm::Zone& zone, Slot& slot) {
  {
    mm::IsolatedBatch batch(memory, zone);
    zone.lru->Isolate(mm::kSwapClusterMax, mm::LruList::kActiveAnon, 0, mm::IsolateMode::kActive,
                      batch.entries);
    if (batch.entries.empty()) ++slot.empty;
    slot.pages += static_cast<std::int64_t>(batch.entries.size());
    Charge(static_cast<std::int64_t>(batch.entries.size()) * Ns{Value(kJudgeNs)});
  }
  done_.fetch_add(1, std::memory_order_relaxed);
  ReturnToUser();
}

WorkloadReport Lruscan::Report() {
  Slot all;
  std::int64_t finished = 0;
  for (const Slot& slot : slots_) {
    all.pages += slot.pages;
    all.empty += slot.empty;
    all.lost += slot.lost;
    all.ended = std::max(all.ended, slot.ended);
    finished += slot.finished ? 1 : 0;
  }
  const std::int64_t elapsed = all.ended.n - started_ns_.load();
  const std::int64_t rate =
      elapsed > 0 ? all.pages * 1'000'000 / std::max<std::int64_t>(1, elapsed / 1000) : 0;
  WorkloadReport report;
  report.out = {std::to_string(Value(kTasks)) + " tasks: " + std::to_string(all.pages) +
                " pages taken and put back, " + std::to_string(rate) + " pages/s"};
  report.numbers = {{"tasks", Value(kTasks)},        {"tasks_finished", finished},
                    {"elapsed_ns", elapsed},         {"pages_scanned", all.pages},
                    {"isolations_empty", all.empty}, {"pages_per_second", rate},
                    {"pages_lost", all.lost}};
  FailIfLost(report, all.lost);
  return report;
}

}  // namespace

std::unique_ptr<Workload> MakeLruscan() { return std::make_unique<Lruscan>(); }

}  // namespace pagestorm::bench
