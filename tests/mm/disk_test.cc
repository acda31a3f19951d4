#include "mm/disk.h"

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "core/rng.h"
#include "tests/support/machine.h"

namespace pagestorm::mm {
namespace {

constexpr IoDirection kRead = IoDirection::kRead;
constexpr IoDirection kWrite = IoDirection::kWrite;

// --- the elevator ---

std::vector<std::uint64_t> Order(Elevator& elevator, Ns now = {}) {
  std::vector<std::uint64_t> firsts;
  while (const auto request = elevator.Next(now)) firsts.push_back(request->first);
  return firsts;
}

TEST_CASE("Elevator: contiguous pages become one request, up to the maximum", "[mm]") {
  Elevator elevator({.max_request_pages = 4});
  elevator.Add(kWrite, 10, 100, {});
  CHECK(elevator.Merge(kWrite, 11, 101));
  CHECK(elevator.Merge(kWrite, 9, 99));
  CHECK_FALSE(elevator.Merge(kWrite, 13, 103));  // not adjacent
  CHECK_FALSE(elevator.Merge(kRead, 12, 102));   // the other direction
  CHECK(elevator.Merge(kWrite, 12, 102));
  CHECK_FALSE(elevator.Merge(kWrite, 13, 103));  // full
  CHECK_FALSE(elevator.Merge(kWrite, 8, 98));
  const auto request = elevator.Next({});
  REQUIRE(request);
  CHECK(request->first == 9);
  CHECK(request->frames == std::vector<FrameNo>{99, 100, 101, 102});
  CHECK_FALSE(elevator.Next({}));
}

TEST_CASE("Elevator: sweeps upwards and starts over", "[mm]") {
  Elevator elevator({});
  elevator.Add(kWrite, 50, 0, {});
  CHECK(Order(elevator) == std::vector<std::uint64_t>{50});  // the head stands at 51
  for (const std::uint64_t sector : {20U, 90U, 55U, 10U}) elevator.Add(kWrite, sector, 0, {});
  CHECK(Order(elevator) == std::vector<std::uint64_t>{55, 90, 10, 20});
}

TEST_CASE("Elevator: reads and writes take turns of 100 and 40 ms while both wait", "[mm]") {
  Elevator elevator({});
  for (std::uint64_t i = 0; i < 4; ++i) {
    elevator.Add(kRead, 1000 + 10 * i, 0, {});
    elevator.Add(kWrite, 10 * i, 0, {});
  }
  const auto next = [&](std::int64_t ms) { return elevator.Next(kMillisecond * ms)->direction; };
  CHECK(next(1) == kWrite);  // no slice has begun: the other side of the last turn
  CHECK(next(40) == kWrite);
  CHECK(next(41) == kRead);
  CHECK(next(140) == kRead);
  CHECK(next(141) == kWrite);
  CHECK(next(181) == kRead);
  CHECK(next(182) == kRead);
  CHECK(next(183) == kWrite);  // no reads are left
}

// --- the disk ---

// 4 KiB pages at 100 MB/s take 40.96 us; positioning takes 8 ms. Nothing else costs time.
struct DiskMachine {
  explicit DiskMachine(int cpus = 3, EngineKind kind = EngineKind::kVirtual)
      : machine(kind, Config(cpus)),
        disk(machine.engine, {.positioning_ns = 8'000'000, .bytes_per_second = 100'000'000}, costs,
             {12}, /*submission_blocks=*/true, kSecond / 50,
             [this](IoDirection) { ++released_below_off; }) {
    costs.submit_io_ns = costs.complete_io_ns = 0;
    disk.on_complete = [this](IoDirection, std::uint64_t sector, FrameNo) {
      done.push_back({sector, Now().n});
    };
  }
  static EngineConfig Config(int cpus) {
    EngineConfig config = testing::Cpus(cpus);
    config.costs = {.lock_ns = 0, .context_switch_ns = 0, .wake_ns = 0, .wake_latency_ns = 0};
    config.bind = false;
    return config;
  }
  RunResult Run(std::function<void()> body) {
    machine.engine.Spawn({.name = "disk", .daemon = true}, [this] { disk.Run(); });
    machine.engine.Spawn({.name = "submitter"}, std::move(body));
    return machine.engine.Run();
  }
  struct Done {
    std::uint64_t sector;
    std::int64_t ns;
    friend bool operator==(const Done&, const Done&) = default;
  };

