#include "core/shared_line.h"

#include <sched.h>

#include <algorithm>

namespace pagestorm {

void SharedLine::Pay() {
  Charge({engine_.config().costs.rmw_ns});  // everyone whose clock is behind goes first
  Task& task = Current();
  Cpu& cpu = *task.cpu;
  std::int64_t cost =
      last_cpu_ == cpu.id || last_cpu_ == kNoCpu ? 0 : engine_.TransferNs(last_cpu_, cpu.id);
  ++stats_.acquisitions;
  if (free_at_ > cpu.clock) {
    cost += free_at_ - cpu.clock;
    ++stats_.contentions;
    stats_.wait_ns += cost;
    stats_.wait_ns_max = std::max(stats_.wait_ns_max, cost);
    if (task.in_window) stats_.window_wait_ns += cost;
  }
  task.stime += cost;
  cpu.clock += cost;  // as a contended lock does: others look at it at the next charge
  last_cpu_ = cpu.id;
  free_at_ = cpu.clock;
}

void Pause::Once() {
  constexpr std::int64_t kSpins = 100;
  ++count_;
  Engine& engine = CurrentEngine();
  Charge({std::max<std::int64_t>(1, engine.config().costs.lock_ns)});
  if (engine.kind() == EngineKind::kVirtual) return;
  CpuRelax();
  if (count_ % kSpins == 0) sched_yield();
}

}  // namespace pagestorm
