// What the emulated kernel shows under /proc and /sys about memory, in 2.6.26's formats.
//
// Every function returns a file's whole text. They read counters as the kernel does (stale by
// per-CPU deltas) and take no lock: call them from a task, or at rest. Written so that vmstat,
// free, numastat and numactl -H of today read them.  Source: spec
// workloads-and-reports 4.1-4.3, 4.6.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/cpu.h"
#include "core/task.h"

namespace pagestorm::mm {

class MemoryManager;

[[nodiscard]] std::string ProcZoneinfo(const MemoryManager& mm);
[[nodiscard]] std::string ProcBuddyinfo(const MemoryManager& mm);
[[nodiscard]] std::string ProcPagetypeinfo(const MemoryManager& mm);
[[nodiscard]] std::string ProcVmstat(const MemoryManager& mm);
[[nodiscard]] std::string ProcMeminfo(const MemoryManager& mm);

// /sys/devices/system/node/node<N>/..., by position of the node.
[[nodiscard]] std::string NodeMeminfo(const MemoryManager& mm, int position);
[[nodiscard]] std::string NodeNumastat(const MemoryManager& mm, int position);
[[nodiscard]] std::string NodeDistance(const MemoryManager& mm, int position);
[[nodiscard]] std::string NodeCpulist(const MemoryManager& mm, int position);
[[nodiscard]] std::string NodeCpumap(const MemoryManager& mm, int position);

// "0-3,8": ascending numbers as ranges.
[[nodiscard]] std::string RangeList(const std::vector<int>& numbers);
// "00000000,0000000f": groups of 32 bits, highest first, wide enough for `bits`.
[[nodiscard]] std::string HexMask(const std::vector<int>& numbers, int bits);

// All of them, as {path below the run directory, text}: {"proc/vmstat", ...},
// {"sys/devices/system/node/online",
// ...}. Ascending by path.
using ProcFiles = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] ProcFiles AllProcFiles(const MemoryManager& mm);

}  // namespace pagestorm::mm
