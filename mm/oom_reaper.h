// 4.6's OOM reaper: a kernel thread that takes the anonymous memory of an OOM victim away while the
// victim itself cannot run, since it waits for a lock or for memory.
//
// It tries 10 times, HZ/10 apart, since somebody may hold the victim's mmap_sem for writing. In any
// case the victim's space is then marked, so that the killer need not wait for it and may choose
// another. Thread-safe. Source: spec throttle-2.6.26 5.5.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "core/raw_lock.h"
#include "core/sleep_lock.h"
#include "core/wait_queue.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

struct MmStruct;

class OomReaper {
 public:
  // pin: the space of a registered task, kept from going away until AddressSpaces::Destroy() is
  // called for it; nullptr: the task has left it. oom_lock: held while a victim is reaped.
  OomReaper(MemoryManager& mm, SleepMutex& oom_lock, std::function<MmStruct*(TaskId)> pin);

  // A victim was chosen. May be called under a spin lock.
  void Queue(TaskId victim, std::string comm);
  // The task's life.
  [[noreturn]] void Run();

  static constexpr int kRetries = 10;
  static constexpr Ns kBetween{kSecond.n / 10};

 private:
  struct Victim {
    TaskId id;
    std::string comm;
  };
  class Pinned;

  [[nodiscard]] bool Take(Victim& victim);
  void Reap(const Victim& victim);
  // Whether there is nothing more to do.
  [[nodiscard]] bool TryOnce(const Victim& victim, MmStruct& space);

  MemoryManager& mm_;
  SleepMutex& oom_lock_;
  const std::function<MmStruct*(TaskId)> pin_;
  RawLock mu_;
  std::deque<Victim> victims_;  // mu_
  WaitQueue work_;
};

}  // namespace pagestorm::mm