  testing::Machine machine;
  MmCosts costs;
  Disk disk;
  std::vector<Done> done;
  std::atomic<int> released_below_off{0};
};

TEST_CASE("Disk: a request takes positioning unless it continues the last one, and its transfer",
          "[mm]") {
  DiskMachine m;
  m.Run([&] {
    m.disk.Submit(kWrite, 500, 1);
    SleepFor(kMillisecond * 100);  // served alone: 8 ms + 40.96 us
    m.disk.Submit(kWrite, 501, 2);
    SleepFor(kMillisecond * 100);  // at 100 ms, continues: 40.96 us
    m.disk.Submit(kRead, 900, 3);  // at 200 ms: 8.04096 ms, and meanwhile
    m.disk.Submit(kWrite, 700, 4);
    m.disk.Submit(kWrite, 701, 5);  // merged into one of two pages: 8 ms + 81.92 us
    SleepFor(kMillisecond * 100);
  });
  REQUIRE(m.done.size() == 5);
  CHECK(m.done[0] == DiskMachine::Done{500, 8'040'960});
  CHECK(m.done[1] == DiskMachine::Done{501, 100'040'960});
  CHECK(m.done[2] == DiskMachine::Done{900, 208'040'960});
  CHECK(m.done[3] == DiskMachine::Done{700, 216'122'880});
  CHECK(m.done[4] == DiskMachine::Done{701, 216'122'880});
  const BlockDevice::Counts counts = m.disk.counts();
  CHECK(counts.requests == 4);
  CHECK(counts.pages == 5);
  CHECK(counts.seeks == 3);
  CHECK(counts.busy.n == 3 * 8'000'000 + 5 * 40'960);
}

// Mutations tried, all red: congestion on at 112, off at 104, no wake in Release (the run hangs).
TEST_CASE("Disk: is congested from 113 requests until 102 are left, and full at 128", "[mm]") {
  DiskMachine m;
  int submitted = 0;
  std::int64_t slept_until = 0;
  std::int64_t asleep = 0;
  m.machine.engine.Spawn({.name = "second"}, [&] {
    SleepFor(kMicrosecond * 10);
    CHECK(submitted == 128);
    m.disk.Submit(kWrite, 9000, 0);  // the 129th, of another task
    slept_until = Now().n;
  });
  m.Run([&] {
    // Far apart, so that nothing merges; the first is being served, and still outstanding.
    for (; submitted < 128; ++submitted) {
      CHECK(m.disk.Congested(kWrite) == (submitted >= 113));
      m.disk.Submit(kWrite, static_cast<std::uint64_t>(10 + 10 * submitted), 0);
    }
    CHECK(m.disk.InFlight(kWrite) == 128);
    CHECK_FALSE(m.disk.Congested(kRead));
    SleepFor(kMicrosecond * 20);
    asleep = m.disk.InFlight(kWrite);
    std::size_t uncongested_at = 0;
    while (m.done.size() < 129) {
      if (uncongested_at == 0 && !m.disk.Congested(kWrite)) uncongested_at = m.done.size();
      SleepFor(kMicrosecond * 100);
    }
    // 129 were submitted; off below 103: when 102 are left, 27 are done.
    CHECK(uncongested_at == 27);
  });
  CHECK(asleep == 128);
  CHECK(slept_until == 8'040'960);  // the first request is done: woken
  CHECK(m.released_below_off == 129 - 26);
}

TEST_CASE("Disk: who has slept for a request may take 32 beyond the pool", "[mm]") {
  DiskMachine m;
  std::int64_t most = 0;
  for (int task = 0; task < 2; ++task) {
    m.machine.engine.Spawn({.name = "writer"}, [&, task] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        m.disk.Submit(kWrite, static_cast<std::uint64_t>(task) * 100'000 + 10 * i, 0);
        most = std::max(most, m.disk.InFlight(kWrite));
      }
    });
  }
  m.Run([&] { SleepFor(kSecond * 5); });
  CHECK(most > 128);
  CHECK(most <= 192);
  CHECK(m.done.size() == 400);
}

TEST_CASE("Disk: a shutdown completes what is queued, and what comes later at once", "[mm]") {
  DiskMachine m;
  m.Run([&] {
    for (std::uint64_t i = 0; i < 50; ++i) m.disk.Submit(kWrite, 10 * i, 0);
  });
  CHECK(m.done.size() == 50);
  CHECK(m.disk.InFlight(kWrite) == 0);
}

}  // namespace
}  // namespace pagestorm::mm
