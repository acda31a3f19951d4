#include "bench/workloads/press.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "bench/workloads/stamp.h"
#include "core/histogram.h"
#include "core/wait_queue.h"

namespace pagestorm::bench {
namespace {

enum Param { kTasks, kMib, kSweeps, kWriteNs, kHotMib, kHotReads };

class Press final : public Workload {
 public:
  [[nodiscard]] std::string_view name() const override { return "press"; }
  std::vector<WorkloadParam>& params() override { return params_; }
  absl::Status Validate(const MachineFacts& machine) override;
  [[nodiscard]] std::int64_t max_tasks() const override { return Value(kTasks) + 1; }
  void Main(Process& self) override;
  [[nodiscard]] WorkloadReport Report() override;
  [[nodiscard]] Headline headline() const override { return {"pages_per_second", true}; }
  [[nodiscard]] int progress_permille() const override {
    return total_ == 0 ? 0
                       : static_cast<int>(done_.load(std::memory_order_relaxed) * 1000 / total_);
  }

 private:
  class Starter;
  // What one task leaves behind; written by it alone.
  struct Slot {
    Histogram access_ns;
    std::int64_t lost = 0;
    std::int64_t hot_refaults = 0;
    bool finished = false;
  };

  [[nodiscard]] std::int64_t Value(Param param) const { return params_[param].value; }
  void Child(Process& self, std::int64_t task);
  // Pages of a task that are read again and again beside its sweeps.
  struct HotSet {
    std::uint32_t first = 0;
    std::uint32_t next = 0;
  };
  void Sweep(Process& self, std::int64_t task, std::uint32_t first, std::int64_t sweep,
             HotSet& hot);
  void WriteHotSet(Process& self, std::int64_t task, HotSet& hot);
  void ReadHotPages(Process& self, std::int64_t task, HotSet& hot);

  std::vector<WorkloadParam> params_{
      {"tasks", "processes; 0: one a CPU", 0, 0, 1'000'000},
      {"mib", "MiB each process maps; 0: 1.25 x memory over all of them", 0, 0, 1 << 24},
      {"sweeps", "times each page is written", 3, 1, 1000},
      {"write_ns", "CPU time of the program for each page it writes, ns", 200, 0, 1'000'000},
      {"hot_mib", "MiB of each process that it reads all the time, beside mib", 0, 0, 1 << 24},
      {"hot_reads", "pages of hot_mib read for each page written, in turn", 4, 0, 1'000'000},
  };
  std::int64_t pages_ = 0;      // of one task
  std::int64_t hot_pages_ = 0;  // likewise
  std::int64_t total_ = 0;      // page writes of all
  std::atomic<std::int64_t> done_{0};
  std::vector<Slot> slots_;
  std::unique_ptr<WaitQueue> start_queue_;
  std::atomic<bool> started_{false};  // every task has been forked
  Ns elapsed_;
  std::int64_t killed_ = 0;
  std::int64_t not_forked_ = 0;
};

absl::Status Press::Validate(const MachineFacts& machine) {
  if (Value(kTasks) == 0) params_[kTasks].value = machine.online_cpus;
  const std::int64_t shift = machine.page_shift.n;
  if (Value(kMib) == 0) {
    const std::int64_t bytes = ToBytes(machine.memory, machine.page_shift) / Value(kTasks);
    params_[kMib].value = std::max<std::int64_t>(1, (bytes + bytes / 4) >> 20);
  }
  pages_ = (Value(kMib) << 20) >> shift;
  hot_pages_ = (Value(kHotMib) << 20) >> shift;
  if (hot_pages_ > UINT32_MAX / 4) {
    return absl::InvalidArgumentError("workload.hot_mib = " + std::to_string(Value(kHotMib)) +
                                      " is more than 2^30 pages");
  }
  if (pages_ > UINT32_MAX / 2) {
    return absl::InvalidArgumentError("workload.mib = " + std::to_string(Value(kMib)) +
                                      " is more than the 2^31 pages an area may have");
  }
  total_ = pages_ * Value(kTasks) * Value(kSweeps);
  slots_.resize(static_cast<std::size_t>(Value(kTasks)));
  return absl::OkStatus();
}

// Lets the tasks that were forked begin, also if the first process is killed before it has forked
// all.
class Press::Starter {
 public:
  explicit Starter(Press& press) : press_(press) {}
  ~Starter() {
    press_.started_.store(true, std::memory_order_release);
    press_.start_queue_->WakeAll();
  }
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

