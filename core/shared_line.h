// A cache line that several CPUs change by atomic read-modify-writes and no lock: what that costs
// them.
//
// Virtual engine: Own() is a synchronisation point; it then waits until the operations of those who
// came earlier are over and pays for fetching the line from the CPU that changed it last. So
// operations on one line happen one after the other, in order of arrival. What the caller does
// after Own(), up to its next charge, happens at once. Threads engine: nothing; the host's own line
// costs what it costs, and the statistics stay empty.
// Not for use under a spin lock.
#pragma once

#include <cstdint>

#include "core/engine.h"
#include "core/spin_lock.h"

namespace pagestorm {

class alignas(64) SharedLine {
 public:
  explicit SharedLine(Engine& engine)
      : virtual_(engine.kind() == EngineKind::kVirtual), engine_(engine) {}
  SharedLine(const SharedLine&) = delete;
  SharedLine& operator=(const SharedLine&) = delete;

  // Right before an atomic read-modify-write of the line, also one that may fail.
  void Own() {
    if (virtual_) Pay();
  }

  // acquisitions: operations; contentions: those that had to wait for another. No hold times.
  [[nodiscard]] const LockStats& stats() const { return stats_; }

 private:
  void Pay();

  const bool virtual_;
  CpuId last_cpu_ = kNoCpu;
  std::int64_t free_at_ = 0;  // emulated time at which the last operation is over
  LockStats stats_;
  Engine& engine_;
};

// A loop that waits until another CPU, which runs, has taken its next step. Virtual engine: lets
// emulated time pass. Threads engine: spins, then offers the host's core to others.
class Pause {
 public:
  void Once();
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
};

}  // namespace pagestorm
