#include "mm/oom.h"

#include <catch2/catch.hpp>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "mm/buddy.h"
#include "mm/oom_report.h"
#include "mm/oom_select.h"
#include "mm/zone.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

std::span<Zone* const> AllZones(MemoryManager& mm) {
  return mm.allocator->ZonelistFor(GFP_KERNEL, 0);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("OomKiller: badness weighs size, children, age, work and privileges", "[mm]") {
  CHECK(Badness({.total_vm = 1000}) == 1000);
  CHECK(Badness({.total_vm = 1000, .children = 501}) == 1501);
  // 80 s of CPU: isqrt(10) = 3. 2^20 s of life: isqrt(isqrt(1024)) = 5.
  CHECK(Badness({.total_vm = 1000, .cpu_seconds = 80}) == 333);
  CHECK(Badness({.total_vm = 1000, .run_seconds = 1 << 20}) == 200);
  CHECK(Badness({.total_vm = 1000, .cpu_seconds = 7, .run_seconds = 1023}) == 1000);
  CHECK(Badness({.total_vm = 1000, .nice = 5}) == 2000);
  CHECK(Badness({.total_vm = 1000, .cap_sys_admin = true}) == 250);
  CHECK(Badness({.total_vm = 1000, .cap_sys_admin = true, .cap_sys_rawio = true}) == 62);
  CHECK(Badness({.total_vm = 1000, .oom_adj = 3}) == 8000);
  CHECK(Badness({.total_vm = 0, .oom_adj = 3}) == 8);
  CHECK(Badness({.total_vm = 1000, .oom_adj = -3}) == 125);
}

// Mutations tried, all red: children not counted in badness; the last child first; no children at
// all; a task with TIF_MEMDIE not waited for.
TEST_CASE(
    "OomKiller: with 5000 equal children the parent is chosen and its first living child dies",
    "[mm][spec:throttle-27]") {
  SwapMachine machine({.cpus = 4, .kib_per_node = 256 * 1024});
  constexpr int kChildren = 5000;
  std::vector<Task*> children;
  std::atomic<bool> leave{false};
  std::vector<int> killed;
  TaskId second_child;
  machine.Spawn("hackbench", [&](TaskMm& self) {
    const TaskId parent = Current().id;
    for (int i = 0; i < kChildren; ++i) {
      children.push_back(&machine.Spawn(
          "hackbench",
          [&, i](TaskMm& part) {
            machine.mm.spaces->MapAnon(*part.space, 25);
            while (!leave && !Current().fatal_signal.load()) SleepFor(kSecond);
            if (Current().memdie.load()) killed.push_back(i);
          },
          nullptr, parent));
    }
    second_child = children[1]->id;
    machine.mm.spaces->MapAnon(*self.space, 25);
    SleepFor(kSecond);
    // Child 0 has left by itself: the first living one is child 1.
    machine.engine.Kill(*children[0], /*memdie=*/false);
    SleepFor(kSecond * 3 + kSecond / 2);  // between two looks of the children
    machine.mm.oom->OutOfMemory(AllZones(machine.mm), GFP_KERNEL, 0);
    // Somebody is dying: a second call waits for it and kills nobody.
    machine.mm.oom->OutOfMemory(AllZones(machine.mm), GFP_KERNEL, 0);
    SleepFor(kSecond * 2);
    leave = true;
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(killed == std::vector<int>{1});
  CHECK(machine.mm.oom->kills() == 1);
  REQUIRE(machine.mm.oom->snapshots().size() == 1);
  CHECK(machine.mm.oom->snapshots()[0].victim == "hackbench-" + std::to_string(second_child.n));
  // 25 + 4999 * (12 + 1): the points of the parent.
  CHECK(machine.mm.dmesg->Text().find("(hackbench) score 65012 or a child") != std::string::npos);
}

TEST_CASE("OomKiller: spares init, the unkillable, and who shares memory with them", "[mm]") {
  SwapMachine machine;
  std::string text;
  machine.Spawn("init", [&](TaskMm& init) {
    init.is_init = true;
    machine.mm.spaces->MapAnon(*init.space, 1000);
    Task& big = machine.Spawn("big", [&](TaskMm& part) {
      part.oom_adj = kOomDisable;
      machine.mm.spaces->MapAnon(*part.space, 900);
      SleepFor(kSecond * 2);
    });
    bool small_chosen = false;
    machine.Spawn("small", [&](TaskMm& part) {
      machine.mm.spaces->MapAnon(*part.space, 10);
      while (!Current().fatal_signal.load()) SleepFor(kSecond / 10);
      small_chosen = Current().memdie.load();
    });
    SleepFor(kSecond);
    machine.mm.oom->OutOfMemory(AllZones(machine.mm), GFP_KERNEL, 0);
    CHECK_FALSE(big.memdie.load());
    SleepFor(kSecond / 2);
    CHECK(small_chosen);
    CHECK_FALSE(machine.mm.oom->panicked());
    machine.mm.oom->OutOfMemory(AllZones(machine.mm), GFP_KERNEL, 0);  // nobody is left
    CHECK(machine.mm.oom->panicked());
    SleepFor(kSecond * 5);
  });
  const RunResult result = machine.Run();
  CHECK((result.end == RunEnd::kStopped || result.end == RunEnd::kDone));
  CHECK(machine.mm.dmesg->Text().find(
            "Kernel panic - not syncing: Out of memory and no killable processes...") !=
        std::string::npos);
}

// Mutation tried, red: TryLockZones without the test of kZoneOomLocked.
TEST_CASE("OomKiller: overlapping zonelists share one attempt", "[mm][spec:throttle-25]") {
  SwapMachine machine({.nodes = 2});
  machine.Spawn("task", [&](TaskMm&) {
    OomKiller& oom = *machine.mm.oom;
    const std::span<Zone* const> all = AllZones(machine.mm);
    const std::vector<Zone*> second{machine.mm.zones[1].get()};
    const std::vector<Zone*> first{machine.mm.zones[0].get()};
    CHECK(oom.TryLockZones(first));
    CHECK_FALSE(oom.TryLockZones(all));
    CHECK(oom.TryLockZones(second));  // disjoint
    oom.UnlockZones(first);
    CHECK_FALSE(oom.TryLockZones(all));
    oom.UnlockZones(second);
    CHECK(oom.TryLockZones(all));
    oom.UnlockZones(all);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
}

// Two tasks that want all memory, no swap.
TEST_CASE("OomKiller: without swap the hungriest dies, its memory lets the other finish",
          "[mm][spec:throttle-25]") {
  SwapMachine machine({.cpus = 2, .kib_per_node = 16 * 1024, .swap = 0});
  std::atomic<int> finished{0};
  std::atomic<int> ooms{0};
  for (const std::int64_t pages : {2400, 2300}) {
    machine.Spawn("eater", [&, pages](TaskMm& self) {
      const std::uint32_t first = machine.mm.spaces->MapAnon(*self.space, pages);
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(pages); ++i) {
        if (machine.mm.spaces->Write(*self.space, first + i, i) != AccessResult::kOk) {
          ++ooms;
          return;
        }
      }
      ++finished;
    });
  }
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.oom->kills() == 1);
  CHECK(finished == 1);
  CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
  CHECK(machine.Wrong() == "");
  const std::string text = machine.mm.dmesg->Text();
  CHECK(text.find("eater invoked oom-killer: gfp_mask=0x1280d2, order=0, oomkilladj=0") !=
        std::string::npos);
  if (ooms > 0) CHECK(text.find("VM: killing process eater") != std::string::npos);
}

// Takes free pages of a zone straight from its lists, the last ones singly. Leaves `left`.
std::vector<FrameNo> LeaveFree(MemoryManager& mm, Zone& zone, std::int64_t left) {
  std::vector<FrameNo> singles;
  BuddyWork work;
  const SpinGuard guard(zone.lock);
  for (int order = kMaxOrder; order >= 0; --order) {
    const std::int64_t keep = order == 0 ? left : left + 2000;
    while (mm.vmstat->Exact(zone.ordinal, ZoneStat::kNrFreePages) - (std::int64_t{1} << order) >=
           keep) {
      const FrameNo n =
          TakeBlockLocked(zone, order, MigrateType::kMovable, FrameState::kInUse, work);
      if (n == kNoFrame) break;
      if (order == 0) singles.push_back(n);
    }
  }
  return singles;
}

void FoldAll(SwapMachine& machine) {
  for (std::size_t cpu = 0; cpu < machine.engine.online_cpus(); ++cpu) {
    machine.mm.vmstat->FoldCpu({static_cast<std::int32_t>(cpu)});
  }
}

// The machine's own OOM killer, but pages come free just before the last look at the zones.
class LateFrees final : public OomKiller {
 public:
  LateFrees(std::unique_ptr<OomKiller> real, std::function<void()> free)
      : real_(std::move(real)), free_(std::move(free)) {}
  bool TryLockZones(std::span<Zone* const> zonelist) override {
    const bool locked = real_->TryLockZones(zonelist);
    free_();
    return locked;
  }
  void UnlockZones(std::span<Zone* const> zonelist) override { real_->UnlockZones(zonelist); }
  void OutOfMemory(std::span<Zone* const> zonelist, Gfp gfp, int order) override {
    real_->OutOfMemory(zonelist, gfp, order);
  }
  [[nodiscard]] bool OutOfMemoryIn(MemCgroup& group, Gfp gfp) override {
    return real_->OutOfMemoryIn(group, gfp);
  }
  void AllocationFailure(Gfp gfp, int order) override { real_->AllocationFailure(gfp, order); }
  [[nodiscard]] std::int64_t kills() const override { return real_->kills(); }
  [[nodiscard]] std::string ShowMem() const override { return real_->ShowMem(); }
  [[nodiscard]] bool panicked() const override { return real_->panicked(); }
  [[nodiscard]] MmStruct* TakeSpace(TaskMm& part) override { return real_->TakeSpace(part); }
  void AddTask(TaskMm& part) override { real_->AddTask(part); }
  void RemoveTask(TaskMm& part) override { real_->RemoveTask(part); }
  [[nodiscard]] std::vector<Snapshot> snapshots() const override { return real_->snapshots(); }

 private:
  const std::unique_ptr<OomKiller> real_;
  const std::function<void()> free_;
};

// Mutations tried, red: the last-chance walk at LOW; at MIN; a watermark check with < for <=.
TEST_CASE("OomKiller: the last look at the zones is at HIGH: with exactly that free it still kills",
          "[mm][spec:throttle-26]") {
  const std::int64_t above = GENERATE(0, 1);
  SwapMachine machine({.cpus = 1, .kib_per_node = 64 * 1024, .swap = 0});
  MemoryManager& mm = machine.mm;
  bool killed = false;
  int looks = 0;
  machine.Spawn("victim", [&](TaskMm& self) {
    mm.spaces->MapAnon(*self.space, 1000);
    while (!Current().fatal_signal.load() && looks == 0) SleepFor(kMillisecond);
    SleepFor(kMillisecond * 20);
    killed = Current().memdie.load();
  });
  machine.Spawn("asks", [&](TaskMm&) {
    SleepFor(kMillisecond * 5);
    Zone& dma32 = *mm.zones[1];
    REQUIRE(dma32.name == std::string("DMA32"));
    const std::int64_t high = dma32.watermark.high;
    LeaveFree(mm, *mm.zones[0], 0);
    std::vector<FrameNo> pages = LeaveFree(mm, dma32, dma32.watermark.min / 2);
    FoldAll(machine);
    mm.oom = std::make_unique<LateFrees>(std::move(mm.oom), [&] {
      if (++looks > 1) return;
      {
        BuddyWork work;
        const SpinGuard guard(dma32.lock);
        while (mm.vmstat->Exact(dma32.ordinal, ZoneStat::kNrFreePages) < high + above) {
          REQUIRE_FALSE(pages.empty());
          PutBlockLocked(dma32, pages.back(), 0, work);
          pages.pop_back();
        }
      }
      FoldAll(machine);
    });
    CHECK(mm.allocator->Alloc(GFP_KERNEL).has_value());
    CHECK(looks == 1);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(mm.oom->kills() == 1 - above);
  CHECK(killed == (above == 0));
}

// Lines without their time.
std::string Untimed(const MemoryManager& mm) {
  std::string text;
  for (const std::string& line : Lines(mm.dmesg->Text())) {
    REQUIRE(line.size() >= 15);
    text += line.substr(line.find("] ") + 2) + "\n";
  }
  return text;
}

TEST_CASE("OomKiller: the report is that of 2.6.26, line by line", "[mm][golden]") {
  SwapMachineOptions options{.cpus = 2, .kib_per_node = 64 * 1024, .swap = 1024};
  options.policy.oom.oom_dump_tasks = true;
  SwapMachine machine(options);
  machine.Spawn("a-name-of-more-than-15", [&](TaskMm& self) {
    machine.mm.spaces->MapAnon(*self.space, 77);
    CHECK(machine.mm.spaces->Write(*self.space, 1, 1) == AccessResult::kOk);
    FoldAll(machine);
    machine.mm.oom->OutOfMemory(AllZones(machine.mm), GFP_HIGHUSER_MOVABLE, 0);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(Untimed(machine.mm) ==
        "a-name-of-more- invoked oom-killer: gfp_mask=0x1200d2, order=0, oomkilladj=0\n"
        "Pid: 1, comm: a-name-of-more- Not tainted 2.6.26\n"
        "\n"
        "Call Trace:\n"
        " out_of_memory\n"
        " __alloc_pages\n"
        "Mem-info:\n"
        "Node 0 DMA per-cpu:\n"
        "CPU    0: hi:    0, btch:   1 usd:   0\n"
        "CPU    1: hi:    0, btch:   1 usd:   0\n"
        "Node 0 DMA32 per-cpu:\n"
        "CPU    0: hi:    6, btch:   1 usd:   0\n"
        "CPU    1: hi:    6, btch:   1 usd:   0\n"
        "Active:0 inactive:0 dirty:0 writeback:0 unstable:0\n"
        " free:16158 slab:0 mapped:0 pagetables:0 bounce:0\n"
        "Node 0 DMA free:16160kB min:252kB low:312kB high:376kB active:0kB"
        " inactive:0kB present:16160kB pages_scanned:0 all_unreclaimable? no\n"
        "lowmem_reserve[]: 0 47 47 47\n"
        "Node 0 DMA32 free:48472kB min:760kB low:948kB high:1140kB active:0kB"
        " inactive:0kB present:48480kB pages_scanned:0 all_unreclaimable? no\n"
        "lowmem_reserve[]: 0 0 0 0\n"
        "Node 0 DMA: 0*4kB 0*8kB 0*16kB 1*32kB 0*64kB 0*128kB 1*256kB 1*512kB 1*1024kB"
        " 1*2048kB 3*4096kB = 16160kB\n"
        "Node 0 DMA32: 2*4kB 2*8kB 2*16kB 1*32kB 2*64kB 1*128kB 2*256kB 1*512kB"
        " 2*1024kB 2*2048kB 10*4096kB = 48472kB\n"
        "0 total pagecache pages\n"
        "Swap cache: add 0, delete 0, find 0/0\n"
        "Free swap  = 4096kB\n"
        "Total swap = 4096kB\n"
        "16384 pages of RAM\n"
        "224 reserved pages\n"
        "1 pages shared\n"
        "0 pages swap cached\n"
        "[ pid ]   uid  tgid total_vm      rss cpu oom_adj name\n"
        "[    1]     0     1       77        1   0       0 a-name-of-more-\n"
        "Out of memory: kill process 1 (a-name-of-more-) score 77 or a child\n"
        "Killed process 1 (a-name-of-more-)\n");
}

TEST_CASE("OomKiller: a failed allocation is reported as by 2.6.26", "[mm][golden]") {
  SwapMachine machine({.cpus = 1, .kib_per_node = 64 * 1024, .swap = 0});
  machine.Spawn("asks", [&](TaskMm&) {
    for (const auto& zone : machine.mm.zones) LeaveFree(machine.mm, *zone, 0);
    FoldAll(machine);
    CHECK_FALSE(machine.mm.allocator->Alloc(GFP_ATOMIC | __GFP_NOWARN, 3));
    CHECK(machine.mm.dmesg->Text().empty());
    CHECK_FALSE(machine.mm.allocator->Alloc(GFP_ATOMIC, 3));
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(Untimed(machine.mm) ==
        "asks: page allocation failure. order:3, mode:0x20\n"
        "Pid: 1, comm: asks Not tainted 2.6.26\n"
        "\n"
        "Call Trace:\n"
        " get_page_from_freelist\n"
        " __alloc_pages\n"
        "Mem-info:\n"
        "Node 0 DMA per-cpu:\n"
        "CPU    0: hi:    0, btch:   1 usd:   0\n"
        "Node 0 DMA32 per-cpu:\n"
        "CPU    0: hi:    6, btch:   1 usd:   0\n"
        "Active:0 inactive:0 dirty:0 writeback:0 unstable:0\n"
        " free:0 slab:0 mapped:0 pagetables:0 bounce:0\n"
        "Node 0 DMA free:0kB min:252kB low:312kB high:376kB active:0kB inactive:0kB"
        " present:16160kB pages_scanned:0 all_unreclaimable? no\n"
        "lowmem_reserve[]: 0 47 47 47\n"
        "Node 0 DMA32 free:0kB min:760kB low:948kB high:1140kB active:0kB inactive:0kB"
        " present:48480kB pages_scanned:0 all_unreclaimable? no\n"
        "lowmem_reserve[]: 0 0 0 0\n"
        "Node 0 DMA: 0*4kB 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB"
        " 0*2048kB 0*4096kB = 0kB\n"
        "Node 0 DMA32: 0*4kB 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB"
        " 0*1024kB 0*2048kB 0*4096kB = 0kB\n"
        "0 total pagecache pages\n"
        "Swap cache: add 0, delete 0, find 0/0\n"
        "Free swap  = 0kB\n"
        "Total swap = 0kB\n"
        "16384 pages of RAM\n"
        "224 reserved pages\n"
        "0 pages shared\n"
        "0 pages swap cached\n");
}

TEST_CASE("Dmesg: ten reports in 5 s, then a line that counts the suppressed ones", "[mm]") {
  SwapMachine machine;
  machine.Spawn("task", [&](TaskMm&) {
    Dmesg& dmesg = *machine.mm.dmesg;
    int allowed = 0;
    for (int i = 0; i < 14; ++i) allowed += dmesg.Ratelimit() ? 1 : 0;
    CHECK(allowed == 10);
    SleepFor(kSecond * 6);
    CHECK(dmesg.Ratelimit());
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.dmesg->Text().find("] printk: 4 messages suppressed.\n") != std::string::npos);
}

}  // namespace
}  // namespace pagestorm::mm
