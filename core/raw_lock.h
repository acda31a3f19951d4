// A host lock for pagestorm's own bookkeeping: run queues, wait queues, page tables.
//
// It is not part of the emulated kernel: it costs no modelled time and appears in no statistics.
// Under the virtual engine, where one host thread runs everything, it does nothing at all. Under
// the threads engine it is an unfair test-and-set lock that spins briefly and then yields: with
// more emulated CPUs than host cores the holder may be descheduled, and a fair lock would then
// stand still. A leaf: under it no other lock is taken, nothing is charged, and no fiber switches.
// With one exception: the locks of a WaitQueue and of the table of processes are held across
// Engine::Wake(), so that who is woken cannot be gone meanwhile, and that takes a run queue's lock.
// A run queue's lock is last: under it no other is taken.
#pragma once

#include <atomic>
#include <cstdint>

namespace pagestorm {

enum class EngineKind : std::uint8_t { kVirtual, kThreads };

// Tells the host's core that this is a loop that waits. Only for locks.
void CpuRelax();

class RawLock {
 public:
  explicit RawLock(EngineKind kind) : real_(kind == EngineKind::kThreads) {}
  RawLock(const RawLock&) = delete;
  RawLock& operator=(const RawLock&) = delete;

  void lock() {
    if (!real_) return;
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      LockSlow();
  }
  [[nodiscard]] bool try_lock() {
    return !real_ || !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() {
    if (real_) held_.store(false, std::memory_order_release);
  }

 private:
  void LockSlow();

  const bool real_;
  std::atomic<bool> held_{false};
};

}  // namespace pagestorm
