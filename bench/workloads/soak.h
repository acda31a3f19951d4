// soak: everything at once for a long time, to find what short runs do not.
//
// Tasks write, read back, fork copy-on-write children, unmap, exchange messages, hold kernel blocks
// of orders 0 to 3 and allocate without IO or FS, at random from the seed, around the edge of
// memory. Every page that is read must hold what was last written. The verdict is pass or fail, not
// a metric.
#pragma once

#include <memory>

#include "bench/workloads/workload.h"

namespace pagestorm::bench {

std::unique_ptr<Workload> MakeSoak();

}  // namespace pagestorm::bench
