// The engines under load: many fibers, many moves, many switches. Run under ThreadSanitizer, too.
#include <atomic>
#include <catch2/catch.hpp>
#include <vector>

#include "core/sleep_lock.h"
#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "tests/support/machine.h"

namespace pagestorm {
namespace {

using testing::Cpus;
using testing::Machine;

TEST_CASE("ThreadsEngine: 2,000 fibers survive 100,000 moves between threads", "[stress]") {
  EngineConfig config = Cpus(4);
  config.costs = {.lock_ns = 0, .context_switch_ns = 0, .wake_ns = 0};  // nothing to pause for
  Machine machine(EngineKind::kThreads, config, {20'000});
  std::atomic<std::int64_t> moves{0};
  std::atomic<int> wrong{0};
  constexpr int kFibers = 2'000;
  WaitQueue queue(machine.engine, "a ring");
  for (int i = 0; i < kFibers; ++i) {
    machine.engine.Spawn({.name = "mover"}, [&] {
      const Task* self = &Current();
      CpuId last = CurrentCpu().id;
      std::int64_t own = 0;
      for (int k = 0; k < 100'000 && moves.load(std::memory_order_relaxed) < 110'000; ++k) {
        // Sleeping, giving way and being woken by others, so that every kind of switch moves.
        // Its own mask sends it to the next CPU: the queues are always full and steal nothing.
        Current().allowed.reset().set(static_cast<std::size_t>((last.n + 1) % 4));
        if (k % 4 == 0) {
          Current().allowed.set();
          Yield();
        } else if (k % 4 == 1) {
          SleepFor({1'000});
        } else {
          queue.WakeOne();
          queue.WaitForWake({20'000}, {.exclusive = true});
        }
        if (&Current() != self || CurrentCpu().current() != self) ++wrong;
        if (CurrentCpu().id != last) {
          last = CurrentCpu().id;
          ++own;
          moves.fetch_add(1, std::memory_order_relaxed);
        }
      }
      if (own < 0) ++wrong;
    });
  }
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kDone);
  CHECK(moves >= 100'000);
  CHECK(wrong == 0);
}

TEST_CASE("ThreadsEngine: 6,000 fibers live at once", "[stress]") {
  Machine machine(EngineKind::kThreads, Cpus(8));
  std::atomic<int> alive{0};
  std::atomic<int> finished{0};
  WaitQueue gate(machine.engine, "the gate");
  std::atomic<bool> open{false};
  for (int i = 0; i < 6'000; ++i) {
    machine.engine.Spawn({.name = "t"}, [&] {
      ++alive;
      gate.Wait([&] { return open.load(); });
      ChargeUser({1'000});
      ++finished;
    });
  }
  machine.engine.Spawn({.name = "opener"}, [&] {
    while (alive < 6'000) SleepFor(kMillisecond);
    open = true;
    gate.WakeAll();
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(finished == 6'000);
}

TEST_CASE("ThreadsEngine: eighteen CPUs contend for locks on any host", "[stress]") {
  Machine machine(EngineKind::kThreads, Cpus(18), {100'000});
  SpinLock outer(machine.engine, LockRank::kLru, "outer");
  SpinLock inner(machine.engine, LockRank::kZone, "inner");
  SleepMutex mutex(machine.engine, "mutex");
  RwSem sem(machine.engine, "sem");
  std::int64_t spun = 0;
  std::int64_t slept = 0;
  std::int64_t written = 0;
  constexpr int kTasks = 100;
  constexpr int kRounds = 100;
  for (int i = 0; i < kTasks; ++i) {
    machine.engine.Spawn({.name = "t"}, [&] {
      for (int k = 0; k < kRounds; ++k) {
        {
          SpinGuard a(outer);
          Charge({50});
          SpinGuard b(inner);
          ++spun;
          Charge({200});
        }
        if (k % 4 == 0) {
          SleepGuard guard(mutex);
          ++slept;
          CondResched();
        }
        if (k % 10 == 0) {
          sem.lock();
          ++written;
          sem.unlock();
        } else {
          sem.lock_shared();
          Charge({100});
          CondResched();
          sem.unlock_shared();
        }
        ChargeUser({2'000});
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(spun == kTasks * kRounds);
  CHECK(slept == kTasks * kRounds / 4);
  CHECK(written == kTasks * kRounds / 10);
  CHECK(outer.stats().acquisitions == kTasks * kRounds);
}

TEST_CASE("ThreadsEngine: tokens handed over with kills, timeouts and wakes all survive",
          "[stress]") {
  // The shape of a throttle: a few tokens, many interruptible exclusive waiters, some of them
  // killed. A lost wake-up leaves a token unused and waiters asleep, which is a stall.
  for (int round = 0; round < 5; ++round) {
    Machine machine(EngineKind::kThreads, Cpus(6), {50'000});
    WaitQueue queue(machine.engine, "tokens");
    std::atomic<int> tokens{3};
    std::atomic<int> served{0};
    const auto take = [&] {
      int seen = tokens.load();
      while (seen > 0) {
        if (tokens.compare_exchange_weak(seen, seen - 1)) return true;
      }
      return false;
    };
    const auto give = [&] {
      ++tokens;
      queue.WakeOne();
    };
    std::vector<Task*> victims;
    // Victims and killer end together: a killer may only name a task that lives.
    std::atomic<int> victims_left{40};
    std::atomic<bool> killed{false};
    for (int i = 0; i < 40; ++i) {
      victims.push_back(&machine.engine.Spawn({.name = "victim"}, [&] {
        try {
          for (;;) {
            queue.Wait(take, {.exclusive = true, .interruptible = true});
            Charge({3'000});
            give();
            ReturnToUser();
          }
        } catch (const Cancelled&) {
          --victims_left;
          throw;
        }
      }));
    }
    for (int i = 0; i < 150; ++i) {
      machine.engine.Spawn({.name = "client"}, [&, i] {
        for (int k = 0; k < 10; ++k) {
          if (i % 3 == 0) {
            while (!queue.WaitFor({30'000}, take, {.exclusive = true})) {
            }
          } else {
            queue.Wait(take, {.exclusive = true});
          }
          Charge({2'000});
          ++served;
          give();
        }
      });
    }
    machine.engine.Spawn({.name = "killer"}, [&] {
      for (Task* victim : victims) {
        SleepFor({50'000});
        CurrentEngine().Kill(*victim, false);  // dies of nothing else, so it still lives here
      }
      killed = true;
    });
    const RunResult result = machine.engine.Run();
    CAPTURE(result.stall_report);
    REQUIRE(result.end == RunEnd::kDone);
    CHECK(served == 1'500);
    CHECK(tokens == 3);
    CHECK(victims_left == 0);
    CHECK(killed);
  }
}

TEST_CASE("ThreadsEngine: machines come and go, also cut short", "[stress]") {
  for (int round = 0; round < 40; ++round) {
    EngineConfig config = Cpus(1 + round % 5);
    if (round % 2 == 0) config.time_limit = {100'000 * (round + 1)};
    Machine machine(EngineKind::kThreads, config, {20'000});
    WaitQueue queue(machine.engine, "q");
    SleepMutex mutex(machine.engine, "m");
    for (int i = 0; i < 30; ++i) {
      machine.engine.Spawn({.name = "t", .daemon = i % 7 == 6}, [&, i] {
        for (int k = 0; k < 20 || i % 7 == 6; ++k) {
          {
            SleepGuard guard(mutex);
            if (i % 2 == 0) queue.WaitForWake({5'000});
            queue.WakeAll();
          }
          ChargeUser({1'000});
          if (i % 7 == 6) SleepFor({30'000});  // the mutex is unfair: let others have it
          if (k == 10) CurrentEngine().Spawn({.name = "child"}, [] { SleepFor({10'000}); });
        }
      });
    }
    const RunResult result = machine.engine.Run();
    CHECK((result.end == RunEnd::kDone || result.end == RunEnd::kTimeLimit));
    CHECK(machine.engine.live_tasks() == 0);
  }
}

}  // namespace
}  // namespace pagestorm
