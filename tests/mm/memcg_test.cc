// Charges, limits and the lists that limit reclaim walks. Kills: memcg_oom_test.cc; the gate:
// memcg_gate_test.cc.
#include "mm/memcg.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "mm/file_io.h"
#include "mm/mm_struct.h"
#include "mm/page_cache.h"
#include "mm/reclaim.h"
#include "mm/zone.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

SwapMachineOptions WithGroups(std::vector<MemCgroupSpec> groups, MemcgLru lru = MemcgLru::kZone) {
  SwapMachineOptions options;
  options.cgroups = std::move(groups);
  options.policy.memcg.lru = lru;
  return options;
}

// Writes every page of a new area once, then reads it back. Returns pages with another content.
std::int64_t Touch(SwapMachine& machine, TaskMm& self, std::int64_t pages) {
  AddressSpaces& spaces = *machine.mm.spaces;
  const std::uint32_t first = spaces.MapAnon(*self.space, pages);
  const auto stamp = [&](std::uint32_t page) {
    return (std::uint64_t{self.space->id} << 32) + page;
  };
  for (std::uint32_t page = first; page < first + static_cast<std::uint32_t>(pages); ++page) {
    if (spaces.Write(*self.space, page, stamp(page)) != AccessResult::kOk) return pages;
    if (pages > 100 && page == first + 100)
      SleepFor(kSecond / 10);  // until others have come as far
  }
  std::int64_t lost = 0;
  for (std::uint32_t page = first; page < first + static_cast<std::uint32_t>(pages); ++page) {
    std::uint64_t read = 0;
    if (spaces.Read(*self.space, page, &read) != AccessResult::kOk || read != stamp(page)) ++lost;
  }
  return lost;
}

MemCgroup& Group(SwapMachine& machine, std::size_t number) {
  return machine.mm.cgroups->all()[number];
}

// Mutations tried, red: Uncharge() without the groups above (usage of "all" stays); Uncharge() left
// out of FreeUnreferenced (everything stays); the group not inherited in Fork (the child's 20
// missing).
TEST_CASE("MemCgroups: pages are charged to the group and those above, and nothing stays",
          "[mm][memcg]") {
  const MemcgLru lru = GENERATE(MemcgLru::kZone, MemcgLru::kPerCgroup);
  SwapMachine machine(WithGroups({{"all", -1, {1000}}, {"a", 0, {500}}, {"b", 0, {500}}}, lru));
  machine.Spawn("parent", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);  // the leaves are a and b
    CHECK(Touch(machine, self, 100) == 0);
    CHECK(Group(machine, 2).usage == 100);
    CHECK(Group(machine, 1).usage == 100);
    MmStruct* copy = machine.mm.spaces->Fork(*self.space, {});
    REQUIRE(copy != nullptr);
    std::atomic<bool> done{false};
    machine.Spawn(
        "child",
        [&](TaskMm& child) {
          CHECK(Touch(machine, child, 20) == 0);
          CHECK(Group(machine, 2).usage == 120);
          done = true;
        },
        copy);
    machine.Spawn("other", [&](TaskMm& other) {
      machine.mm.cgroups->Attach(*other.space, 1);
      CHECK(Touch(machine, other, 30) == 0);
      CHECK(Group(machine, 3).usage == 30);
    });
    while (!done) SleepFor(kSecond / 100);
    SleepFor(kSecond);
    CHECK(Group(machine, 2).usage == 100);
    CHECK(machine.mm.CheckInvariants(/*expect_idle=*/false) == "");
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  for (std::size_t i = 1; i <= 3; ++i) {
    CHECK(Group(machine, i).usage == 0);
    CHECK(Group(machine, i).failcnt == 0);
  }
  CHECK(Group(machine, 1).max_usage >= 150);
  CHECK(Group(machine, 2).max_usage == 120);
  CHECK(Group(machine, 3).max_usage == 30);
}

