// A task of the emulated machine: a fiber with a scheduling state.
//
// Tasks are created by Engine::Spawn and owned by the engine; a Task's address is stable until the
// engine reports its exit. What sched/ and mm/ keep for a task hangs from `sched` and `mm`; core
// never looks into either.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/check.h"
#include "core/fiber.h"
#include "core/lock_rank.h"
#include "core/units.h"

namespace pagestorm {

struct Cpu;
class WaitQueue;

inline constexpr std::size_t kMaxCpus = 1000;  // contexts of a machine: CPUs and service CPUs
using CpuMask = std::bitset<kMaxCpus>;

enum class TaskState : std::uint8_t {
  kNew,       // created, not yet on a run queue
  kRunnable,  // on a run queue
  kRunning,   // on a CPU
  kSleeping,  // has announced that it will sleep; still on its CPU
  kSlept,     // context saved; a wake puts it on a run queue
  kDead,      // body finished; the fiber is being recycled
};
[[nodiscard]] constexpr bool CanMove(TaskState from, TaskState to) {
  switch (from) {
    case TaskState::kNew:
      return to == TaskState::kRunnable;
    case TaskState::kRunnable:
      return to == TaskState::kRunning;
    case TaskState::kRunning:
      return to == TaskState::kRunnable || to == TaskState::kSleeping || to == TaskState::kDead;
    case TaskState::kSleeping:
      return to == TaskState::kSlept || to == TaskState::kRunning;
    case TaskState::kSlept:
      return to == TaskState::kRunnable;
    case TaskState::kDead:
      return false;
  }
  return false;
}

enum class SleepTimer : std::uint8_t { kNone, kHousekeeping, kProgress };

// Thrown out of a blocking call, CondResched() or ReturnToUser() when the machine shuts down or the
// task was killed; unwinds the task's stack to its entry. The only exception that crosses folders.
// Nothing may block in a destructor or a catch block that runs because of it.
struct Cancelled {};

// Task::flags, the kernel's names and values (spec throttle-2.6.26 2.3). Written by the task
// itself.
inline constexpr std::uint32_t PF_EXITING = 0x4;
inline constexpr std::uint32_t PF_RECLAIMING = 0x80;
inline constexpr std::uint32_t PF_MEMALLOC = 0x800;
inline constexpr std::uint32_t PF_KSWAPD = 0x40000;
inline constexpr std::uint32_t PF_SWAPWRITE = 0x800000;

// The first cache line holds what every switch and charge touches.
struct alignas(64) Task {
  Cpu* cpu = nullptr;  // where it runs or last ran; reload after any call that may switch
  OwnedCounter stime;  // ns charged in the kernel
  OwnedCounter utime;  // ns charged in user mode
  TaskId id;
  std::uint32_t flags = 0;
  std::atomic<TaskState> state{TaskState::kNew};
  // SIGKILL is pending (with TIF_MEMDIE in `memdie` when the OOM killer sent it). Set by anyone.
  std::atomic<bool> fatal_signal{false};
  std::atomic<bool> memdie{false};
  bool daemon = false;                     // does not keep the machine running
  std::atomic<bool> interruptible{false};  // the present sleep ends when fatal_signal is set
  bool cancelling = false;  // Cancelled has been thrown; a second one would terminate
  bool in_window = false;   // its waits for spin locks also count in LockStats::window_wait_ns
  std::uint8_t held_count = 0;
  FiberContext fiber;               // engine-private; its first 24 bytes end the cache line
  std::array<LockRank, 10> held{};  // ranks of the spin locks held, in order

  std::uint64_t switches_voluntary = 0;
  std::uint64_t switches_involuntary = 0;

  void* sched = nullptr;  // sched/'s entity
  void* mm = nullptr;     // mm/'s part of the task

  // For the wait-for report: what the task sleeps on, and who is known to hold it.
  const WaitQueue* waiting_on = nullptr;
  TaskId waiting_for;  // 0: unknown

  CpuMask allowed;   // CPUs it may run on; service CPUs only when named here
  std::string name;  // comm: at most 15 characters are shown
  int nice = 0;
  std::int64_t start_ns = 0;  // emulated time of creation

  // Engine-private from here on.
  void* stack = nullptr;
  std::function<void()> body;
  OwnedCounter wait_generation;  // a timer of an earlier sleep is stale
  bool timer_armed = false;      // virtual engine
  bool timer_housekeeping = false;
  std::atomic<SleepTimer> sleep_timer{SleepTimer::kNone};  // threads engine
  std::int64_t left_at = 0;  // threads engine: clock of the CPU it last left
};

inline void SetState(Task& task, TaskState to) {
  PS_CHECK(CanMove(task.state.load(std::memory_order_relaxed), to), task.name);
  task.state.store(to, std::memory_order_release);
}

}  // namespace pagestorm
