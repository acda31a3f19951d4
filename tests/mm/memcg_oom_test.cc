// Kills inside a memory cgroup: when, whom, and what dmesg says.
#include <catch2/catch.hpp>
#include <string>

#include "mm/dmesg.h"
#include "mm/memcg.h"
#include "mm/mm_struct.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

// Groups a and b below "all"; no swap: what is charged cannot be reclaimed.
SwapMachineOptions Swapless(Pages all, Pages each, MemcgLru lru = MemcgLru::kZone) {
  SwapMachineOptions options;
  options.cgroups = {{"all", -1, all}, {"a", 0, each}, {"b", 0, each}};
  options.policy.memcg.lru = lru;
  options.swap = 0;
  return options;
}

// Writes so many new pages, then stays for a second. Dies by Cancelled where it is killed.
void Fill(SwapMachine& machine, TaskMm& self, std::int64_t pages) {
  AddressSpaces& spaces = *machine.mm.spaces;
  const std::uint32_t first = spaces.MapAnon(*self.space, pages);
  for (std::uint32_t page = first; page < first + static_cast<std::uint32_t>(pages); ++page) {
    if (spaces.Write(*self.space, page, page) == AccessResult::kOom) return;
    ReturnToUser();
  }
  SleepFor(kSecond);
  ReturnToUser();
}

// Mutations tried, red: kReclaimRounds 4 and 6 (fruitless); the group not looked at in
// SelectBadTask (the giant outside dies); a kill counted twice.
TEST_CASE("MemCgroups: five fruitless rounds, then a kill inside the group and only there",
          "[mm][memcg]") {
  const MemcgLru lru = GENERATE(MemcgLru::kZone, MemcgLru::kPerCgroup);
  SwapMachine machine(Swapless({1000}, {100}, lru));
  bool giant_lived = false;
  bool neighbour_lived = false;
  bool small_lived = false;
  machine.Spawn("giant", [&](TaskMm& self) {  // in no group
    Fill(machine, self, 900);
    SleepFor(kSecond * 3);
    giant_lived = !Current().fatal_signal.load();
  });
  machine.Spawn("neighbour", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 1);
    Fill(machine, self, 90);
    neighbour_lived = !Current().fatal_signal.load();
  });
  machine.Spawn("small", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);
    Fill(machine, self, 20);
    small_lived = !Current().fatal_signal.load();
  });
  machine.Spawn("greedy", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);
    SleepFor(kSecond / 10);
    Fill(machine, self, 90);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  CHECK(giant_lived);
  CHECK(neighbour_lived);
  CHECK(small_lived);
  CHECK(machine.mm.oom->kills() == 1);
  const auto& groups = machine.mm.cgroups->all();
  CHECK(groups[2].kills == 1);
  CHECK(groups[2].fruitless == 5);
  CHECK(groups[2].reclaims == 5);
  CHECK(groups[2].max_usage == 100);
  CHECK(groups[1].kills + groups[3].kills == 0);
  CHECK(groups[2].usage == 0);
  const std::string text = machine.mm.dmesg->Text();
  CAPTURE(text);
  CHECK(text.find("greedy invoked oom-killer: gfp_mask=0x1200d2, order=0, oomkilladj=0") !=
        std::string::npos);
  CHECK(text.find("Task in /all/a killed as a result of limit of /all/a") != std::string::npos);
  CHECK(text.find("memory: usage 400kB, limit 400kB, failcnt ") != std::string::npos);
  CHECK(text.find("Memory cgroup stats for /all/a: cache:0KB rss:400KB") != std::string::npos);
  CHECK(text.find("Memory cgroup out of memory: kill process ") != std::string::npos);
  CHECK(text.find("Mem-info:") == std::string::npos);
}

// Mutation tried, red: children of a chosen task killed wherever they are.
TEST_CASE("MemCgroups: a child in another group is not killed for its parent's", "[mm][memcg]") {
  SwapMachine machine(Swapless({1000}, {100}));
  bool child_lived = false;
  machine.Spawn("parent", [&](TaskMm& self) {
    const TaskId parent = Current().id;
    machine.mm.cgroups->Attach(*self.space, 0);
    machine.Spawn(
        "child",
        [&](TaskMm& child) {
          machine.mm.cgroups->Attach(*child.space, 1);
          Fill(machine, child, 80);
          SleepFor(kSecond);
          child_lived = !Current().fatal_signal.load();
        },
        nullptr, parent);
    SleepFor(kSecond / 2);
    Fill(machine, self, 120);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(child_lived);
  CHECK(machine.mm.oom->kills() == 1);
  CHECK(machine.mm.oom->snapshots()[0].victim.find("parent") == 0);
}

// Mutation tried, red: the limit above looks for its victim in the charging task's group alone.
TEST_CASE("MemCgroups: the limit of a group above kills among all below it", "[mm][memcg]") {
  SwapMachine machine(Swapless({100}, {1000}));
  bool small_lived = false;
  machine.Spawn("large", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);
    Fill(machine, self, 80);
    SleepFor(kSecond);
  });
  machine.Spawn("small", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 1);
    SleepFor(kSecond / 2);
    Fill(machine, self, 30);
    small_lived = !Current().fatal_signal.load();
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  CHECK(small_lived);
  CHECK(machine.mm.oom->snapshots().size() == 1);
  CHECK(machine.mm.oom->snapshots()[0].victim.find("large") == 0);
  CHECK(machine.mm.cgroups->all()[1].kills == 1);
  CHECK(machine.mm.dmesg->Text().find("Task in /all/b killed as a result of limit of /all\n") !=
        std::string::npos);
}

// Mutation tried, red: OutOfMemoryIn() that panics, or says that it waits (the task tries for
// ever), where nobody can be killed.
TEST_CASE("MemCgroups: where nobody can be killed the faulting task dies alone", "[mm][memcg]") {
  SwapMachine machine(Swapless({1000}, {100}));
  bool refused = false;
  machine.Spawn("stubborn", [&](TaskMm& self) {
    self.oom_adj = -17;
    machine.mm.cgroups->Attach(*self.space, 0);
    AddressSpaces& spaces = *machine.mm.spaces;
    const std::uint32_t first = spaces.MapAnon(*self.space, 200);
    for (std::uint32_t page = first; page < first + 200 && !refused; ++page) {
      refused = spaces.Write(*self.space, page, page) == AccessResult::kOom;
    }
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(refused);
  CHECK(machine.mm.oom->kills() == 0);
  CHECK_FALSE(machine.mm.oom->panicked());
  CHECK(machine.mm.cgroups->all()[2].max_usage == 100);
  CHECK(machine.mm.dmesg->Text().find("VM: killing process stubborn") != std::string::npos);
}

}  // namespace
}  // namespace pagestorm::mm
