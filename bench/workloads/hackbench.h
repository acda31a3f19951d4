// hackbench: groups of 20 senders and 20 receivers that exchange messages; the storm of the
// throttle tables.
//
// Follows the published program step by step (spec workloads-and-reports 1.1, throttle-2.6.26 3.6):
// the parent forks everyone (untimed), all block on one wake byte, are released together, and the
// time runs until the last one has exited. A child that dies of a signal makes the program fail,
// and the run ends.
#pragma once

#include <memory>

#include "bench/workloads/workload.h"

namespace pagestorm::bench {

std::unique_ptr<Workload> MakeHackbench();

}  // namespace pagestorm::bench
