#include "mm/shrink_active.h"

#include <catch2/catch.hpp>

#include "mm/scan_balance.h"

namespace pagestorm::mm {
namespace {

// Mutation tried: max instead of min of the two priorities.
TEST_CASE("Distress: 100 halved by the more desperate of two priorities",
          "[mm][spec:throttle-15]") {
  CHECK(Distress(7, 12) == 0);
  CHECK(Distress(12, 7) == 0);
  CHECK(Distress(6, 12) == 1);
  CHECK(Distress(12, 3) == 12);
  CHECK(Distress(2, 3) == 25);
  CHECK(Distress(0, 12) == 100);
  const std::int64_t by_priority[] = {100, 50, 25, 12, 6, 3, 1, 0, 0, 0, 0, 0, 0};
  for (int p = 0; p <= 12; ++p) CHECK(Distress(12, p) == by_priority[p]);
}

// Mutations tried: imbalance without the mapped_ratio factor; "> 100".
TEST_CASE("ReclaimMappedNow: tendency from mapped ratio, distress, swappiness and imbalance",
          "[mm][spec:throttle-16]") {
  ReclaimMappedInputs in{.priority = 12,
                         .active = 40000,
                         .inactive = 9000,
                         .mapped = 37,
                         .vm_total = 100,
                         .swappiness = 60};
  CHECK(SwapTendency(in) == 78);
  CHECK_FALSE(ReclaimMappedNow(in));
  in.priority = 2;
  CHECK(SwapTendency(in) == 103);
  CHECK(ReclaimMappedNow(in));
  in.priority = 12;
  in.mapped = 80;
  CHECK(SwapTendency(in) == 101);
  CHECK(ReclaimMappedNow(in));
  in.inactive = 40001;  // no imbalance: exactly 100
  CHECK(SwapTendency(in) == 100);
  CHECK(ReclaimMappedNow(in));
}

TEST_CASE("ZoneNearOom: three scans over the lists, and always on empty ones", "[mm]") {
  ReclaimMappedInputs in{.active = 30, .inactive = 70, .pages_scanned = 299};
  CHECK_FALSE(ZoneNearOom(in));
  in.pages_scanned = 300;
  CHECK(ZoneNearOom(in));
  CHECK(ZoneNearOom({.active = 0, .inactive = 0, .pages_scanned = 0}));
}

// Mutations tried: swappiness and 200 - swappiness exchanged; "<" for the file + free rule.
TEST_CASE("ComputeScanRatio: percentages of anonymous and file pages", "[mm][spec:throttle-17]") {
  ScanRatioInputs in{.free_swap = 1000, .file = 50'000, .free = 2000, .pages_high = 1500};
  CHECK(ComputeScanRatio(in).anon == 30);
  CHECK(ComputeScanRatio(in).file == 70);
  in.free_swap = 0;
  CHECK(ComputeScanRatio(in).anon == 0);
  CHECK(ComputeScanRatio(in).file == 100);
  in.free_swap = 1000;
  in.file = 700;
  in.free = 800;  // together exactly the high mark
  CHECK(ComputeScanRatio(in).anon == 100);
  CHECK(ComputeScanRatio(in).file == 0);
  in.free = 801;
  CHECK(ComputeScanRatio(in).anon == 30);
  // What scans find in use is pressed less.
  in.scanned = {1000, 1000};
  in.rotated = {1000, 0};
  CHECK(ComputeScanRatio(in).anon == 0);
}

TEST_CASE("TakeScanQuota: gathers until there is a batch", "[mm]") {
  std::atomic<std::int64_t> accumulator{0};
  CHECK(TakeScanQuota(accumulator, 31, 32) == 0);
  CHECK(accumulator.load() == 31);
  CHECK(TakeScanQuota(accumulator, 1, 32) == 32);
  CHECK(accumulator.load() == 0);
  CHECK(TakeScanQuota(accumulator, 500, 32) == 500);
}

}  // namespace
}  // namespace pagestorm::mm