// Mutations tried, red: AddOne without its bound (max_usage 600); TryAdd without the undo (usage of
// the child grows with each refused charge: CheckInvariants).
TEST_CASE("MemCgroups: a limit is never exceeded; what does not fit is swapped out",
          "[mm][memcg]") {
  const MemcgLru lru = GENERATE(MemcgLru::kZone, MemcgLru::kPerCgroup);
  const bool above = GENERATE(false, true);  // whose limit it is
  SwapMachine machine(
      above ? WithGroups({{"all", -1, {200}}, {"a", 0, {1000}}, {"b", 0, {1000}}}, lru)
            : WithGroups({{"all", -1, {1000}}, {"a", 0, {200}}, {"b", 0, {200}}}, lru));
  machine.Spawn("big", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);
    CHECK(Touch(machine, self, 600) == 0);
  });
  machine.Spawn("small", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 1);
    CHECK(Touch(machine, self, 50) == 0);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  MemCgroup& full = Group(machine, above ? 1 : 2);
  CHECK(full.max_usage == 200);
  CHECK(full.failcnt > 0);
  CHECK(full.reclaims > 0);
  CHECK(machine.Event(VmEvent::kPswpout) >= 400);
  CHECK(machine.mm.oom->kills() == 0);
  CHECK(full.usage == 0);
}

// Mutations tried, red: CountScans with global() for memcg too (pgscan_direct); prev_priority of
// zones stored by limit reclaim; ALLOCSTALL counted.
TEST_CASE("MemCgroups: limit reclaim leaves the zones' scan state and statistics alone",
          "[mm][memcg]") {
  const MemcgLru lru = GENERATE(MemcgLru::kZone, MemcgLru::kPerCgroup);
  SwapMachine machine(WithGroups({{"a", -1, {200}}}, lru));
  machine.Spawn("big", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);
    CHECK(Touch(machine, self, 600) == 0);
    for (const auto& zone : machine.mm.zones) {
      CHECK(zone->prev_priority == kDefPriority);
      CHECK(zone->pages_scanned == 0);
      CHECK(zone->nr_scan_active == 0);
      CHECK(zone->nr_scan_inactive == 0);
    }
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Event(VmEvent::kAllocstall) == 0);
  std::int64_t direct = 0;
  std::int64_t stolen = 0;
  for (int kind = 0; kind < 4; ++kind) {
    direct += machine.Event(ForZone(VmEvent::kPgscanDirectDma, kind));
    direct += machine.Event(ForZone(VmEvent::kPgscanKswapdDma, kind));
    stolen += machine.Event(ForZone(VmEvent::kPgstealDma, kind));
  }
  CHECK(direct == 0);
  CHECK(stolen == Group(machine, 1).pages_reclaimed);  // pgsteal tells nobody apart, as in 2.6.26
  CHECK(stolen >= 400);
}

// Mutation tried, red: global reclaim that scans only the root's lists (per_cgroup: the machine
// dies).
TEST_CASE("MemCgroups: the machine's own reclaim takes pages of every group", "[mm][memcg]") {
  const MemcgLru lru = GENERATE(MemcgLru::kZone, MemcgLru::kPerCgroup);
  const bool split = GENERATE(false, true);
  SwapMachineOptions options = WithGroups({{"a", -1, {100'000}}, {"b", -1, {100'000}}}, lru);
  options.policy.reclaim.split_lru = split;
  SwapMachine machine(options);
  for (int i = 0; i < 3; ++i) {  // of 16 MiB; the third one is in no group
    machine.Spawn("big", [&, i](TaskMm& self) {
      if (i < 2) machine.mm.cgroups->Attach(*self.space, i);
      CHECK(Touch(machine, self, 2000) == 0);
    });
  }
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  CHECK(machine.mm.oom->kills() == 0);
  CHECK(Group(machine, 1).reclaims + Group(machine, 2).reclaims == 0);
  CHECK(machine.Event(VmEvent::kPswpout) > 1000);
}

// Mutation tried, red: the reader's pages charged to the root's (usage 0).
TEST_CASE("MemCgroups: pages of files are charged to the first reader and reclaimed for its limit",
          "[mm][memcg]") {
  const MemcgLru lru = GENERATE(MemcgLru::kZone, MemcgLru::kPerCgroup);
  SwapMachine machine(WithGroups({{"a", -1, {100}}}, lru));
  File& file =
      machine.mm.page_cache->CreateFile({400}, [](std::uint32_t page) { return page + 1; });
  machine.Spawn("reader", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);
    OpenFile open(file);
    for (std::uint32_t page = 0; page < 400; ++page) {
      std::uint64_t stamp = 0;
      REQUIRE(ReadFilePage(machine.mm, open, page, &stamp) == FileResult::kOk);
      CHECK(stamp == page + 1);
    }
    CHECK(Group(machine, 1).cache > 0);
    CHECK(Group(machine, 1).anon == 0);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  CHECK(Group(machine, 1).max_usage == 100);
  CHECK(Group(machine, 1).usage == Group(machine, 1).cache);  // the cache outlives its reader
  CHECK(Group(machine, 1).pages_reclaimed >= 300);
}

