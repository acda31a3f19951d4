// The threads engine's time: debt, host-bound time, timers.
#include <algorithm>

#include "core/check.h"
#include "core/raw_lock.h"
#include "core/threads_engine.h"

namespace pagestorm {

std::int64_t ThreadsEngine::EmulatedNow() const {
  const std::int64_t host = (HostNow() - start_).n;
  if (config_.scale == 1.0) return host;
  return static_cast<std::int64_t>(static_cast<double>(host) / config_.scale);
}

HostNs ThreadsEngine::HostTime(std::int64_t emulated) const {
  if (emulated == kNever) return kHostForever;
  if (config_.scale == 1.0) return start_ + HostNs{emulated};
  return start_ +
         HostNs{static_cast<std::int64_t>(static_cast<double>(emulated) * config_.scale) + 1};
}

std::int64_t ThreadsEngine::CatchUp(Lane& lane, Task* task) {
  const std::int64_t now = EmulatedNow();
  const std::int64_t behind = now - lane.cpu->clock;
  if (behind <= 0) return now;
  lane.cpu->clock = now;
  lane.host_bound += behind;
  if (task != nullptr) task->stime += behind;  // it was on the CPU
  return now;
}

void ThreadsEngine::SyncClock(Cpu& cpu) { CatchUp(LaneOf(cpu), cpu.current()); }

void ThreadsEngine::ChargeSlow(Cpu& cpu) {
  Lane& lane = LaneOf(cpu);
  Task& task = *cpu.current();
  std::int64_t now = CatchUp(lane, &task);
  if (cpu.clock - now > pay_) {
    Pay(lane);
    now = CatchUp(lane, &task);
  }
  FireTimers(lane, now);  // an idle CPU does it itself; a task may keep its CPU for long
  if (cpu.clock >= cpu.slice_end) {
    if (scheduler_.Tick(cpu, task)) {
      cpu.need_resched.store(true, std::memory_order_relaxed);
      cpu.slice_end = kNever;  // until the task gives way
    } else {
      cpu.slice_end = scheduler_.SliceEnd(cpu, task);
    }
  }
  if (parking_.load(std::memory_order_relaxed) != 0 && cpu.preempt == 0) Park();
  SetHorizon(lane, now);
}

// The CPU has charged more than it has lived through. Also inside a critical section: a lock is
// then held as long as the model says.
void ThreadsEngine::Pay(Lane& lane) {
  const std::int64_t start = EmulatedNow();
  std::int64_t now = start;
  while (now < lane.cpu->clock && !stopping()) {
    Pause(lane, std::min(lane.cpu->clock, NextTimer(lane)));
    now = EmulatedNow();
    FireTimers(lane, now);
  }
  lane.paused += std::max<std::int64_t>(0, std::min(now, lane.cpu->clock) - start);
}

void ThreadsEngine::Pause(Lane& lane, std::int64_t time) {
  // With a host core for every CPU a short pause is more exact awake than asleep (a futex sleep
  // takes about 50 us at least); with fewer, others need the core.
  constexpr HostNs kSpin{60'000};
  const HostNs until = HostTime(time);
  if (!crowded_) {
    HostNs now = HostNow();
    if (until - now <= kSpin) {
      for (; now < until; now = HostNow()) CpuRelax();
      return;
    }
  }
  lane.bell.Wait(until);
}

// Waits first and advances the clock behind the host, so that it can stop in the middle.
std::int64_t ThreadsEngine::ComputeUser(Cpu& cpu, std::int64_t cost) {
  if (cost <= pay_) {
    cpu.clock += cost;
    return cost;
  }
  Lane& lane = LaneOf(cpu);
  const std::int64_t start = cpu.clock;
  const std::int64_t target = start + cost;
  const std::int64_t began = EmulatedNow();
  std::int64_t now = began;
  while (now < target && !stopping()) {
    Pause(lane, std::min(target, NextTimer(lane)));
    now = EmulatedNow();
    cpu.clock = std::clamp(now, cpu.clock, target);
    FireTimers(lane, now);
    if (cpu.need_resched.load(std::memory_order_relaxed) ||
        cpu.current()->fatal_signal.load(std::memory_order_relaxed) ||
        parking_.load(std::memory_order_relaxed) != 0) {
      lane.paused += std::max<std::int64_t>(0, std::min(now, target) - began);
      return cpu.clock - start;
    }
  }
  lane.paused += std::max<std::int64_t>(0, std::min(now, target) - began);
  cpu.clock = target;
  return cost;
}

void ThreadsEngine::SetHorizon(Lane& lane, std::int64_t now) {
  Cpu& cpu = *lane.cpu;
  // A timer that is due within the debt this CPU may carry fires a little late rather than being
  // asked about at every charge.
  const std::int64_t timer = std::max(NextTimer(lane), cpu.clock + pay_ / 4);
  const std::int64_t horizon = std::min({std::max(now, cpu.clock) + pay_, timer, cpu.slice_end});
  cpu.horizon.store(horizon, std::memory_order_relaxed);
}

void ThreadsEngine::FireTimers(Lane& lane, std::int64_t now) {
  while (!lane.timers.empty() && lane.timers.top().deadline <= now) {
    const Timer timer = lane.timers.top();
    lane.timers.pop();
    if (!WakeById(timer.id, timer.generation)) continue;  // stale: woken otherwise
    const HostNs late{
        static_cast<std::int64_t>(static_cast<double>(now - timer.deadline) * config_.scale)};
    lane.slip.Add(late);
    if (config_.strict && late > config_.slip_limit) {
      slipped_.store(true, std::memory_order_relaxed);
    }
  }
}

}  // namespace pagestorm
