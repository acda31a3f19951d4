#include "mm/swap_slots.h"

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "core/rng.h"
#include "tests/support/machine.h"

namespace pagestorm::mm {
namespace {

using testing::Cpus;
using testing::Machine;

void InTask(Machine& machine, std::function<void()> body) {
  machine.engine.Spawn({.name = "test"}, std::move(body));
  CHECK(machine.engine.Run().end == RunEnd::kDone);
}

std::vector<SwapSlot> Take(SwapSlots& slots, int count) {
  std::vector<SwapSlot> taken;
  for (int i = 0; i < count; ++i) taken.push_back(slots.Alloc().value());
  return taken;
}

TEST_CASE("SwapSlots: hands out clusters of 256 from the lowest run of so many free slots",
          "[mm]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  SwapSlots slots(machine.engine, std::array{SwapSlots::Device{.slots = 2000}}, {100});
  InTask(machine, [&] {
    const std::vector<SwapSlot> first = Take(slots, 600);
    for (std::size_t i = 0; i < first.size(); ++i) CHECK(first[i] == 1 + i);
    // Holes of single slots among the first 512, and one of 300 behind them.
    for (SwapSlot slot = 2; slot < 512; slot += 2) CHECK(slots.Free(slot) == 0);
    // The third cluster has 256 - 88 slots left: it goes on in order.
    CHECK(Take(slots, 168).back() == 768);
    // The next one starts at the lowest 256 in a row, not in a hole.
    CHECK(slots.Alloc() == SwapSlot{769});
    for (SwapSlot slot = 514; slot < 769; ++slot) slots.Free(slot);
    CHECK(Take(slots, 255).back() == 1024);
    CHECK(slots.Alloc() == SwapSlot{1025});  // 514..768 are 255: one too few
    Take(slots, 255);
    slots.Free(513);
    slots.Free(511);
    CHECK(slots.Alloc() == SwapSlot{513});  // 513..768; 512 is in use
    CHECK(slots.CheckInvariants() == "");
  });
}

TEST_CASE("SwapSlots: without a free cluster the lowest free slot is taken, down to the last",
          "[mm]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  SwapSlots slots(machine.engine, std::array{SwapSlots::Device{.slots = 300}}, {100});
  InTask(machine, [&] {
    Take(slots, 300);
    CHECK(slots.free() == 0);
    CHECK_FALSE(slots.Alloc());
    for (const SwapSlot slot : {200U, 17U, 300U}) slots.Free(slot);
    CHECK(slots.free() == 3);
    const std::vector<SwapSlot> again = Take(slots, 3);
    CHECK(std::set<SwapSlot>(again.begin(), again.end()) == std::set<SwapSlot>{17, 200, 300});
    CHECK_FALSE(slots.Alloc());
    CHECK(slots.CheckInvariants() == "");
  });
}

TEST_CASE("SwapSlots: counts users and frees a slot with the last one", "[mm]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  SwapSlots slots(machine.engine, std::array{SwapSlots::Device{.slots = 10}}, {100});
  InTask(machine, [&] {
    const SwapSlot slot = slots.Alloc().value();
    CHECK(slots.Duplicate(slot));
    CHECK(slots.Count(slot) == 2);
    CHECK(slots.Free(slot) == 1);
    CHECK(slots.free() == 9);
    CHECK(slots.Free(slot) == 0);
    CHECK(slots.free() == 10);
    CHECK_FALSE(slots.Duplicate(slot));
  });
}

TEST_CASE("SwapSlots: fills devices by priority, equal ones in turn", "[mm]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  const std::array devices{SwapSlots::Device{.slots = 4, .priority = 1},
                           SwapSlots::Device{.slots = 2, .priority = 5},
                           SwapSlots::Device{.slots = 2, .priority = 1}};
  SwapSlots slots(machine.engine, devices, {100});  // bases 0, 5, 8
  InTask(machine, [&] {
    CHECK(Take(slots, 8) == std::vector<SwapSlot>{6, 7, 1, 9, 2, 10, 3, 4});
    CHECK_FALSE(slots.Alloc());
  });
}

TEST_CASE("SwapSlots: the read-ahead window is the used run around a slot within 8 aligned ones",
          "[mm]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  SwapSlots slots(machine.engine, std::array{SwapSlots::Device{.slots = 30}}, {100});
  InTask(machine, [&] {
    Take(slots, 30);
    const auto run = [&](SwapSlot slot) {
      const SwapSlots::Run found = slots.UsedRun(slot, 3);
      return std::pair(found.first, found.slots);
    };
    CHECK(run(12) == std::pair(SwapSlot{8}, 8U));
    CHECK(run(3) == std::pair(SwapSlot{1}, 7U));    // slot 0 is the header
    CHECK(run(30) == std::pair(SwapSlot{24}, 7U));  // the device ends
    slots.Free(10);
    slots.Free(14);
    CHECK(run(12) == std::pair(SwapSlot{11}, 3U));
    CHECK(run(9) == std::pair(SwapSlot{8}, 2U));
    CHECK(run(10).second == 0);
    CHECK(slots.UsedRun(12, 0).slots == 0);  // page_cluster 0: no read-ahead
  });
}

// A std::map of use counts stands beside; several tasks interleave at every charge and yield.
void ModelRun(const EngineConfig& config, EngineKind kind) {
  Machine machine(kind, config, kMicrosecond * 20);
  SwapSlots slots(machine.engine, std::array{SwapSlots::Device{.slots = 1500}}, {100});
  std::atomic<int> wrong{0};
  std::vector<std::map<SwapSlot, int>> owned(6);
  for (std::size_t task = 0; task < owned.size(); ++task) {
    machine.engine.Spawn({.name = "swapper"}, [&, task] {
      std::map<SwapSlot, int>& mine = owned[task];
      Rng rng = machine.engine.seeds().Stream("swapper", static_cast<std::int64_t>(task));
      for (int step = 0; step < 3000; ++step) {
        const std::uint64_t dice = rng.Below(10);
        if (dice < 5 || mine.empty()) {
          const std::optional<SwapSlot> slot = slots.Alloc();
          if (!slot) continue;
          if (!mine.emplace(*slot, 1).second || slots.Count(*slot) != 1) ++wrong;
          continue;
        }
        auto it = mine.lower_bound(static_cast<SwapSlot>(rng.Below(1501)));
        if (it == mine.end()) it = mine.begin();
        if (dice < 6) {
          if (!slots.Duplicate(it->first)) ++wrong;
          ++it->second;
        } else {
          const int left = slots.Free(it->first);
          if (left != --it->second) ++wrong;
          if (left == 0) mine.erase(it);
        }
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(wrong == 0);
  CHECK(slots.CheckInvariants() == "");
  std::set<SwapSlot> all;
  std::size_t sum = 0;
  for (const auto& mine : owned) {
    for (const auto& [slot, users] : mine) {
      all.insert(slot);
      if (slots.Count(slot) != users) ++wrong;
    }
    sum += mine.size();
  }
  CHECK(wrong == 0);
  CHECK(all.size() == sum);  // no slot has two owners
  CHECK(slots.free() == 1500 - static_cast<std::int64_t>(sum));
}

TEST_CASE("SwapSlots: agree with a map of counts under concurrent use", "[mm][model]") {
  const auto seed = GENERATE(take(3, random(0U, 0xffff'ffffU)));
  CAPTURE(seed);
  ModelRun(Cpus(3, seed), EngineKind::kVirtual);
}

TEST_CASE("SwapSlots: agree with a map of counts on real threads", "[mm][stress]") {
  EngineConfig config = Cpus(3, 4);
  config.bind = false;
  ModelRun(config, EngineKind::kThreads);
}

}  // namespace
}  // namespace pagestorm::mm
