#include "mm/oom_select.h"

#include <algorithm>

#include "mm/address_space.h"
#include "mm/memcg.h"

namespace pagestorm::mm {
namespace {

std::uint64_t IntSqrt(std::uint64_t n) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 31; bit != 0; bit >>= 1) {
    if ((root + bit) * (root + bit) <= n) root += bit;
  }
  return root;
}

const TaskMm* PartOf(const Task* task) { return static_cast<const TaskMm*>(task->mm); }

}  // namespace

std::uint64_t Badness(const BadnessInput& input) {
  auto points = static_cast<std::uint64_t>(input.total_vm + input.children);
  // Long-lived tasks and those that have computed much are worth more.
  const std::uint64_t cpu = IntSqrt(static_cast<std::uint64_t>(input.cpu_seconds) >> 3);
  if (cpu > 0) points /= cpu;
  const std::uint64_t run = IntSqrt(IntSqrt(static_cast<std::uint64_t>(input.run_seconds) >> 10));
  if (run > 0) points /= run;
  if (input.nice > 0) points *= 2;
  if (input.cap_sys_admin) points /= 4;
  if (input.cap_sys_rawio) points /= 4;
  if (input.oom_adj > 0) return std::max<std::uint64_t>(points, 1) << input.oom_adj;
  return points >> -input.oom_adj;
}

std::uint64_t BadnessOf(const MemoryManager& mm, const TaskMm& task) {
  if (task.space == nullptr) return 0;
  BadnessInput input;
  input.total_vm = mm.spaces->UsageOf(*task.space).total_vm;
  for (const Task* child : task.children) {
    const MmStruct* space = PartOf(child)->space;
    if (space == nullptr || space == task.space) continue;
    input.children += mm.spaces->UsageOf(*space).total_vm / 2 + 1;
  }
  const Task& self = *task.task;
  input.cpu_seconds = (self.utime + self.stime) / kSecond.n;
  input.run_seconds = std::max<std::int64_t>(0, Now().n - self.start_ns) / kSecond.n;
  input.nice = self.nice;
  input.cap_sys_admin = task.cap_sys_admin;
  input.cap_sys_rawio = task.cap_sys_rawio;
  input.oom_adj = task.oom_adj;
  return Badness(input);
}

bool IsWithin(const MemoryManager& mm, const TaskMm& task, const MemCgroup* within) {
  if (within == nullptr) return true;
  return task.space != nullptr && within->Contains(*mm.cgroups->GroupOf(*task.space));
}

OomChoice SelectBadTask(const MemoryManager& mm, const TaskList& tasks, const MemCgroup* within) {
  OomChoice choice;
  std::int64_t looked_at = 0;
  for (const auto& [id, task] : tasks) {
    looked_at += 1 + static_cast<std::int64_t>(task->children.size());
    if (task->space == nullptr || task->is_init || !IsWithin(mm, *task, within)) continue;
    if (mm.spaces->SkippedForOom(*task->space)) continue;  // reaped: nothing more to wait for
    if (task->task->memdie.load(std::memory_order_acquire)) {
      choice = {.kind = OomChoice::Kind::kWait};
      break;
    }
    if (task->exiting.load(std::memory_order_relaxed)) {
      if (task->task != &Current()) {
        choice = {.kind = OomChoice::Kind::kWait};
        break;
      }
      choice = {OomChoice::Kind::kVictim, task, UINT64_MAX};
      continue;
    }
    if (task->oom_adj == kOomDisable) continue;
    const std::uint64_t points = BadnessOf(mm, *task);
    if (choice.victim == nullptr || points > choice.points) {
      choice = {OomChoice::Kind::kVictim, task, points};
    }
  }
  // A task or child costs a few cache misses, about what a look at a pte does.
  Charge({mm.costs.pte_ns * looked_at});
  return choice;
}

}  // namespace pagestorm::mm
