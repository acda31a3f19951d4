// Whom the OOM killer of 2.6.26 chooses: badness, and the order in which tasks are looked at.
// All of it under tasklist_lock.  Source: spec throttle-2.6.26 2.26.
#pragma once

#include <cstdint>
#include <map>

#include "core/units.h"
#include "mm/oom.h"

namespace pagestorm::mm {

// Registered tasks by id: by order of creation.
using TaskList = std::map<std::int32_t, TaskMm*>;

// What badness looks at; a struct so that it can be computed by hand.
struct BadnessInput {
  std::int64_t total_vm = 0;
  std::int64_t children = 0;  // sum of total_vm / 2 + 1 over children with spaces of their own
  std::int64_t cpu_seconds = 0;
  std::int64_t run_seconds = 0;
  int nice = 0;
  bool cap_sys_admin = false;
  bool cap_sys_rawio = false;
  int oom_adj = 0;
};
[[nodiscard]] std::uint64_t Badness(const BadnessInput& input);
[[nodiscard]] std::uint64_t BadnessOf(const MemoryManager& mm, const TaskMm& task);

inline constexpr int kOomDisable = -17;

struct OomChoice {
  enum class Kind : std::uint8_t { kVictim, kNobody, kWait };  // kWait: someone is dying already
  Kind kind = Kind::kNobody;
  TaskMm* victim = nullptr;
  std::uint64_t points = 0;
};
// within: only tasks of this group and those below it; nullptr: all.
[[nodiscard]] OomChoice SelectBadTask(const MemoryManager& mm, const TaskList& tasks,
                                      const MemCgroup* within = nullptr);
// Whether a task has a space in the group, or in one below it; nullptr: true.
[[nodiscard]] bool IsWithin(const MemoryManager& mm, const TaskMm& task, const MemCgroup* within);

}  // namespace pagestorm::mm