 private:
  Press& press_;
};

void Press::Main(Process& self) {
  const Ns start = Now();
  start_queue_ = std::make_unique<WaitQueue>(CurrentEngine(), "press's start");
  {
    const Starter starter(*this);
    for (std::int64_t task = 0; task < Value(kTasks); ++task) {
      Process* child =
          self.Fork("press", KernelFootprint{}, [this, task](Process& me) { Child(me, task); });
      if (child == nullptr) ++not_forked_;
    }
  }
  while (self.children() > 0) {
    if (!self.WaitChild()) ++killed_;
  }
  elapsed_ = Now() - start;
}

void Press::Child(Process& self, std::int64_t task) {
  self.JoinCgroup(task);
  // All at once: the first must not be done with its memory before the last has some.
  start_queue_->Wait([this] { return started_.load(std::memory_order_acquire); },
                     {.interruptible = true});
  const std::uint32_t first = self.MapAnon(pages_);
  HotSet hot;
  if (hot_pages_ > 0) WriteHotSet(self, task, hot);
  for (std::int64_t sweep = 1; sweep <= Value(kSweeps); ++sweep) {
    Sweep(self, task, first, sweep, hot);
  }
  slots_[static_cast<std::size_t>(task)].finished = true;
}

void Press::WriteHotSet(Process& self, std::int64_t task, HotSet& hot) {
  hot.first = self.MapAnon(hot_pages_);
  for (std::uint32_t page = 0; page < static_cast<std::uint32_t>(hot_pages_); ++page) {
    self.Write(hot.first + page, StampOf(task, page, 0));
  }
}

// One that had been evicted is fetched back by a major fault.
void Press::ReadHotPages(Process& self, std::int64_t task, HotSet& hot) {
  Slot& slot = slots_[static_cast<std::size_t>(task)];
  const mm::AddressSpaces& spaces = *self.memory().spaces;
  const std::int64_t before = spaces.FaultsOf(self.space()).major;
  for (std::int64_t i = 0; i < Value(kHotReads); ++i) {
    if (!self.Holds(hot.first + hot.next, StampOf(task, hot.next, 0))) ++slot.lost;
    if (++hot.next == static_cast<std::uint32_t>(hot_pages_)) hot.next = 0;
  }
  slot.hot_refaults += spaces.FaultsOf(self.space()).major - before;
}

void Press::Sweep(Process& self, std::int64_t task, std::uint32_t first, std::int64_t sweep,
                  HotSet& hot) {
  Slot& slot = slots_[static_cast<std::size_t>(task)];
  for (std::uint32_t page = 0; page < static_cast<std::uint32_t>(pages_); ++page) {
    const Ns start = Now();
    if (sweep > 1 && !self.Holds(first + page, StampOf(task, page, sweep - 1))) ++slot.lost;
    self.Write(first + page, StampOf(task, page, sweep));
    ChargeUser({Value(kWriteNs)});
    slot.access_ns.Record((Now() - start).n);
    done_.fetch_add(1, std::memory_order_relaxed);
    if (hot_pages_ > 0) ReadHotPages(self, task, hot);
  }
}

WorkloadReport Press::Report() {
  Histogram all;
  std::int64_t lost = 0;
  std::int64_t finished = 0;
  std::int64_t hot_refaults = 0;
  for (const Slot& slot : slots_) {
    all.Merge(slot.access_ns);
    lost += slot.lost;
    hot_refaults += slot.hot_refaults;
    finished += slot.finished ? 1 : 0;
  }
  const std::int64_t rate =
      elapsed_.n > 0 ? all.count() * 1'000'000 / std::max<std::int64_t>(1, elapsed_.n / 1000) : 0;
  WorkloadReport report;
  report.out = {
      std::to_string(Value(kTasks)) + " tasks x " + std::to_string(Value(kMib)) + " MiB x " +
          std::to_string(Value(kSweeps)) + " sweeps: " + std::to_string(finished) + " finished, " +
          std::to_string(killed_) + " killed",
      std::to_string(all.count()) + " pages written, " + std::to_string(rate) + " pages/s",
      "worst stall " + std::to_string(all.max() / 1000) + " us, p99 " +
          std::to_string(all.Percentile(99'000) / 1000) + " us",
  };
  report.numbers = {{"tasks", Value(kTasks)},
                    {"tasks_finished", finished},
                    {"tasks_killed", killed_},
                    {"tasks_not_forked", not_forked_},
                    {"elapsed_ns", elapsed_.n},
                    {"pages_written", all.count()},
                    {"pages_per_second", rate},
                    {"access_ns_p50", all.Percentile(50'000)},
                    {"access_ns_p99", all.Percentile(99'000)},
                    {"access_ns_max", all.max()},
                    {"pages_lost", lost}};
  if (hot_pages_ > 0) report.numbers.emplace_back("hot_refaults", hot_refaults);
  FailIfLost(report, lost);
  return report;
}

}  // namespace

std::unique_ptr<Workload> MakePress() { return std::make_unique<Press>(); }

}  // namespace pagestorm::bench
