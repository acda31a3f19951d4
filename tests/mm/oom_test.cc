#include "mm/oom.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

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
    Task& small = machine.Spawn("small", [&](TaskMm& part) {
      machine.mm.spaces->MapAnon(*part.space, 10);
      while (!Current().fatal_signal.load()) SleepFor(kSecond / 10);
    });
    SleepFor(kSecond);
    machine.mm.oom->OutOfMemory(AllZones(machine.mm), GFP_KERNEL, 0);
    CHECK(small.memdie.load());
    CHECK_FALSE(big.memdie.load());
    SleepFor(kSecond / 2);
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

TEST_CASE("OomKiller: the report is that of 2.6.26, line by line", "[mm][golden]") {
  SwapMachineOptions options{.cpus = 2, .kib_per_node = 64 * 1024, .swap = 1024};
  options.policy.oom.oom_dump_tasks = true;
  SwapMachine machine(options);
  int pid = 0;
  machine.Spawn("a-name-of-more-than-15", [&](TaskMm& self) {
    pid = Current().id.n;
    machine.mm.spaces->MapAnon(*self.space, 77);
    CHECK(machine.mm.spaces->Write(*self.space, 1, 1) == AccessResult::kOk);
    machine.mm.vmstat->FoldCpu({0});
    machine.mm.vmstat->FoldCpu({1});
    machine.mm.oom->OutOfMemory(AllZones(machine.mm), GFP_HIGHUSER_MOVABLE, 0);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  std::vector<std::string> lines = Lines(machine.mm.dmesg->Text());
  // What varies with the allocator's state is replaced: free pages, lists, usage.
  std::string text;
  for (std::string& line : lines) {
    REQUIRE(line.size() >= 15);
    line = line.substr(line.find("] ") + 2);
    for (const char* key : {"free:", "usd:", "DMA32: ", "DMA: "}) {
      const std::size_t at = line.find(key);
      if (at != std::string::npos) {
        const std::size_t from = at + std::string(key).size();
        std::size_t to = from;
        if (key[0] == 'D') {
          to = line.size();
        } else {
          while (to < line.size() && (line[to] == ' ' || isdigit(line[to]) != 0)) ++to;
          if (to < line.size() && line[to - 1] == ' ') --to;
        }
        line.replace(from, to - from, "*");
      }
    }
    text += line + "\n";
  }
  const std::string p = std::to_string(pid);
  const std::string width5 = std::string(5 - p.size(), ' ') + p;
  const std::string expected =
      "a-name-of-more- invoked oom-killer: gfp_mask=0x1200d2, order=0, oomkilladj=0\n"
      "Pid: " +
      p +
      ", comm: a-name-of-more- Not tainted 2.6.26\n"
      "\n"
      "Call Trace:\n"
      " out_of_memory\n"
      " __alloc_pages\n"
      "Mem-info:\n"
      "Node 0 DMA per-cpu:\n"
      "CPU    0: hi:    0, btch:   1 usd:*\n"
      "CPU    1: hi:    0, btch:   1 usd:*\n"
      "Node 0 DMA32 per-cpu:\n"
      "CPU    0: hi:    6, btch:   1 usd:*\n"
      "CPU    1: hi:    6, btch:   1 usd:*\n"
      "Active:0 inactive:0 dirty:0 writeback:0 unstable:0\n"
      " free:* slab:0 mapped:0 pagetables:0 bounce:0\n";
  CAPTURE(text);
  CHECK(text.substr(0, expected.size()) == expected);
  const auto has = [&](const std::string& line) {
    CAPTURE(line);
    CHECK(text.find("\n" + line + "\n") != std::string::npos);
  };
  has("0 total pagecache pages");
  has("Swap cache: add 0, delete 0, find 0/0");
  has("Free swap  = 4096kB");
  has("Total swap = 4096kB");
  has("16384 pages of RAM");
  has("0 pages swap cached");
  has("[ pid ]   uid  tgid total_vm      rss cpu oom_adj name");
  has("[" + width5 + "]     0 " + width5 + "       77        1   0       0 a-name-of-more-");
  has("Out of memory: kill process " + p + " (a-name-of-more-) score 77 or a child");
  has("Killed process " + p + " (a-name-of-more-)");
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
