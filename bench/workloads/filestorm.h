// filestorm: files against anonymous memory.
//
// Readers stream through a file larger than memory, writers overwrite files of their own through
// the page cache, and one process keeps touching a hot anonymous set. Nothing that is read once
// should push out what is used all the time; whether it does shows in the hot set's major faults
// and swap-outs. Every page read, of files and of memory, must hold what was last written.
#pragma once

#include <memory>

#include "bench/workloads/workload.h"

namespace pagestorm::bench {

std::unique_ptr<Workload> MakeFilestorm();

}  // namespace pagestorm::bench
