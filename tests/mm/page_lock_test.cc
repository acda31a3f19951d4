#include "mm/page_lock.h"

#include <catch2/catch.hpp>

#include "core/fifo_scheduler.h"
#include "core/make_engine.h"

namespace pagestorm::mm {
namespace {

struct LockMachine {
  explicit LockMachine(EngineKind kind, int cpus = 4)
      : scheduler(kind, kMillisecond), engine(MakeEngine(kind, Config(cpus), scheduler)) {
    REQUIRE(frames.Map(64, {}));
    locks = std::make_unique<PageLocks>(*engine, frames);
  }
  static EngineConfig Config(int cpus) {
    EngineConfig config;
    for (int i = 0; i < cpus; ++i) config.cpus.push_back({.node = {0}});
    config.bind = false;
    return config;
  }
  FifoScheduler scheduler;
  std::unique_ptr<Engine> engine;
  FrameTable frames;
  std::unique_ptr<PageLocks> locks;
};

// Mutations tried: ClearAndWake without the wake (stall), Lock without announcing kPageWaiters
// (stall), Trylock that always succeeds (both inside at once).
TEST_CASE("PageLocks: one task at a time holds a page's lock, on both engines", "[mm][threads]") {
  const EngineKind kind = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  LockMachine machine(kind);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  int unguarded = 0;
  for (int t = 0; t < 8; ++t) {
    machine.engine->Spawn({.name = "locker"}, [&] {
      for (int i = 0; i < 50; ++i) {
        PageLockGuard guard(*machine.locks, 5);
        const int now = inside.fetch_add(1) + 1;
        if (now > most.load()) most.store(now);
        ++unguarded;
        if (i % 8 == 0) SleepFor({20'000});
        Charge({500});
        inside.fetch_sub(1);
      }
    });
  }
  CHECK(machine.engine->Run().end == RunEnd::kDone);
  CHECK(most.load() == 1);
  CHECK(unguarded == 400);
  CHECK_FALSE(machine.frames[5].Test(kPageLocked));
}

TEST_CASE("PageLocks: the locks of different pages are independent", "[mm]") {
  LockMachine machine(EngineKind::kVirtual);
  machine.engine->Spawn({.name = "t"}, [&] {
    CHECK(machine.locks->Trylock(1));
    CHECK_FALSE(machine.locks->Trylock(1));
    for (FrameNo n = 2; n < 64; ++n) CHECK(machine.locks->Trylock(n));
    for (FrameNo n = 1; n < 64; ++n) machine.locks->Unlock(n);
  });
  CHECK(machine.engine->Run().end == RunEnd::kDone);
}

// Mutation tried: EndWriteback that leaves the bit (stall).
TEST_CASE("PageLocks: the end of writeback wakes who waits for it, and only then", "[mm]") {
  LockMachine machine(EngineKind::kVirtual);
  machine.frames[9].Set(kPageWriteback);
  std::int64_t woke_at = 0;
  machine.engine->Spawn({.name = "waiter"}, [&] {
    machine.locks->WaitOnWriteback(9);
    woke_at = Now().n;
  });
  machine.engine->Spawn({.name = "device"}, [&] {
    SleepFor({3'000'000});
    machine.locks->EndWriteback(9);
  });
  CHECK(machine.engine->Run().end == RunEnd::kDone);
  CHECK(woke_at >= 3'000'000);
  CHECK(woke_at < 4'000'000);
}

TEST_CASE("PageLocks: another task may unlock, as I/O completion does", "[mm]") {
  LockMachine machine(EngineKind::kVirtual);
  bool locked = false;
  machine.engine->Spawn({.name = "reader"}, [&] {
    PageLockGuard guard(*machine.locks, 3);
    guard.Release();  // handed to the device
    machine.engine->Spawn({.name = "device"}, [&] {
      SleepFor({1000});
      machine.locks->Unlock(3);
    });
    machine.locks->Lock(3);
    locked = true;
    machine.locks->Unlock(3);
  });
  CHECK(machine.engine->Run().end == RunEnd::kDone);
  CHECK(locked);
}

TEST_CASE("PageLocks: a page lock that is never released is a stall that the report names",
          "[mm]") {
  LockMachine machine(EngineKind::kVirtual);
  machine.engine->Spawn({.name = "holder"}, [&] { CHECK(machine.locks->Trylock(4)); });
  machine.engine->Spawn({.name = "victim"}, [&] {
    SleepFor({1000});
    machine.locks->Lock(4);
  });
  const RunResult result = machine.engine->Run();
  CHECK(result.end == RunEnd::kStalled);
  CHECK(result.stall_report.find("page lock") != std::string::npos);
}

}  // namespace
}  // namespace pagestorm::mm
