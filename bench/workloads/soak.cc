#include "bench/workloads/soak.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "bench/workloads/channel.h"
#include "mm/gfp.h"
#include "mm/page_alloc.h"

namespace pagestorm::bench {
namespace {

enum Param { kTasks, kSeconds, kPressure };

// Kernel blocks a task holds; given back on every way out.
class KernelBlocks {
 public:
  explicit KernelBlocks(mm::MemoryManager& mm) : mm_(mm) {}
  ~KernelBlocks() {
    while (!blocks_.empty()) FreeOne(0);
  }
  KernelBlocks(const KernelBlocks&) = delete;
  KernelBlocks& operator=(const KernelBlocks&) = delete;

  bool Take(mm::Gfp gfp, int order) {
    const auto frame = mm_.allocator->Alloc(gfp, order);
    if (frame) blocks_.push_back({*frame, order});
    return frame.has_value();
  }
  void FreeOne(std::size_t i) {
    const Block block = blocks_[i];
    blocks_[i] = blocks_.back();
    blocks_.pop_back();
    mm_.allocator->Free(block.first, block.order, /*cold=*/false);
  }
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }

 private:
  struct Block {
    mm::FrameNo first;
    int order;
  };
  mm::MemoryManager& mm_;
  std::vector<Block> blocks_;
};

class Soak final : public Workload {
 public:
  [[nodiscard]] std::string_view name() const override { return "soak"; }
  std::vector<WorkloadParam>& params() override { return params_; }
  absl::Status Validate(const MachineFacts& machine) override;
  [[nodiscard]] std::int64_t max_tasks() const override { return 2 * Value(kTasks) + 2; }
  void Main(Process& self) override;
  [[nodiscard]] WorkloadReport Report() override;
  [[nodiscard]] Headline headline() const override { return {"writes", true}; }
  [[nodiscard]] int progress_permille() const override {
    return static_cast<int>(std::min<std::int64_t>(
        1000, now_.load(std::memory_order_relaxed) * 1000 / (Value(kSeconds) * kSecond.n)));
  }

 private:
  struct Area {
    std::uint32_t first = 0;
    std::vector<std::uint64_t> expected;  // 0: never written
  };
  struct Slot {  // one task's counts, written by it and, one at a time, by its children
    std::atomic<std::int64_t> writes{0}, reads{0}, forks{0}, blocks{0}, refused{0}, lost{0};
  };

  [[nodiscard]] std::int64_t Value(Param param) const { return params_[param].value; }
  void Task(Process& self, std::int64_t number);
  void Step(Process& self, std::int64_t number, Rng& rng, std::vector<Area>& areas,
            KernelBlocks& blocks);
  void WriteSome(Process& self, Slot& slot, Rng& rng, Area& area, std::int64_t pages);
  void ReadSome(Process& self, Slot& slot, Rng& rng, const Area& area, std::int64_t pages);
  void ForkChild(Process& self, std::int64_t number, Rng& rng, const Area& area);
  void Remap(Process& self, Rng& rng, Area& area);