// Mutations tried, red: the names of the files; bytes taken for pages.
TEST_CASE("MemCgroups: every group has its files", "[mm][memcg]") {
  SwapMachine machine(WithGroups({{"all", -1, kNoLimit}, {"a", 0, {64}}}));
  machine.Spawn("task", [&](TaskMm& self) {
    machine.mm.cgroups->Attach(*self.space, 0);
    CHECK(Touch(machine, self, 10) == 0);
    const auto files = CgroupFiles(machine.mm);
    const auto text = [&](const std::string& path) {
      for (const auto& [name, content] : files) {
        if (name == path) return content;
      }
      return std::string("none");
    };
    CHECK(text("cgroup/all/memory.limit_in_bytes") == "9223372036854775807\n");
    CHECK(text("cgroup/all/memory.usage_in_bytes") == "40960\n");
    CHECK(text("cgroup/all/a/memory.limit_in_bytes") == "262144\n");
    CHECK(text("cgroup/all/a/memory.usage_in_bytes") == "40960\n");
    CHECK(text("cgroup/all/a/memory.max_usage_in_bytes") == "40960\n");
    CHECK(text("cgroup/all/a/memory.failcnt") == "0\n");
    CHECK(text("cgroup/all/a/memory.stat") == "cache 0\nrss 40960\nactive 40960\ninactive 0\n");
    CHECK(files.size() == 10);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
}

TEST_CASE("MemCgroups: without groups a machine has none, and no files", "[mm][memcg]") {
  SwapMachine machine;
  CHECK(machine.mm.cgroups == nullptr);
  CHECK(CgroupFiles(machine.mm).empty());
}

// Mutations tried, red: each condition of Check() left out.
TEST_CASE("MemCgroups: groups that cannot be are refused in one line", "[mm][memcg]") {
  const auto said = [](const std::vector<MemCgroupSpec>& specs) {
    return std::string(MemCgroups::Check(specs).message());
  };
  CHECK(said({{"a", -1, {1}}, {"a", 0, {1}}}) == "");
  CHECK(said({{"a", -1, {0}}}) == "cgroup \"a\": a limit of 0 pages: must be at least 1");
  CHECK(said({{"a", -1, {-5}}}) == "cgroup \"a\": a limit of -5 pages: must be at least 1");
  CHECK(said({{"a", 0, {1}}}) == "cgroup \"a\": its parent is not among the groups before it");
  CHECK(said({{"a", -2, {1}}}) == "cgroup \"a\": its parent is not among the groups before it");
  CHECK(said({{"a", -1, {1}}, {"a", -1, {1}}}) == "cgroup \"a\": there are two of that name");
  CHECK(said({{"a/b", -1, {1}}}).find("allowed in a name") != std::string::npos);
  CHECK(said({{"..", -1, {1}}}).find("allowed in a name") != std::string::npos);
  CHECK(said({{"", -1, {1}}}).find("allowed in a name") != std::string::npos);
  CHECK(said(std::vector<MemCgroupSpec>(kMemCgroupsMax, {"a", -1, {1}})).find("less than") !=
        std::string::npos);
}

// Mutation tried, red: Uncharge() without the groups above. Isolate() that takes frames of other
// groups along stays green.
TEST_CASE("MemCgroups: real threads conserve every page and every charge", "[mm][memcg][threads]") {
  const MemcgLru lru = GENERATE(MemcgLru::kZone, MemcgLru::kPerCgroup);
  SwapMachineOptions options =
      WithGroups({{"all", -1, {700}}, {"a", 0, {300}}, {"b", 0, {300}}, {"c", 0, {300}}}, lru);
  options.kind = EngineKind::kThreads;
  options.cpus = 4;
  options.disk = {.positioning_ns = 0, .bytes_per_second = 4'000'000'000};
  SwapMachine machine(options);
  std::atomic<std::int64_t> lost{0};
  for (int i = 0; i < 6; ++i) {
    machine.Spawn("task", [&, i](TaskMm& self) {
      machine.mm.cgroups->Attach(*self.space, i);
      lost += Touch(machine, self, 200);
    });
  }
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
  CHECK(lost == 0);
  // An exit that meets a page while reclaim has it leaves it in the swap cache, as in the kernel.
  CHECK(Group(machine, 1).usage <= machine.mm.swap->cache_stats().pages);
  CHECK(Group(machine, 1).failcnt + Group(machine, 2).failcnt > 0);
}

}  // namespace
}  // namespace pagestorm::mm
