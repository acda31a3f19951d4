#include "mm/oom_reaper.h"

#include <catch2/catch.hpp>
#include <string>

#include "mm/mm_struct.h"
#include "tests/support/swap_machine.h"

namespace pagestorm::mm {
namespace {

using testing::SwapMachine;
using testing::SwapMachineOptions;

SwapMachineOptions WithReaper(bool reaper = true) {
  SwapMachineOptions options;
  options.policy.oom.reaper = reaper;
  return options;
}

// A machine with a task of 500 pages that waits, deaf to signals, for a lock which the test holds.
class StuckVictim : public SwapMachine {
 public:
  explicit StuckVictim(const SwapMachineOptions& options)
      : SwapMachine(options), inode(engine, "inode") {
    Spawn("main", [this](TaskMm& self) {
      self.is_init = true;
      {
        SleepGuard guard(inode);
        Task& victim = Spawn("victim", [this](TaskMm& part) {
          space = part.space;
          const std::uint32_t first = mm.spaces->MapAnon(*part.space, kPages);
          for (std::uint32_t i = 0; i < kPages; ++i) {
            CHECK(mm.spaces->Write(*part.space, first + i, i + 1) == AccessResult::kOk);
          }
          SleepGuard stuck(inode);
        });
        victim_id = victim.id.n;
        SleepFor(kSecond);
        REQUIRE(Rss() == kPages);
        body();
      }
    });
  }
  void Kill() { mm.oom->OutOfMemory(mm.allocator->ZonelistFor(GFP_KERNEL, 0), GFP_KERNEL, 0); }
  [[nodiscard]] std::int64_t Rss() const { return space->rss.load(); }
  [[nodiscard]] bool DmesgHas(const std::string& text) const {
    return mm.dmesg->Text().find(text) != std::string::npos;
  }

  static constexpr std::uint32_t kPages = 500;
  SleepMutex inode;
  MmStruct* space = nullptr;
  std::int32_t victim_id = 0;
  std::function<void()> body;  // by the holder of the lock
};

// Mutations tried, red: the victim not queued; its pages not zapped; the line not printed.
TEST_CASE("OomReaper: takes the pages of a victim that cannot run", "[mm][oom][spec:throttle-47]") {
  StuckVictim machine(WithReaper());
  machine.body = [&] {
    machine.Kill();
    SleepFor(kSecond / 10);
    CHECK(machine.Rss() == 0);  // and it still waits for the lock
    CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
    CHECK(machine.DmesgHas("oom_reaper: reaped process " + std::to_string(machine.victim_id) +
                           " (victim), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n"));
    CHECK(machine.mm.spaces->SkippedForOom(*machine.space));
  };
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.oom->kills() == 1);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("OomReaper: without one a stuck victim keeps its pages and the killer waits for it",
          "[mm][oom]") {
  StuckVictim machine(WithReaper(false));
  machine.body = [&] {
    machine.Spawn("other", [&](TaskMm& part) {
      machine.mm.spaces->MapAnon(*part.space, 10);
      SleepFor(kSecond * 4);
    });
    machine.Kill();
    SleepFor(kSecond * 2);
    machine.Kill();
    CHECK(machine.Rss() == StuckVictim::kPages);
  };
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.oom->kills() == 1);
}

// Somebody has the victim's mmap_sem for writing. Ten attempts at 0, 100, ... 900 ms. Mutations
// tried, red: nine attempts and eleven; the space not marked afterwards; the mark not asked by the
// selection (the second kill waits).
TEST_CASE("OomReaper: tries ten times, then the killer may choose another victim",
          "[mm][oom][spec:throttle-47]") {
  StuckVictim machine(WithReaper());
  machine.body = [&] {
    Task* second = &machine.Spawn("second", [&](TaskMm& part) {
      machine.mm.spaces->MapAnon(*part.space, 10);
      while (!Current().fatal_signal.load()) SleepFor(kSecond / 10);
    });
    machine.space->mmap_sem.lock();
    machine.Kill();  // sleeps a jiffy
    SleepFor(kSecond * 85 / 100);
    CHECK_FALSE(machine.mm.spaces->SkippedForOom(*machine.space));
    machine.Kill();
    CHECK(machine.mm.oom->kills() == 1);  // waits for the first victim
    SleepFor(kSecond / 10);
    CHECK(machine.mm.spaces->SkippedForOom(*machine.space));
    CHECK(machine.Rss() == StuckVictim::kPages);
    CHECK_FALSE(machine.DmesgHas("oom_reaper"));
    machine.Kill();
    CHECK(machine.mm.oom->kills() == 2);
    CHECK(second->fatal_signal.load());
    machine.space->mmap_sem.unlock();
  };
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.Wrong() == "");
}

TEST_CASE("OomReaper: an attempt follows soon after the lock is free", "[mm][oom]") {
  StuckVictim machine(WithReaper());
  machine.body = [&] {
    machine.space->mmap_sem.lock();
    machine.Kill();
    SleepFor(kSecond / 2);
    CHECK(machine.Rss() == StuckVictim::kPages);
    machine.space->mmap_sem.unlock();
    SleepFor(kSecond * 12 / 100);
    CHECK(machine.Rss() == 0);
  };
  CHECK(machine.Run().end == RunEnd::kDone);
}

// The reaper has the last use of a space whose task leaves meanwhile, or the task has; both clean
// up the same things once. Under both engines, with many victims.
TEST_CASE("OomReaper: a victim that leaves by itself meanwhile is cleaned up once", "[mm][oom]") {
  SwapMachineOptions options{.cpus = 4, .kib_per_node = 16 * 1024, .swap = 500};
  options.kind = GENERATE(EngineKind::kVirtual, EngineKind::kThreads);
  options.policy.oom.reaper = true;
  options.policy.oom.lock = OomLock::kMachine;
  options.policy.alloc.retry = AllocRetry::kSixteenRounds;
  SwapMachine machine(options);
  for (int i = 0; i < 12; ++i) {
    machine.Spawn("eater", [&](TaskMm& self) {
      const std::uint32_t first = machine.mm.spaces->MapAnon(*self.space, 900);
      for (std::uint32_t page = 0; page < 900; ++page) {
        if (machine.mm.spaces->Write(*self.space, first + page, page) != AccessResult::kOk) return;
      }
      // Keeps its pages until the others want them: a slow host runs one after the other.
      for (int naps = 0; naps < 200 && machine.mm.oom->kills() == 0; ++naps) SleepFor(kSecond / 10);
    });
  }
  CHECK(machine.Run().end == RunEnd::kDone);
  CHECK(machine.mm.oom->kills() >= 1);
  CHECK(machine.Stat(ZoneStat::kNrAnonPages) == 0);
  CHECK(machine.mm.spaces->live() == 0);
  CHECK(machine.Wrong() == "");
}

}  // namespace
}  // namespace pagestorm::mm