  std::vector<WorkloadParam> params_{
      {"tasks", "tasks; 0: four a CPU", 0, 0, 10'000},
      {"seconds", "emulated seconds to run", 20, 1, 14'400},
      {"pressure", "memory the tasks map, percent of the machine's", 120, 1, 1000},
  };
  std::int64_t area_pages_ = 0;
  std::unique_ptr<Channel> ring_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::atomic<std::int64_t> now_{0};
  std::int64_t killed_ = 0;
};

absl::Status Soak::Validate(const MachineFacts& machine) {
  if (Value(kTasks) == 0) params_[kTasks].value = 4 * machine.online_cpus;
  area_pages_ = std::max<std::int64_t>(
      16, machine.memory.n * Value(kPressure) / 100 / Value(kTasks) / 4);  // four areas a task
  for (std::int64_t i = 0; i < Value(kTasks); ++i) slots_.push_back(std::make_unique<Slot>());
  return absl::OkStatus();
}

void Soak::Main(Process& self) {
  ring_ = std::make_unique<Channel>(
      self.memory(),
      ChannelSpec{.limit_messages = 64,
                  .page_bytes = std::int64_t{1} << self.memory().page_shift().n},
      1);
  for (std::int64_t i = 0; i < Value(kTasks); ++i) {
    static_cast<void>(
        self.Fork("soak", KernelFootprint{}, [this, i](Process& me) { Task(me, i); }));
  }
  while (self.children() > 0) {
    if (!self.WaitChild()) ++killed_;
  }
  ring_->Close();
}

void Soak::Task(Process& self, std::int64_t number) {
  self.JoinCgroup(number);
  Rng rng = CurrentEngine().seeds().Stream("soak", number);
  std::vector<Area> areas(4);
  for (Area& area : areas) {
    area.first = self.MapAnon(area_pages_);
    area.expected.assign(static_cast<std::size_t>(area_pages_), 0);
  }
  KernelBlocks blocks(self.memory());
  while (Now().n < Value(kSeconds) * kSecond.n) {
    Step(self, number, rng, areas, blocks);
    ReturnToUser();
    std::int64_t seen = now_.load(std::memory_order_relaxed);
    if (Now().n > seen) now_.compare_exchange_weak(seen, Now().n, std::memory_order_relaxed);
  }
  Slot& slot = *slots_[static_cast<std::size_t>(number)];
  for (const Area& area : areas) ReadSome(self, slot, rng, area, area_pages_);
}

void Soak::Step(Process& self, std::int64_t number, Rng& rng, std::vector<Area>& areas,
                KernelBlocks& blocks) {
  Slot& slot = *slots_[static_cast<std::size_t>(number)];
  Area& area = areas[rng.Below(areas.size())];
  const std::uint64_t what = rng.Below(100);
  if (what < 45) {
    WriteSome(self, slot, rng, area, rng.Between(1, 64));
  } else if (what < 70) {
    ReadSome(self, slot, rng, area, rng.Between(1, 64));
  } else if (what < 74) {
    ForkChild(self, number, rng, area);
  } else if (what < 76) {
    Remap(self, rng, area);
  } else if (what < 86) {
    // A quarter of these without FS, a quarter without IO either.
    const std::uint64_t kind = rng.Below(4);
    const mm::Gfp gfp = kind == 0 ? mm::GFP_NOFS : kind == 1 ? mm::GFP_NOIO : mm::GFP_KERNEL;
    const auto order = static_cast<int>(rng.Below(4));
    if (blocks.size() >= 16) blocks.FreeOne(rng.Below(blocks.size()));
    (blocks.Take(gfp | mm::__GFP_NORETRY | mm::__GFP_NOWARN, order) ? slot.blocks : slot.refused)
        .fetch_add(1);
  } else if (what < 90) {
    if (blocks.size() > 0) blocks.FreeOne(rng.Below(blocks.size()));
  } else if (what < 94) {
    // Even tasks write, odd ones read: counts differ, so neither may insist.
    if (number % 2 == 0) {
      static_cast<void>(ring_->TrySend(1));
    } else {
      static_cast<void>(ring_->TryReceive(8));
    }
  } else if (what < 97) {
    SleepFor({rng.Between(1'000, 5'000'000)});
  } else {
    ChargeUser({rng.Between(1'000, 2'000'000)});
  }
}

void Soak::WriteSome(Process& self, Slot& slot, Rng& rng, Area& area, std::int64_t pages) {
  auto page = static_cast<std::uint32_t>(rng.Below(static_cast<std::uint64_t>(area_pages_)));
  for (std::int64_t i = 0; i < pages; ++i) {
    const std::uint64_t stamp = rng.Next() | 1;
    self.Write(area.first + page, stamp);
    area.expected[page] = stamp;
    slot.writes.fetch_add(1, std::memory_order_relaxed);
    page = (page + 1) % static_cast<std::uint32_t>(area_pages_);
  }
}

void Soak::ReadSome(Process& self, Slot& slot, Rng& rng, const Area& area, std::int64_t pages) {
  auto page = static_cast<std::uint32_t>(rng.Below(static_cast<std::uint64_t>(area_pages_)));
  for (std::int64_t i = 0; i < pages; ++i) {
    if (!self.Holds(area.first + page, area.expected[page])) slot.lost.fetch_add(1);
    slot.reads.fetch_add(1, std::memory_order_relaxed);
    page = (page + 1) % static_cast<std::uint32_t>(area_pages_);
  }
}

// The child sees the parent's pages, changes some of its own copies, and exits; the parent's must
// not change.
void Soak::ForkChild(Process& self, std::int64_t number, Rng& rng, const Area& area) {
  Slot& slot = *slots_[static_cast<std::size_t>(number)];
  const std::uint64_t seed = rng.Next();
  const Process* child =
      self.Fork("soak-child", KernelFootprint{}, [this, seed, area, &slot](Process& me) {
        Rng own(seed);
        Area copy = area;
        ReadSome(me, slot, own, copy, 16);
        WriteSome(me, slot, own, copy, 16);
        ReadSome(me, slot, own, copy, 32);
      });
  slot.forks.fetch_add(child != nullptr ? 1 : 0, std::memory_order_relaxed);
  if (child != nullptr) static_cast<void>(self.WaitChild());
}

void Soak::Remap(Process& self, Rng&, Area& area) {
  self.Unmap(area.first, area_pages_);
  area.first = self.MapAnon(area_pages_);
  std::fill(area.expected.begin(), area.expected.end(), 0);
}

WorkloadReport Soak::Report() {
  std::int64_t writes = 0, reads = 0, forks = 0, blocks = 0, refused = 0, lost = 0;
  for (const auto& slot : slots_) {
    writes += slot->writes;
    reads += slot->reads;
    forks += slot->forks;
    blocks += slot->blocks;
    refused += slot->refused;
    lost += slot->lost;
  }
  WorkloadReport report;
  report.out = {std::to_string(Value(kTasks)) + " tasks for " + std::to_string(Value(kSeconds)) +
                " s: " + std::to_string(writes) + " writes, " + std::to_string(reads) + " reads, " +
                std::to_string(forks) + " forks, " + std::to_string(blocks) + " kernel blocks (" +
                std::to_string(refused) + " refused), " + std::to_string(killed_) + " killed"};
  report.numbers = {{"writes", writes},  {"reads", reads},     {"forks", forks},
                    {"blocks", blocks},  {"refused", refused}, {"killed", killed_},
                    {"pages_lost", lost}};
  FailIfLost(report, lost);
  return report;
}

}  // namespace

std::unique_ptr<Workload> MakeSoak() { return std::make_unique<Soak>(); }

}  // namespace pagestorm::bench
