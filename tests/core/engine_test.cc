// What both engines promise, checked on both.
#include "core/engine.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/sleep_lock.h"
#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "core/winner_tree.h"
#include "tests/support/machine.h"

namespace pagestorm {
namespace {

using testing::Cpus;
using testing::Machine;

EngineKind BothEngines() {
  const EngineKind kind = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  UNSCOPED_INFO((kind == EngineKind::kVirtual ? "virtual engine" : "threads engine"));
  return kind;
}

TEST_CASE("Engine: a spin lock makes read-modify-write exact on every CPU", "[core][engine]") {
  const EngineKind kind = BothEngines();
  EngineConfig config = Cpus(4);
  if (kind == EngineKind::kVirtual) config.sync_in_cs = GENERATE(false, true);
  Machine machine(kind, config, {50'000});
  SpinLock lock(machine.engine, LockRank::kLru, "test lock");
  std::int64_t sum = 0;
  for (int i = 0; i < 8; ++i) {
    machine.engine.Spawn({.name = "adder"}, [&] {
      for (int k = 0; k < 500; ++k) {
        {
          SpinGuard guard(lock);
          const std::int64_t seen = sum;
          Charge({100});
          sum = seen + 1;
        }
        ChargeUser({400});
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(sum == 4000);
  CHECK(lock.stats().acquisitions == 4000);
  CHECK(lock.stats().hold_ns >= 400'000);
  CHECK(lock.stats().hold_ns_max >= 100);
  CHECK(lock.stats().contentions <= 4000);
}

TEST_CASE("Engine: try_lock takes a free lock and refuses a held one", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(1));
  SpinLock lock(machine.engine, LockRank::kLru, "test lock");
  bool free = false;
  machine.engine.Spawn({.name = "t"}, [&] {
    if (lock.try_lock()) {
      free = true;
      lock.unlock();
    }
    lock.lock();
    lock.unlock();
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(free);
  CHECK(lock.stats().acquisitions == 2);
}

TEST_CASE("Engine: time passes at least as charged and never runs backwards", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(2), {100'000});
  bool backwards = false;
  std::int64_t elapsed = 0;
  for (int i = 0; i < 4; ++i) {
    machine.engine.Spawn({.name = "t"}, [&, i] {
      const std::int64_t start = Now().n;
      std::int64_t last = start;
      for (int k = 0; k < 200; ++k) {
        if (k % 3 == 0) {
          ChargeUser({7'000});
        } else if (k % 3 == 1) {
          Charge({7'000});
        } else {
          SleepFor({7'000});
        }
        if (Now().n < last + 7'000) backwards = true;
        last = Now().n;
      }
      if (i == 0) elapsed = last - start;
    });
  }
  const RunResult result = machine.engine.Run();
  CHECK_FALSE(backwards);
  CHECK(elapsed >= 200 * 7'000);
  CHECK(result.emulated.n >= elapsed);
  CHECK(machine.engine.Times().user.n == 4 * 67 * 7'000);
  CHECK(machine.engine.Times().system.n >= 4 * 67 * 7'000);
}

// Mutation tried, red: daemons' time not told apart.
TEST_CASE("Engine: a load's system time leaves out what daemons took", "[core]") {
  Machine machine(BothEngines(), Cpus(2));
  WaitQueue queue(machine.engine, "the daemon's work");
  std::atomic<bool> done{false};
  machine.engine.Spawn({.name = "kswapd", .daemon = true}, [&] {
    Charge({200'000'000});
    done.store(true);
    queue.WakeAll();
    for (;;) SleepForHousekeeping(kSecond);
  });
  machine.engine.Spawn({.name = "load"}, [&] {
    Charge({1'000'000});
    queue.Wait([&] { return done.load(); });
  });
  machine.engine.Run();
  const Engine::CpuTimes times = machine.engine.Times();
  CHECK(times.daemon_system.n >= 200'000'000);
  CHECK(times.load_system().n >= 1'000'000);
  CHECK(times.load_system().n < 100'000'000);
  CHECK(times.load_system() + times.daemon_system == times.system);
}

TEST_CASE("Engine: waiting for what nobody will do is a stall with a wait-for report",
          "[core][engine]") {
  Machine machine(BothEngines(), Cpus(2));
  WaitQueue never(machine.engine, "a wake that never comes", 3);
  SleepMutex mutex(machine.engine, "the big mutex");
  machine.engine.AddStallReporter([] { return "  the disk is idle\n"; });
  bool mutex_taken = false;
  machine.engine.Spawn({.name = "holder"}, [&] {
    SleepGuard guard(mutex);
    mutex_taken = true;
    never.Wait([] { return false; });
  });
  machine.engine.Spawn({.name = "victim"}, [&] {
    SleepFor({5'000'000});  // until the holder has it
    SleepGuard guard(mutex);
  });
  // A periodic daemon must not hide the stall.
  machine.engine.Spawn({.name = "vmstat", .daemon = true}, [&] {
    for (;;) SleepForHousekeeping(10 * kMillisecond);
  });
  const RunResult result = machine.engine.Run();
  CHECK(mutex_taken);
  CHECK(result.end == RunEnd::kStalled);
  CAPTURE(result.stall_report);
  CHECK(result.stall_report.find("1 wait on a wake that never comes 3: holder-1") !=
        std::string::npos);
  CHECK(result.stall_report.find("victim-2 (held by task 1)") != std::string::npos);
  CHECK(result.stall_report.find("the disk is idle") != std::string::npos);
  CHECK(machine.engine.live_tasks() == 0);
}

TEST_CASE("Engine: daemons that only nap do not keep a hung machine alive", "[core][engine]") {
  EngineConfig config = Cpus(1);
  config.stall_after = 60 * kMillisecond;
  Machine machine(BothEngines(), config);
  WaitQueue never(machine.engine, "nothing");
  machine.engine.Spawn({.name = "hung"}, [&] { never.Wait([] { return false; }); });
  machine.engine.Spawn({.name = "kswapd0", .daemon = true}, [&] {
    for (;;) SleepFor(kMillisecond);
  });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kStalled);
  CHECK(result.stall_report.find("hung-1") != std::string::npos);
  CHECK(result.emulated >= Ns{0});
}

TEST_CASE("Engine: a foreground task that sleeps on a timer is no stall", "[core][engine]") {
  EngineConfig config = Cpus(2);
  config.stall_after = 20 * kMillisecond;
  Machine machine(BothEngines(), config);
  machine.engine.Spawn({.name = "patient"}, [] { SleepFor(80 * kMillisecond); });
  machine.engine.Spawn({.name = "kswapd0", .daemon = true}, [&] {
    for (;;) SleepFor(kMillisecond);
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
}

TEST_CASE("Engine: the end of the last foreground task unwinds every daemon", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(2));
  WaitQueue never(machine.engine, "nothing");
  std::atomic<int> started{0};
  std::atomic<int> unwound{0};
  struct Count {
    std::atomic<int>& n;
    ~Count() { ++n; }
  };
  for (int i = 0; i < 50; ++i) {
    machine.engine.Spawn({.name = "daemon", .daemon = true}, [&, i] {
      ++started;
      Count count{unwound};
      if (i % 3 == 0) never.Wait([] { return false; });
      if (i % 3 == 1) {
        for (;;) SleepFor({100'000});
      }
      for (;;) ChargeUser({10'000});
    });
  }
  machine.engine.Spawn({.name = "main"}, [] { ChargeUser({3'000'000}); });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(unwound == started);
  CHECK(machine.engine.live_tasks() == 0);
}

TEST_CASE("Engine: a machine without foreground tasks ends at once", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(2));
  machine.engine.Spawn({.name = "daemon", .daemon = true}, [] {
    for (;;) SleepFor(kSecond);
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
}

TEST_CASE("Engine: a time limit ends the run at that time", "[core][engine]") {
  EngineConfig config = Cpus(2);
  config.time_limit = 5 * kMillisecond;
  Machine machine(BothEngines(), config);
  machine.engine.Spawn({.name = "endless"}, [] {
    for (;;) ChargeUser({10'000});
  });
  machine.engine.Spawn({.name = "sleepy"}, [] {
    for (;;) SleepFor({300});
  });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kTimeLimit);
  CHECK(result.emulated == 5 * kMillisecond);
}

// Mutations tried, red: no bound but the configured one; a CPU that runs alone not looked at.
TEST_CASE("Engine: a virtual clock that runs out ends the run as a time limit", "[core][engine]") {
  const bool alone = GENERATE(true, false);
  EngineConfig config = Cpus(2);
  config.time_limit = 1'000'000 * kSecond;
  Machine machine(EngineKind::kVirtual, config, /*slice=*/100 * kSecond);
  machine.engine.Spawn({.name = "endless"}, [] {
    for (;;) ChargeUser(10 * kSecond);
  });
  if (!alone) {
    machine.engine.Spawn({.name = "sleeps beyond"}, [] {
      SleepFor(500 * kSecond);
      SleepFor(100'000 * kSecond);
    });
  }
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kTimeLimit);
  CHECK(result.emulated.n == WinnerTree::kTimeMax);
}

TEST_CASE("Engine: a sleep beyond the end of the virtual clock ends the run there",
          "[core][engine]") {
  Machine machine(EngineKind::kVirtual, Cpus(1));
  machine.engine.Spawn({.name = "sleeper"}, [] { SleepFor(100'000 * kSecond); });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kTimeLimit);
  CHECK(result.emulated.n == WinnerTree::kTimeMax);
}

std::atomic<Engine*> signalled{nullptr};

TEST_CASE("Engine: a signal handler may stop the run", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(2));
  signalled = &machine.engine;
  const auto previous = std::signal(SIGUSR1, [](int) { signalled.load()->RequestStop(); });
  machine.engine.Spawn({.name = "endless"}, [] {
    for (;;) ChargeUser({10'000});
  });
  machine.engine.Spawn({.name = "raiser"}, [] {
    SleepFor(kMillisecond);
    std::raise(SIGUSR1);
    for (;;) SleepFor(kMillisecond);
  });
  CHECK(machine.engine.Run().end == RunEnd::kStopped);
  std::signal(SIGUSR1, previous);
}

TEST_CASE("Engine: a slice ends only at a preemption point of the kernel", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(1));
  std::string order;
  machine.engine.Spawn({.name = "kernel"}, [&] {
    Charge({3'000'000});  // past the slice, but in kernel mode
    order += 'k';
    CondResched();
    order += 'K';
  });
  machine.engine.Spawn({.name = "other"}, [&] { order += 'o'; });
  machine.engine.Run();
  CHECK(order == "koK");
}

TEST_CASE("Engine: user-mode work is preempted at the end of its slice", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(1));
  std::int64_t done[2] = {0, 0};
  std::int64_t other_at_end = 0;
  for (int i = 0; i < 2; ++i) {
    machine.engine.Spawn({.name = "worker"}, [&, i] {
      for (int k = 0; k < 10; ++k) {
        ChargeUser(kMillisecond);
        ++done[i];
      }
      if (i == 0) other_at_end = done[1];
    });
  }
  machine.engine.Run();
  CHECK(done[0] == 10);
  CHECK(done[1] == 10);
  CHECK(other_at_end >= 5);  // they took turns
}

TEST_CASE("Engine: a timer fires although a task keeps its CPU", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(1), 100 * kMillisecond);
  std::int64_t woken_at = 0;
  std::int64_t hog_ended = 0;
  machine.engine.Spawn({.name = "sleeper"}, [&] {
    SleepFor(2 * kMillisecond);
    woken_at = Now().n;
  });
  machine.engine.Spawn({.name = "hog"}, [&] {
    for (int i = 0; i < 1'000; ++i) {
      Charge({20'000});
      if (i % 10 == 0) Yield();
    }
    hog_ended = Now().n;
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(woken_at >= 2'000'000);
  CHECK(woken_at < hog_ended);
}

TEST_CASE("Engine: a killed task dies at its return to user mode", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(2));
  WaitQueue sleep(machine.engine, "an interruptible sleep");
  bool survived = false;
  Task& spinner = machine.engine.Spawn({.name = "spinner"}, [&] {
    for (int i = 0; i < 1'000'000; ++i) ChargeUser({1'000'000});
    survived = true;
  });
  Task& sleeper = machine.engine.Spawn({.name = "sleeper"}, [&] {
    sleep.Wait([] { return false; }, {.interruptible = true});
    survived = true;
  });
  machine.engine.Spawn({.name = "killer"}, [&] {
    SleepFor(kMillisecond);
    CurrentEngine().Kill(spinner, false);
    CurrentEngine().Kill(sleeper, true);
  });
  const RunResult result = machine.engine.Run();
  CHECK(result.end == RunEnd::kDone);
  CHECK_FALSE(survived);
  CHECK(result.emulated < kSecond);
}

TEST_CASE("Engine: an exception is caught in the fiber that threw it, across switches",
          "[core][engine]") {
  Machine machine(BothEngines(), Cpus(3), {20'000});
  std::atomic<int> caught{0};
  std::atomic<int> wrong{0};
  for (int i = 0; i < 40; ++i) {
    machine.engine.Spawn({.name = "thrower"}, [&, i] {
      struct Sleeper {  // switches away between the frames of a nested call
        int depth;
        void Go(int who) const {
          SleepFor({1'000 + 100 * who});
          if (depth == 0) throw std::runtime_error(std::to_string(who));
          Sleeper{depth - 1}.Go(who);
        }
      };
      for (int k = 0; k < 20; ++k) {
        try {
          Sleeper{3}.Go(i);
        } catch (const std::runtime_error& error) {
          ++caught;
          if (error.what() != std::to_string(i)) ++wrong;
        }
        SleepFor({500});
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(caught == 800);
  CHECK(wrong == 0);
}

TEST_CASE("Engine: tasks create tasks, also pinned ones", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(4));
  std::atomic<int> ran{0};
  std::atomic<int> astray{0};
  machine.engine.Spawn({.name = "parent"}, [&] {
    for (int i = 0; i < 100; ++i) {
      CpuMask only;
      only.set(static_cast<std::size_t>(i % 4));
      CurrentEngine().Spawn({.name = "child", .allowed = only}, [&, i] {
        for (int k = 0; k < 5; ++k) {
          if (CurrentCpu().id.n != i % 4) ++astray;
          SleepFor({1'000});
        }
        ++ran;
      });
    }
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(ran == 100);
  CHECK(astray == 0);
}

TEST_CASE("WaitQueue: a condition with a side effect succeeds exactly once a waiter",
          "[core][engine]") {
  Machine machine(BothEngines(), Cpus(4));
  WaitQueue queue(machine.engine, "tickets");
  std::atomic<int> tickets{0};
  std::atomic<int> taken{0};
  const auto take = [&] {
    int seen = tickets.load();
    while (seen > 0) {
      if (tickets.compare_exchange_weak(seen, seen - 1)) {
        ++taken;
        return true;
      }
    }
    return false;
  };
  constexpr int kRounds = 20;
  for (int i = 0; i < 120; ++i) {
    machine.engine.Spawn({.name = "taker"}, [&, i] {
      for (int k = 0; k < kRounds; ++k) queue.Wait(take, {.exclusive = i % 2 == 0});
    });
  }
  machine.engine.Spawn({.name = "giver"}, [&] {
    for (int i = 0; i < 120 * kRounds; ++i) {
      ++tickets;
      queue.WakeOne();
      if (i % 16 == 0) SleepFor({10'000});
    }
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(taken == 120 * kRounds);
  CHECK(tickets == 0);
}

TEST_CASE("WaitQueue: a wake is not lost on an exclusive waiter whose time is up",
          "[core][engine]") {
  Machine machine(BothEngines(), Cpus(4));
  WaitQueue queue(machine.engine, "tickets");
  std::atomic<int> tickets{0};
  const auto take = [&] {
    int seen = tickets.load();
    while (seen > 0) {
      if (tickets.compare_exchange_weak(seen, seen - 1)) return true;
    }
    return false;
  };
  constexpr int kTickets = 400;
  std::atomic<int> left{kTickets};
  // Impatient waiters time out all the time; the patient ones must still get every ticket.
  for (int i = 0; i < 8; ++i) {
    machine.engine.Spawn({.name = "impatient", .daemon = true}, [&, i] {
      for (;;) {
        if (queue.WaitFor({2'000 + 500 * i}, take, {.exclusive = true})) --left;
      }
    });
  }
  for (int i = 0; i < 8; ++i) {
    machine.engine.Spawn({.name = "patient", .daemon = true}, [&] {
      for (;;) {
        queue.Wait(take, {.exclusive = true});
        --left;
      }
    });
  }
  machine.engine.Spawn({.name = "giver"}, [&] {
    for (int i = 0; i < kTickets; ++i) {
      ++tickets;
      queue.WakeOne();
      Charge({1'500});
    }
    for (int i = 0; i < 1'000 && left > 0; ++i) SleepFor(kMillisecond);
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(left == 0);
}

TEST_CASE("WaitQueue: a timeout is told from a wake by the condition", "[core][engine]") {
  const EngineKind kind = BothEngines();
  Machine machine(kind, Cpus(1));
  WaitQueue queue(machine.engine, "q");
  bool met = true;
  bool woken = true;
  std::int64_t waited = 0;
  machine.engine.Spawn({.name = "waiter"}, [&] {
    const Ns start = Now();
    met = queue.WaitFor({250'000}, [] { return false; });
    waited = (Now() - start).n;
    woken = queue.WaitForWake({100'000});
  });
  machine.engine.Run();
  CHECK_FALSE(met);
  CHECK_FALSE(woken);
  CHECK(waited >= 250'000);
  if (kind == EngineKind::kVirtual) CHECK(waited < 260'000);
}

TEST_CASE("WaitQueue: the oldest or the newest waiter alone is woken", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(1));
  WaitQueue queue(machine.engine, "q");
  std::string order;
  for (int i = 0; i < 3; ++i) {
    machine.engine.Spawn({.name = "waiter"}, [&, i] {
      queue.WaitForWake({kNever});
      order += static_cast<char>('0' + i);
    });
  }
  machine.engine.Spawn({.name = "waker"}, [&] {
    while (queue.WaitersRacy() < 3) SleepFor(kMillisecond);
    queue.WakeOldest();
    SleepFor(kMillisecond);
    queue.WakeNewest();
    SleepFor(kMillisecond);
    CHECK(queue.WakeOldest());
    CHECK_FALSE(queue.WakeOldest());
  });
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(order == "021");
}

TEST_CASE("SleepMutex: one holder at a time, whatever the engine", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(4), {100'000});
  SleepMutex mutex(machine.engine, "mutex");
  int inside = 0;
  int most = 0;
  int sum = 0;
  for (int i = 0; i < 20; ++i) {
    machine.engine.Spawn({.name = "t"}, [&] {
      for (int k = 0; k < 30; ++k) {
        SleepGuard guard(mutex);
        most = std::max(most, ++inside);
        ++sum;
        if (k % 4 == 0) SleepFor({3'000});
        Charge({300});
        CondResched();
        --inside;
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(most == 1);
  CHECK(sum == 600);
}

TEST_CASE("RwSem: readers share, a writer is alone and is not starved", "[core][engine]") {
  Machine machine(BothEngines(), Cpus(4), {100'000});
  RwSem sem(machine.engine, "mmap_sem");
  std::atomic<int> readers{0};
  std::atomic<int> writers{0};
  std::atomic<int> most_readers{0};
  std::atomic<int> violations{0};
  int written = 0;
  for (int i = 0; i < 12; ++i) {
    machine.engine.Spawn({.name = "reader"}, [&] {
      for (int k = 0; k < 40; ++k) {
        sem.lock_shared();
        const int now = ++readers;
        if (now > most_readers) most_readers = now;
        if (writers > 0) ++violations;
        SleepFor({4'000});
        --readers;
        sem.unlock_shared();
      }
    });
  }
  for (int i = 0; i < 4; ++i) {
    machine.engine.Spawn({.name = "writer"}, [&] {
      for (int k = 0; k < 20; ++k) {
        sem.lock();
        if (++writers > 1 || readers > 0) ++violations;
        ++written;
        Charge({500});
        --writers;
        sem.unlock();
        SleepFor({2'000});
      }
    });
  }
  CHECK(machine.engine.Run().end == RunEnd::kDone);
  CHECK(violations == 0);
  CHECK(written == 80);
  CHECK(most_readers > 1);
}

}  // namespace
}  // namespace pagestorm
