// lruscan: T tasks fill memory with pages and then do nothing but what reclaim does to an LRU: take
// 32 pages off the active list of one zone, judge them, put them back.
//
// No page is freed and nothing is written, so what is measured is the LRU: how many pages a second
// pass through it, and how long tasks wait for its lock or its shared lines. Afterwards each task
// finds its pages' content again.
#pragma once

#include <memory>

#include "bench/workloads/workload.h"

namespace pagestorm::bench {

std::unique_ptr<Workload> MakeLruscan();

}  // namespace pagestorm::bench
