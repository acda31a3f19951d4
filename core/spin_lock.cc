#include "core/spin_lock.h"

#include <algorithm>

namespace pagestorm {

LockStats& LockStats::operator+=(const LockStats& other) {
  acquisitions += other.acquisitions;
  contentions += other.contentions;
  wait_ns += other.wait_ns;
  wait_ns_max = std::max(wait_ns_max, other.wait_ns_max);
  window_wait_ns += other.window_wait_ns;
  hold_ns += other.hold_ns;
  hold_ns_max = std::max(hold_ns_max, other.hold_ns_max);
  return *this;
}

SpinLock::SpinLock(Engine& engine, LockRank rank, const char* class_name)
    : virtual_(engine.kind() == EngineKind::kVirtual),
      sync_in_cs_(engine.config().sync_in_cs),
      rank_(rank),
      lock_ns_(engine.config().costs.lock_ns),
      engine_(engine),
      class_name_(class_name) {}

std::int64_t SpinLock::TransferCost(const Cpu& cpu) const {
  return last_cpu_ == kNoCpu ? 0 : engine_.TransferNs(last_cpu_, cpu.id);
}

bool SpinLock::try_lock() {
  Task& task = Current();
  Cpu& cpu = *task.cpu;
  if (virtual_) {
    Charge({AcquireCost(cpu)});
    if (owner_ != nullptr || free_at_ > cpu.clock) return false;
    if (cpu.preempt++ == 0 && !sync_in_cs_) cpu.horizon.store(kNever, std::memory_order_relaxed);
  } else {
    ++cpu.preempt;
    std::uint32_t free = 0;
    if (!word_.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
      --cpu.preempt;
      Charge({lock_ns_});
      return false;
    }
    PayAcquisition(cpu, task);
  }
  PushRank(task);
  Acquired(task, cpu);
  return true;
}

void SpinLock::LockThreads(Cpu& cpu, Task& task) {
  ++cpu.preempt;
  std::uint32_t free = 0;
  if (!word_.compare_exchange_strong(free, 1, std::memory_order_acquire)) [[unlikely]] {
    cpu.engine->LockSlow(*this);
  }
  PayAcquisition(cpu, task);
  Acquired(task, cpu);
}

// Only now may last_cpu_ be looked at. Whether the debt is due is seen at the next charge or at
// unlock(): the way into an uncontended lock never sleeps.
void SpinLock::PayAcquisition(Cpu& cpu, Task& task) const {
  const std::int64_t cost = AcquireCost(cpu);
  task.stime += cost;
  cpu.clock += cost;
}

void SpinLock::UnlockThreads(Cpu& cpu, Task& task) {
  PopRank(task);
  if (word_.exchange(0, std::memory_order_release) == 2) [[unlikely]] {
    cpu.engine->UnlockSlow(*this);
  }
  --cpu.preempt;
  if (cpu.clock >= cpu.horizon.load(std::memory_order_relaxed)) [[unlikely]] {
    cpu.engine->ChargeSlow(cpu);
  }
}

}  // namespace pagestorm
