#include "bench/emulator/process.h"

#include "bench/emulator/emulator.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

// Runs `main` on a small machine, under the engine that the test generates, and returns how it
// went; the machine must be whole afterwards. `main` and what it forks write their own variables
// only: Catch2's macros are used by one task at a time.
MachineOutcome RunMain(const std::function<void(Process&)>& main, std::vector<Setting> sets = {}) {
  const std::string engine = GENERATE("virtual", "threads");
  CAPTURE(engine);
  sets.push_back({"--engine", "engine.kind=" + engine});
  auto booted = Emulator::Boot(SmallRun(std::move(sets)));
  INFO(booted.status().message());
  REQUIRE(booted.ok());
  MachineOutcome outcome = (*booted)->Run("main", main);
  CHECK(outcome.broken == "");
  CHECK((*booted)->memory().spaces->live() == 0);
  return outcome;
}

TEST_CASE("Process: a child has a copy of its parent's memory, and writes change its own alone",
          "[bench][process][threads]") {
  std::uint64_t child_saw = 0;
  std::uint64_t parent_saw = 0;
  const MachineOutcome outcome = RunMain([&](Process& self) {
    const std::uint32_t page = self.MapAnon(4);
    self.Write(page, 11);
    self.Fork("child", {}, [&, page](Process& child) {
      child_saw = child.Read(page);
      child.Write(page, 22);
    });
    CHECK(self.WaitChild());
    parent_saw = self.Read(page);
  });
  CHECK(outcome.main == ProcessTable::MainEnd::kNormal);
  CHECK(child_saw == 11);
  CHECK(parent_saw == 11);
}

TEST_CASE("Process: threads share memory", "[bench][process][threads]") {
  std::uint64_t saw = 0;
  RunMain([&](Process& self) {
    const std::uint32_t page = self.MapAnon(1);
    self.Fork(
        "thread", {}, [page](Process& thread) { thread.Write(page, 33); }, CloneKind::kThread);
    CHECK(self.WaitChild());
    saw = self.Read(page);
  });
  CHECK(saw == 33);
}

TEST_CASE("Process: a killed child is reaped as abnormal, others as normal",
          "[bench][process][threads]") {
  int normal = 0;
  int abnormal = 0;
  RunMain([&](Process& self) {
    normal = abnormal = 0;
    self.Fork("sleeper", {}, [](Process&) {
      for (;;) {
        SleepFor(kMillisecond);
        ReturnToUser();
      }
    });
    SleepFor(5 * kMillisecond);
    self.KillChildren();
    self.Fork("quick", {}, [](Process&) {});
    while (self.children() > 0) ++(self.WaitChild() ? normal : abnormal);
  });
  CHECK(normal == 1);
  CHECK(abnormal == 1);
}

TEST_CASE("Process: a child killed right after the fork dies, whether it has started or not",
          "[bench][process][threads]") {
  bool reaped_as_normal = true;
  RunMain([&](Process& self) {
    self.Fork("late", {}, [](Process&) {
      for (;;) {
        SleepFor(kMillisecond);
        ReturnToUser();
      }
    });
    self.KillChildren();
    reaped_as_normal = self.WaitChild();
  });
  CHECK_FALSE(reaped_as_normal);
}

TEST_CASE("Process: init adopts orphans, and the machine runs until they end",
          "[bench][process][threads]") {
  bool orphan_ended = false;
  const MachineOutcome outcome = RunMain([&](Process& self) {
    self.Fork("orphan", {}, [&](Process&) {
      SleepFor(50 * kMillisecond);
      orphan_ended = true;
    });
  });
  CHECK(orphan_ended);
  CHECK(outcome.main == ProcessTable::MainEnd::kNormal);
  CHECK(outcome.run.emulated.n >= 50 * kMillisecond.n);
}

TEST_CASE("Process: background daemons of the machine neither end nor delay a run",
          "[bench][process][threads]") {
  const MachineOutcome outcome =
      RunMain([](Process&) { SleepFor(200 * kMillisecond); },
              {{"--set", "nuisance.daemons=3"}, {"--set", "nuisance.daemon_period_ns=20000000"}});
  CHECK(outcome.run.end == RunEnd::kDone);
  CHECK(outcome.times.user.n + outcome.times.system.n > 0);
}

}  // namespace
}  // namespace pagestorm::bench
