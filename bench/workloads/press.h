// press: T tasks map M MiB each and write every page in address order, K times over.
//
// Every write stores a stamp and checks that the one of the sweep before has survived whatever
// happened to the page meanwhile. Reports pages per second, the worst single access of each task,
// and lost pages.
#pragma once

#include <memory>

#include "bench/workloads/workload.h"

namespace pagestorm::bench {

std::unique_ptr<Workload> MakePress();

}  // namespace pagestorm::bench
