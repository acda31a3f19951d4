// The text of OOM and allocation-failure reports, line by line as 2.6.26 prints it.
// Source: spec throttle-2.6.26 2.27; workloads-and-reports 6.
#pragma once

#include <string>

#include "mm/gfp.h"
#include "mm/memory_manager.h"
#include "mm/oom_select.h"

namespace pagestorm::mm {

// "Mem-info:" and what follows, up to the four RAM lines. Takes zone.lock of one zone after the
// other.
[[nodiscard]] std::string MemInfoReport(const MemoryManager& mm);
// "<comm> invoked oom-killer: ...", and the stack: a short one of our own.
[[nodiscard]] std::string OomHeader(const MemoryManager& mm, const Task& task, int oom_adj, Gfp gfp,
                                    int order);
// Whose limit a task of which group has run into, and how it stands: lines of later kernels
// (2.6.30, 3.9) in place of "Mem-info:", which says nothing about a group.
[[nodiscard]] std::string CgroupReport(const MemoryManager& mm, const MemCgroup& task_group,
                                       const MemCgroup& full);
// "<comm>: page allocation failure. ...", and the stack.
[[nodiscard]] std::string AllocationFailureHeader(const MemoryManager& mm, const Task& task,
                                                  Gfp gfp, int order);
// oom_dump_tasks: the task table. Under tasklist_lock.
[[nodiscard]] std::string TaskTable(const MemoryManager& mm, const TaskList& tasks);

}  // namespace pagestorm::mm
