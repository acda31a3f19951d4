// The emulated machine's files of /proc and /sys, as a run directory keeps them.
#pragma once

#include <vector>

#include "bench/emulator/emulator.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

// Of a machine at rest.
[[nodiscard]] std::vector<TextFile> ProcTree(Emulator& emulator);

}  // namespace pagestorm::bench
