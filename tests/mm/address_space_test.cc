#include "mm/address_space.h"

#include <catch2/catch.hpp>
#include <map>

#include "core/rng.h"
#include "mm/page_frame.h"
#include "mm/rmap.h"
#include "mm/zone.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

// --- random operations beside a dumb model ---

// What a process should find in its memory. Copied at fork, as the kernel pretends to.
using Model = std::map<std::uint32_t, std::uint64_t>;

struct Storm {
  explicit Storm(SwapMachine& target) : machine(target) {}

  SwapMachine& machine;
  std::atomic<int> mismatches{0};
  std::atomic<int> ooms{0};
  std::atomic<int> forks{0};
  std::atomic<std::int64_t> spawned{0};
  int steps = 400;
  int depth = 2;
  std::int64_t area_pages = 400;

  // One process: touches, forks, unmaps, checks everything at its end.
  void Live(TaskMm& self, Model model, std::int64_t number, int depth_left) {
    AddressSpaces& spaces = *machine.mm.spaces;
    Rng rng = machine.engine.seeds().Stream("actor", number);
    std::vector<std::uint32_t> pages;
    const auto refresh = [&] {
      pages.clear();
      for (const auto& [page, stamp] : model) pages.push_back(page);
    };
    const auto map = [&](std::int64_t count) {
      const std::uint32_t first = spaces.MapAnon(*self.space, count);
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i) model[first + i] = 0;
      refresh();
    };
    if (model.empty()) map(area_pages);
    refresh();
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t dice = rng.Below(1000);
      const std::uint32_t page = pages[rng.Below(pages.size())];
      if (dice < 550) {
        const std::uint64_t stamp = rng.Next();
        if (spaces.Write(*self.space, page, stamp) != AccessResult::kOk) return Oom();
        model[page] = stamp;
      } else if (dice < 990) {
        if (!Check(self, page, model[page])) return Oom();
      } else if (dice < 994) {
        map(rng.Between(1, 20));
      } else if (dice < 997) {
        spaces.Unmap(*self.space, page, 1);
        model.erase(page);
        refresh();
        if (pages.empty()) map(area_pages);
      } else if (depth_left > 0) {
        if (!Fork(self, model, depth_left - 1)) return Oom();
      }
      ChargeUser({2000});
    }
    for (const auto& [page, stamp] : model) {
      if (!Check(self, page, stamp)) return Oom();
    }
  }

  bool Check(TaskMm& self, std::uint32_t page, std::uint64_t expected) {
    std::uint64_t found = 0;
    if (machine.mm.spaces->Read(*self.space, page, &found) != AccessResult::kOk) return false;
    if (found != expected) mismatches.fetch_add(1);
    return true;
  }

  bool Fork(TaskMm& self, const Model& model, int depth_left) {
    MmStruct* child = machine.mm.spaces->Fork(*self.space, {.page_tables = 1, .slab_pages = 1});
    if (child == nullptr) return false;
    forks.fetch_add(1);
    const std::int64_t number = spawned.fetch_add(1);
    const TaskId parent = Current().id;
    machine.Spawn(
        "child",
        [this, model, number, depth_left](TaskMm& part) { Live(part, model, number, depth_left); },
        child, parent);
    return true;
  }
  void Oom() { ooms.fetch_add(1); }
};

