#include "mm/buddy.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tests/support/alloc_machine.h"

namespace pagestorm::mm {
namespace {

using testing::AllocMachine;
using testing::AllocMachineOptions;

FrameNo Take(Zone& zone, int order, MigrateType type) {
  BuddyWork work;
  const SpinGuard guard(zone.lock);
  return TakeBlockLocked(zone, order, type, FrameState::kInUse, work);
}
void Put(Zone& zone, FrameNo n, int order) {
  BuddyWork work;
  const SpinGuard guard(zone.lock);
  PutBlockLocked(zone, n, order, work);
}
std::int64_t FreeBlocks(const Zone& zone, int order) {
  return zone.free_area[static_cast<std::size_t>(order)].nr_free;
}
std::int64_t Listed(const Zone& zone, int order, MigrateType type) {
  return zone.free_area[static_cast<std::size_t>(order)]
      .list[static_cast<std::size_t>(type)]
      .size();
}

TEST_CASE("Buddy: a fresh zone is cut into the largest aligned blocks", "[mm][buddy]") {
  // 64 MiB: DMA 16 MiB with 56 pages of memmap, so frames 56..4095.
  AllocMachine machine({.node_mib = {64}});
  const Zone& dma = machine.ZoneAt(0, "DMA");
  CHECK(dma.first == 56);
  CHECK(FreeBlocks(dma, 3) == 1);  // 56..63
  CHECK(FreeBlocks(dma, 6) == 1);  // 64..127
  CHECK(FreeBlocks(dma, 9) == 1);  // 512..1023
  CHECK(FreeBlocks(dma, 10) == 3);
  CHECK(FreeBlocks(dma, 0) == 0);
  CHECK(machine.mm.CheckInvariants(true).empty());
}

TEST_CASE("Buddy: splitting leaves one block of each smaller order, merging restores all",
          "[mm][buddy]") {
  AllocMachine machine({.node_mib = {64}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  const auto movable = [&zone](int order) { return Listed(zone, order, MigrateType::kMovable); };
  const std::int64_t before = movable(kMaxOrder);
  std::vector<std::int64_t> small;
  for (int order = 0; order < kMaxOrder; ++order) small.push_back(movable(order));
  machine.Run([&] {
    // Take what is smaller than a whole block first.
    std::vector<std::pair<FrameNo, int>> rest;
    for (int order = 0; order < kMaxOrder; ++order) {
      while (movable(order) > 0) rest.emplace_back(Take(zone, order, MigrateType::kMovable), order);
    }
    CHECK(movable(kMaxOrder) == before);
    const FrameNo n = Take(zone, 0, MigrateType::kMovable);
    CHECK(movable(kMaxOrder) == before - 1);
    for (int order = 0; order < kMaxOrder; ++order) CHECK(movable(order) == 1);
    CHECK(CheckBuddy(zone).empty());
    Put(zone, n, 0);
    CHECK(movable(kMaxOrder) == before);
    for (const auto& [first, order] : rest) Put(zone, first, order);
  });
  for (int order = 0; order < kMaxOrder; ++order) {
    CHECK(movable(order) == small[static_cast<std::size_t>(order)]);
  }
  CHECK(machine.mm.CheckInvariants(true).empty());
}

TEST_CASE("Buddy: blocks of two zones never merge", "[mm][buddy]") {
  // 64 KiB pages: the DMA zone of x86-64 ends at frame 256, in the middle of a block of order 10.
  AllocMachine machine({.node_mib = {1024}, .page_shift = 16});
  const Zone& dma = machine.ZoneAt(0, "DMA");
  CHECK(dma.end == 256);
  std::int64_t largest = 0;
  for (int order = 0; order <= kMaxOrder; ++order) {
    if (FreeBlocks(dma, order) > 0) largest = order;
  }
  CHECK(largest == 7);  // 128..255: 0 is taken by memmap
  machine.Run([&] {
    for (const auto& zone : machine.mm.zones) {
      std::vector<FrameNo> all;
      for (FrameNo n = Take(*zone, 0, MigrateType::kMovable); n != kNoFrame;
           n = Take(*zone, 0, MigrateType::kMovable)) {
        all.push_back(n);
      }
      CHECK(static_cast<std::int64_t>(all.size()) == zone->present.n);
      for (const FrameNo n : all) Put(*zone, n, 0);
      CHECK(CheckBuddy(*zone).empty());
    }
  });
  CHECK(machine.mm.CheckInvariants(true).empty());
}

// Mutations tried: smallest block first; stealing without retyping; retyping below half.
TEST_CASE("Buddy: an unmovable request steals the pageblock of the largest movable block",
          "[mm][buddy][spec:throttle-11]") {
  AllocMachine machine({.node_mib = {64}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  machine.Run([&] {
    // A small movable block exists (the one beside this page), yet the largest one is taken.
    const FrameNo small = Take(zone, 0, MigrateType::kMovable);
    const std::int64_t whole = FreeBlocks(zone, kMaxOrder);
    const FrameNo n = Take(zone, 0, MigrateType::kUnmovable);
    CHECK(FreeBlocks(zone, kMaxOrder) == whole - 1);
    CHECK(zone.BlockType(n) == MigrateType::kUnmovable);
    CHECK((n >> zone.pageblock_order) != (small >> zone.pageblock_order));
    // What is left of the block is unmovable now and serves the next request without another
    // fallback.
    CHECK(Listed(zone, 9, MigrateType::kUnmovable) == 1);
    const FrameNo next = Take(zone, 0, MigrateType::kUnmovable);
    CHECK((next ^ n) == 1);
    CHECK(FreeBlocks(zone, kMaxOrder) == whole - 1);
    CHECK(CheckBuddy(zone).empty());
  });
}

TEST_CASE("Buddy: a pageblock is retyped only when half of it or more is free",
          "[mm][buddy][spec:throttle-11]") {
  AllocMachine machine({.node_mib = {64}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  machine.Run([&] {
    // Everything in use but one aligned block of order 7 (of 9) inside one pageblock.
    const auto taken = machine.LeaveFree(zone, 0);
    CHECK(machine.Free(zone) == 0);
    const FrameNo whole =
        std::ranges::find_if(taken, [&](const auto& block) {
          return block.second == kMaxOrder && zone.BlockType(block.first) == MigrateType::kMovable;
        })->first;
    Put(zone, whole, 7);
    CHECK(Listed(zone, 7, MigrateType::kMovable) == 1);
    const FrameNo n = Take(zone, 0, MigrateType::kUnmovable);
    CHECK(n == whole);
    CHECK(zone.BlockType(whole) == MigrateType::kMovable);
    // Order 7 >= 9 / 2, so the rest went to the thief all the same.
    CHECK(Listed(zone, 6, MigrateType::kUnmovable) == 1);
    CHECK(CheckBuddy(zone).empty());
    // With half the pageblock free it changes hands.
    Put(zone, n, 0);
    Put(zone, whole + 128, 7);
    CHECK(FreeBlocks(zone, 8) == 1);
    CHECK(Listed(zone, 8, MigrateType::kMovable) == 1);
    CHECK(Take(zone, 0, MigrateType::kUnmovable) == whole);
    CHECK(zone.BlockType(whole) == MigrateType::kUnmovable);
  });
}

TEST_CASE("Buddy: a small block is stolen alone, unless by a reclaimable request", "[mm][buddy]") {
  const MigrateType thief = GENERATE(MigrateType::kUnmovable, MigrateType::kReclaimable);
  AllocMachine machine({.node_mib = {64}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  machine.Run([&] {
    const auto taken = machine.LeaveFree(zone, 0);
    const FrameNo whole =
        std::ranges::find_if(taken, [&](const auto& block) {
          return block.second == kMaxOrder && zone.BlockType(block.first) == MigrateType::kMovable;
        })->first;
    Put(zone, whole, 2);       // below order 9 / 2
    Put(zone, whole + 64, 1);  // another one of the same pageblock
    CHECK(Take(zone, 0, thief) == whole);
    const bool all = thief == MigrateType::kReclaimable;
    CHECK(Listed(zone, 1, thief) == (all ? 2 : 0));
    CHECK(Listed(zone, 1, MigrateType::kMovable) == (all ? 0 : 2));
    CHECK(zone.BlockType(whole) == MigrateType::kMovable);
    CHECK(CheckBuddy(zone).empty());
  });
}

TEST_CASE("Buddy: RESERVE pageblocks are touched last, smallest first", "[mm][buddy]") {
  AllocMachine machine({.node_mib = {64}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  std::int64_t reserved = 0;
  for (int order = 0; order <= kMaxOrder; ++order) {
    reserved += Listed(zone, order, MigrateType::kReserve) << order;
  }
  CHECK(reserved >= 512);
  machine.Run([&] {
    for (;;) {
      const FrameNo n = Take(zone, 0, MigrateType::kUnmovable);
      if (n == kNoFrame) break;
      if (zone.BlockType(n) == MigrateType::kReserve && machine.Free(zone) >= reserved) {
        FAIL_CHECK("took a reserved page while others were free");
        break;
      }
    }
    CHECK(machine.Free(zone) == 0);
  });
}

TEST_CASE("Buddy: raising and lowering min moves whole reserve pageblocks", "[mm][buddy]") {
  AllocMachine machine({.node_mib = {256}});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  const auto reserved = [&zone] {
    std::int64_t count = 0;
    for (const auto& type : zone.pageblock) count += type == MigrateType::kReserve ? 1 : 0;
    return count;
  };
  machine.Run([&] {
    CHECK(reserved() == ReserveBlocks(zone.watermark.min, 9));
    machine.mm.allocator->SetupWatermarks(16'000);
    CHECK(zone.watermark.min > 3000);
    CHECK(reserved() == ReserveBlocks(zone.watermark.min, 9));
    CHECK(CheckBuddy(zone).empty());
    machine.mm.allocator->SetupWatermarks(400);
    CHECK(reserved() == 1);
    CHECK(CheckBuddy(zone).empty());
  });
  CHECK(machine.mm.CheckInvariants(true).empty());
}

TEST_CASE("Buddy: a machine of less than five pageblocks does not group by mobility",
          "[mm][buddy]") {
  AllocMachine machine({.node_mib = {8}});
  Zone& zone = machine.ZoneAt(0, "DMA");
  CHECK_FALSE(zone.grouped);
  machine.Run([&] {
    const FrameNo n = Take(zone, 0, MigrateType::kMovable);
    CHECK(zone.BlockType(n) == MigrateType::kUnmovable);
    Put(zone, n, 0);
    for (int order = 0; order <= kMaxOrder; ++order) {
      CHECK(Listed(zone, order, MigrateType::kMovable) == 0);
      CHECK(Listed(zone, order, MigrateType::kReserve) == 0);
    }
    CHECK(CheckBuddy(zone).empty());
  });
}

// Beside the buddy runs the plainest model there is: the set of free frames.
//   - a block handed out was free in whole, and aligned;
//   - a refusal means that the model has no aligned free run of that size either;
//   - the counts agree after each operation.
class Model {
 public:
  explicit Model(const Zone& zone) {
    for (FrameNo n = zone.first; n < zone.end; ++n) free_.insert(n);
  }
  void CheckTaken(FrameNo n, int order) {
    CHECK((n & ((FrameNo{1} << order) - 1)) == 0);
    for (FrameNo i = n; i < n + (FrameNo{1} << order); ++i) {
      if (free_.erase(i) == 0) FAIL_CHECK("handed out twice: " << i);
    }
  }
  void CheckRefused(int order) const {
    const FrameNo size = FrameNo{1} << order;
    FrameNo run = 0;
    FrameNo previous = kNoFrame;
    for (const FrameNo n : free_) {
      run = n == previous + 1 && (n & (size - 1)) != 0 ? run + 1 : ((n & (size - 1)) == 0 ? 1 : 0);
      previous = n;
      if (run == size) {
        FAIL_CHECK("refused order " << order << " though " << n << " is free");
        return;
      }
    }
  }
  void Put(FrameNo n, int order) {
    for (FrameNo i = n; i < n + (FrameNo{1} << order); ++i) {
      if (!free_.insert(i).second) FAIL_CHECK("was free already: " << i);
    }
  }
  [[nodiscard]] std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }

 private:
  std::set<FrameNo> free_;
};

// Mutations tried: a merge that keeps the upper half's number; Expand() that lists the lower half;
// a steal that forgets to unlink.
TEST_CASE("Buddy: random blocks beside a set of frames", "[mm][buddy][model]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(take(6, random(0, 0x7fff'ffff))));
  CAPTURE(seed);
  // 24 MiB: a DMA32 zone of 8 MiB with an odd start, four pageblocks; pressure reaches every
  // fallback.
  AllocMachine machine({.node_mib = {24}, .seed = seed});
  Zone& zone = machine.ZoneAt(0, "DMA32");
  Model model(zone);
  machine.Run([&] {
    Rng rng(seed);
    std::vector<std::pair<FrameNo, int>> held;
    for (int step = 0; step < 1500; ++step) {
      const bool fill = (step / 300) % 2 == 0;
      if (held.empty() || rng.Chance(fill ? 650'000 : 350'000)) {
        const int order = rng.Chance(700'000) ? static_cast<int>(rng.Between(0, 2))
                                              : static_cast<int>(rng.Between(0, kMaxOrder));
        const auto type = static_cast<MigrateType>(rng.Between(0, 2));
        const FrameNo n = Take(zone, order, type);
        if (n == kNoFrame) {
          model.CheckRefused(order);
        } else {
          model.CheckTaken(n, order);
          held.emplace_back(n, order);
        }
      } else {
        const std::size_t i = rng.Below(held.size());
        std::swap(held[i], held.back());
        model.Put(held.back().first, held.back().second);
        Put(zone, held.back().first, held.back().second);
        held.pop_back();
      }
      const std::string wrong = CheckBuddy(zone);
      if (!wrong.empty() || machine.Free(zone) != model.free()) {
        FAIL_CHECK("step " << step << ": " << wrong << ", free " << machine.Free(zone) << ", model "
                           << model.free());
        return;
      }
    }
    for (const auto& [n, order] : held) Put(zone, n, order);
  });
  CHECK(machine.mm.CheckInvariants(true).empty());
  CHECK(FreeBlocks(zone, kMaxOrder) >= 1);
}

}  // namespace
}  // namespace pagestorm::mm
