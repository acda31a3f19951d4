// The OOM killer: who is killed when direct reclaim has failed.
// Source: spec throttle-2.6.26 2.26; reports: mm/oom_report.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mm/dmesg.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

struct MemCgroup;
struct MmStruct;

// A task as memory management sees it; hung from Task::mm.
struct TaskMm {
  MmStruct* space =
      nullptr;  // changed by the task itself while it is not registered, or by TakeSpace()
  Task* task = nullptr;
  TaskId parent;                // who forked it, if anybody; an id, since that task may be gone
  std::vector<Task*> children;  // the registered ones, in order of fork; kept by the OOM killer
  int oom_adj = 0;              // -17 (never) .. 15
  bool is_init = false;
  bool cap_sys_admin = false;  // or CAP_SYS_RESOURCE
  bool cap_sys_rawio = false;
  std::atomic<bool> exiting{false};       // PF_EXITING, for others to see
  std::atomic<std::int32_t> last_cpu{0};  // where it last faulted
  std::atomic<std::int64_t> minor_faults{0};
  std::atomic<std::int64_t> major_faults{0};
};

// The name the kernel shows: 15 characters.
[[nodiscard]] std::string CommOf(const Task& task);

class OomKiller {
 public:
  virtual ~OomKiller() = default;
  // The right to decide: the zone OOM locks of all zones of the list, or (OomLock::kMachine) the
  // machine's one lock. False: somebody has it, or one of them.
  virtual bool TryLockZones(std::span<Zone* const> zonelist) = 0;
  virtual void UnlockZones(std::span<Zone* const> zonelist) = 0;
  // out_of_memory: selects, reports into dmesg, kills; then sleeps one jiffy unless the caller is
  // dying itself. With nothing left to kill the machine panics: dmesg says so and the run is asked
  // to stop.
  virtual void OutOfMemory(std::span<Zone* const> zonelist, Gfp gfp, int order) = 0;
  // mem_cgroup_out_of_memory: the same among the tasks of `group` and of those below it, whose
  // limit is reached. False: nobody there can be killed (the machine does not panic).
  [[nodiscard]] virtual bool OutOfMemoryIn(MemCgroup& group, Gfp gfp) = 0;
  // Spawns the reaper, where there is one.
  virtual void StartDaemons() {}
  [[nodiscard]] virtual std::int64_t kills() const = 0;
  [[nodiscard]] virtual bool panicked() const = 0;
  // "page allocation failure" and the memory report for a failed request, rate-limited; not with
  // __GFP_NOWARN.
  virtual void AllocationFailure(Gfp gfp, int order) = 0;
  [[nodiscard]] virtual std::string ShowMem() const = 0;  // the memory block of both reports

  // Registered tasks: candidates for the killer, and the task list of the report. All take
  // tasklist_lock.
  //   AddTask: space, task and parent are set. RemoveTask: the task dies, or is not to be
  //   considered any more.
  virtual void AddTask(TaskMm& task) = 0;
  virtual void RemoveTask(TaskMm& task) = 0;
  // exit_mm: marks the task as exiting and takes its space away, for the caller to destroy.
  virtual MmStruct* TakeSpace(TaskMm& task) = 0;

  // What the machine looked like when a kill was decided, for result.json: isolated share etc.
  struct Snapshot {
    std::int64_t time_ns = 0, isolated = 0, lru = 0, free = 0, reclaimers = 0;
    std::string victim;  // "comm-pid"
  };
  [[nodiscard]] virtual std::vector<Snapshot> snapshots() const = 0;  // the first 1000
};

std::unique_ptr<OomKiller> MakeOomKiller(MemoryManager& mm);

}  // namespace pagestorm::mm
