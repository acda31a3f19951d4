// Reading a machine at rest into a RunRecord: counters, files of /proc and /sys, locks, logs.
#pragma once

#include "bench/emulator/emulator.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

// After boot, before anything has run.
void GatherBefore(Emulator& emulator, RunRecord& record);
// After Run().
void GatherAfter(Emulator& emulator, RunRecord& record);

}  // namespace pagestorm::bench