void RunStorm(const SwapMachineOptions& options, int actors) {
  SwapMachine machine(options);
  Storm storm(machine);
  for (int i = 0; i < actors; ++i) {
    const std::int64_t number = storm.spawned.fetch_add(1);
    machine.Spawn("actor",
                  [&storm, number](TaskMm& part) { storm.Live(part, {}, number, storm.depth); });
  }
  const RunResult result = machine.Run();
  CHECK(result.end == RunEnd::kDone);
  CHECK(storm.mismatches == 0);
  CHECK(storm.ooms == 0);
  CHECK(storm.forks > 0);
  CHECK(machine.mm.oom->kills() == 0);
  CHECK(machine.mm.spaces->live() == 0);
  CHECK(machine.Event(VmEvent::kPswpout) > 500);  // it did come under pressure
  CHECK(machine.Event(VmEvent::kPswpin) > 500);
  CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
  CHECK(machine.Stat(ZoneStat::kNrPageTablePages) == 0);
  CHECK(machine.Stat(ZoneStat::kNrSlabUnreclaimable) == 0);
  CHECK(machine.Stat(ZoneStat::kNrKernelStack) == 0);
  CHECK(machine.mm.rmap->anon_vmas().live() == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("AddressSpaces: stamps match a model under writes, forks, unmaps and swap",
          "[mm][model]") {
  const auto seed = GENERATE(take(2, random(0U, 0xffff'ffffU)));
  CAPTURE(seed);
  RunStorm({.cpus = 4, .kib_per_node = 8 * 1024, .seed = seed}, 6);
}

TEST_CASE("AddressSpaces: stamps match when charges under spin locks let others run",
          "[mm][model]") {
  RunStorm({.cpus = 4, .kib_per_node = 8 * 1024, .seed = 5, .sync_in_cs = true}, 6);
}

TEST_CASE("AddressSpaces: stamps match on real threads", "[mm][stress]") {
  RunStorm({.kind = EngineKind::kThreads,
            .cpus = 4,
            .kib_per_node = 8 * 1024,
            .disk = {.positioning_ns = 10'000, .bytes_per_second = 4'000'000'000},
            .seed = 9},
           6);
}

// --- single steps ---

constexpr AddressSpaces::Kernel kKernel{.page_tables = 2, .slab_pages = 3, .stack_order = 1};

TEST_CASE(
    "AddressSpaces: the first touch of a page counts, reads as zero and is on the active list",
    "[mm]") {
  SwapMachine machine;
  machine.Spawn("task", [&](TaskMm& self) {
    AddressSpaces& spaces = *machine.mm.spaces;
    const std::uint32_t first = spaces.MapAnon(*self.space, 20);
    std::uint64_t stamp = 99;
    CHECK(spaces.Read(*self.space, first + 3, &stamp) == AccessResult::kOk);
    CHECK(stamp == 0);
    CHECK(spaces.Write(*self.space, first + 3, 7) == AccessResult::kOk);  // no second fault
    CHECK(spaces.Read(*self.space, first + 3, &stamp) == AccessResult::kOk);
    CHECK(stamp == 7);
    CHECK(machine.Event(VmEvent::kPgfault) == 1);
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 1);
    CHECK(machine.Stat(ZoneStat::kNrActive) == 0);  // still in this CPU's pagevec
    for (std::uint32_t i = 4; i < 17; ++i) {
      CHECK(spaces.Write(*self.space, first + i, i) == AccessResult::kOk);
    }
    CHECK(machine.Stat(ZoneStat::kNrActive) == 14);
    const AddressSpaces::Usage usage = spaces.UsageOf(*self.space);
    CHECK(usage.total_vm == 20);
    CHECK(usage.rss == 14);
    CHECK(spaces.FaultsOf(*self.space).minor == 14);
    CHECK(self.minor_faults == 14);
    spaces.Unmap(*self.space, first + 3, 2);
    CHECK(spaces.UsageOf(*self.space).total_vm == 18);
    CHECK(spaces.UsageOf(*self.space).rss == 12);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
  CHECK(machine.Stat(ZoneStat::kNrActive) == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("AddressSpaces: kernel memory is counted by its kind and given back", "[mm]") {
  SwapMachine machine;
  machine.Spawn("task", [&](TaskMm&) {
    MmStruct* space = machine.mm.spaces->Create(kKernel);
    CHECK(machine.Stat(ZoneStat::kNrPageTablePages) == 2);
    CHECK(machine.Stat(ZoneStat::kNrSlabUnreclaimable) == 3);
    CHECK(machine.Stat(ZoneStat::kNrKernelStack) == 2 + 1);  // an order-1 block, and our own
    machine.mm.spaces->Destroy(space);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Stat(ZoneStat::kNrKernelStack) == 0);
  CHECK(machine.Stat(ZoneStat::kNrSlabUnreclaimable) == 0);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("AddressSpaces: after a fork a write copies, and the last user writes in place", "[mm]") {
  SwapMachine machine;
  machine.Spawn("parent", [&](TaskMm& self) {
    AddressSpaces& spaces = *machine.mm.spaces;
    const std::uint32_t page = spaces.MapAnon(*self.space, 1);
    CHECK(spaces.Write(*self.space, page, 1) == AccessResult::kOk);
    MmStruct* child = spaces.Fork(*self.space, kKernel);
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 1);  // one page, mapped twice
    CHECK(spaces.PeekStamp(*child, page) == 1);
    CHECK(spaces.Write(*self.space, page, 2) == AccessResult::kOk);
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 2);
    CHECK(spaces.PeekStamp(*child, page) == 1);
    CHECK(spaces.PeekStamp(*self.space, page) == 2);
    CHECK(spaces.Write(*child, page, 3) == AccessResult::kOk);  // alone now: no copy
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 2);
    CHECK(spaces.PeekStamp(*self.space, page) == 2);
    CHECK(machine.Event(VmEvent::kPgfault) == 3);
    spaces.Destroy(child);
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 1);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("AddressSpaces: 100 children share their parent's pages, and exit frees everything",
          "[mm]") {
  SwapMachine machine;
  constexpr std::uint32_t kPages = 8;
  std::uint32_t first = 0;
  std::atomic<int> wrong{0};
  machine.Spawn("parent", [&](TaskMm& self) {
    AddressSpaces& spaces = *machine.mm.spaces;
    first = spaces.MapAnon(*self.space, kPages);
    for (std::uint32_t i = 0; i < kPages; ++i) {
      CHECK(spaces.Write(*self.space, first + i, 100 + i) == AccessResult::kOk);
    }
    std::vector<MmStruct*> children;
    for (int i = 0; i < 100; ++i) children.push_back(spaces.Fork(*self.space, kKernel));
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == kPages);
    CHECK(machine.mm.rmap->anon_vmas().live() == 1);
    for (MmStruct* child : children) {
      machine.Spawn(
          "child",
          [&](TaskMm& part) {
            for (std::uint32_t i = 0; i < kPages; ++i) {
              if (spaces.Write(*part.space, first + i, i) != AccessResult::kOk) ++wrong;
            }
            SleepFor(kMillisecond);
            for (std::uint32_t i = 0; i < kPages; ++i) {
              if (spaces.PeekStamp(*part.space, first + i) != i) ++wrong;
            }
          },
          child, Current().id);
    }
    SleepFor(kSecond);
    for (std::uint32_t i = 0; i < kPages; ++i) {
      if (spaces.PeekStamp(*self.space, first + i) != 100 + i) ++wrong;
    }
  });
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(wrong == 0);
  CHECK(machine.mm.spaces->live() == 0);
  CHECK(machine.mm.rmap->anon_vmas().live() == 0);
  CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
  CHECK(machine.Stat(ZoneStat::kNrActive) + machine.Stat(ZoneStat::kNrInactive) == 0);
  CHECK(machine.Wrong() == "");
}

// --- reverse mapping ---

// The one frame that a private page of `space` is in now, found by its stamp.
FrameNo FrameWithStamp(MemoryManager& mm, std::uint64_t stamp) {
  for (const auto& zone : mm.zones) {
    for (FrameNo n = zone->first; n < zone->end; ++n) {
      if (mm.frames[n].Test(kPageAnon) && mm.frames.Stamp(n) == stamp) return n;
    }
  }
  return kNoFrame;
}

TEST_CASE("Rmap: young ptes of every mapper are found and cleared, also after the hint is stale",
          "[mm]") {
  SwapMachine machine;
  machine.Spawn("parent", [&](TaskMm& self) {
    AddressSpaces& spaces = *machine.mm.spaces;
    const std::uint32_t page = spaces.MapAnon(*self.space, 1);
    std::uint64_t stamp = 0;
    CHECK(spaces.Write(*self.space, page, 4242) == AccessResult::kOk);
    const FrameNo n = FrameWithStamp(machine.mm, 4242);
    Rmap& rmap = *machine.mm.rmap;
    CHECK(rmap.Referenced(n, false) == 1);
    CHECK(rmap.Referenced(n, false) == 0);
    MmStruct* child = spaces.Fork(*self.space, {});
    CHECK(spaces.Read(*self.space, page, &stamp) == AccessResult::kOk);
    CHECK(spaces.Read(*child, page, &stamp) == AccessResult::kOk);
    CHECK(rmap.Referenced(n, false) == 2);
    spaces.Unmap(*self.space, page, 1);  // the first mapper, whom the frame remembers
    CHECK(spaces.Read(*child, page, &stamp) == AccessResult::kOk);
    CHECK(rmap.Referenced(n, false) == 1);
    CHECK(rmap.Referenced(n, false) == 0);
    spaces.Destroy(child);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
}

TEST_CASE("Rmap: a walk costs half the list, whoever maps the page", "[mm]") {
  MmCosts costs;
  costs.rmap_vma_ns = 1000;
  SwapMachine machine({.cpus = 1, .costs = costs});
  machine.Spawn("parent", [&](TaskMm& self) {
    AddressSpaces& spaces = *machine.mm.spaces;
    const std::uint32_t page = spaces.MapAnon(*self.space, 2);
    CHECK(spaces.Write(*self.space, page, 1) == AccessResult::kOk);
    std::vector<MmStruct*> children;
    for (int i = 0; i < 39; ++i) children.push_back(spaces.Fork(*self.space, {}));
    CHECK(spaces.Write(*children[20], page + 1, 77) == AccessResult::kOk);
    const FrameNo n = FrameWithStamp(machine.mm, 77);  // private, in a list of 40
    const std::int64_t before = Current().stime;
    CHECK(machine.mm.rmap->Referenced(n, false) == 1);
    const std::int64_t cost = Current().stime - before;
    CHECK(cost >= 20'000);
    CHECK(cost < 21'000);  // and a lock
    for (MmStruct* child : children) spaces.Destroy(child);
  });
  CHECK(machine.Run().end == RunEnd::kDone);
}

TEST_CASE("AddressSpaces: a machine stopped in the middle of swapping is whole", "[mm]") {
  // The time limit falls into the storm: writes queued, pages locked for reads, faults half done.
  for (const std::int64_t limit_ms : {40, 90, 170}) {
    CAPTURE(limit_ms);
    SwapMachine machine({.cpus = 4,
                         .kib_per_node = 8 * 1024,
                         .disk = {.positioning_ns = 2'000'000, .bytes_per_second = 100'000'000},
                         .time_limit = kMillisecond * limit_ms});
    for (int i = 0; i < 4; ++i) {
      machine.Spawn("writer", [&](TaskMm& self) {
        const std::uint32_t first = machine.mm.spaces->MapAnon(*self.space, 1500);
        for (std::uint32_t round = 0;; ++round) {
          const std::uint32_t page = first + round * 7 % 1500;
          if (machine.mm.spaces->Write(*self.space, page, round) != AccessResult::kOk) return;
        }
      });
    }
    CHECK(machine.Run().end == RunEnd::kTimeLimit);
    CHECK(machine.Event(VmEvent::kPswpout) > 0);
    CHECK(machine.mm.spaces->live() == 0);
    CHECK(machine.mm.CheckInvariants(/*expect_idle=*/false) == "");
    CHECK(machine.mm.swap->CheckInvariants() == "");
    CHECK(machine.Stat(ZoneStat::kNrWriteback) == 0);
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
    int stuck = 0;
    for (const auto& zone : machine.mm.zones) {
      for (FrameNo n = zone->first; n < zone->end; ++n) {
        if (machine.mm.frames[n].Test(kPageLocked | kPageWriteback)) ++stuck;
      }
    }
    CHECK(stuck == 0);
  }
}

}  // namespace
}  // namespace pagestorm::mm
