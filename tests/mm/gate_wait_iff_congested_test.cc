// The gate "wait_iff_congested". Source: spec throttle-2.6.26 5.2.
#include <catch2/catch.hpp>

#include "mm/block_device.h"
#include "mm/page_alloc.h"
#include "mm/throttle.h"
#include "mm/zone.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

// A swap device that says what the test wants.
class FakeDisk final : public BlockDevice {
 public:
  void Submit(IoDirection, std::uint64_t, FrameNo) override {}
  [[nodiscard]] bool Congested(IoDirection direction) const override {
    return congested && direction == IoDirection::kWrite;
  }
  [[nodiscard]] std::int64_t InFlight(IoDirection) const override { return 0; }
  [[nodiscard]] std::string Describe() const override { return {}; }
  void Run() override {}
  [[nodiscard]] Counts counts() const override { return {}; }
  bool congested = false;
};

// Mutations tried, red: sleep where either holds; the zone's flag never set, never cleared; set for
// a batch without dirty pages.
TEST_CASE("wait_iff_congested: naps where the device and the zone are congested, else gives way",
          "[mm][gate]") {
  ReclaimMachineOptions options;
  options.policy.throttle.gate = "wait_iff_congested";
  ReclaimMachine machine(options);
  auto owned = std::make_unique<FakeDisk>();
  FakeDisk& disk = *owned;
  machine.mm->disk = std::move(owned);
  machine.Run([&] {
    Gate& gate = *machine.mm->gate;
    const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
    const auto nap = [&](int priority, std::int64_t scanned) {
      ScanControl sc;
      sc.nr_scanned = scanned;
      const std::int64_t start = Now().n;
      CHECK(gate.Nap(zones, priority, sc));  // there is no other nap
      return Now().n - start;
    };
    const auto pages = [&](std::int64_t dirty, std::int64_t congested) {
      ScanControl sc;
      sc.pages = {.taken = 32, .dirty = dirty, .congested = congested};
      gate.AfterPages(machine.zone(), LruList::kInactiveAnon, sc);
    };
    constexpr std::int64_t kShort = 1'000'000;
    CHECK(nap(5, 100) < kShort);
    disk.congested = true;
    pages(0, 0);
    pages(8, 7);
    CHECK(nap(5, 100) < kShort);
    pages(8, 8);
    CHECK(nap(5, 100) >= kSecond.n / 10);
    CHECK(nap(10, 100) < kShort);
    CHECK(nap(5, 0) < kShort);
    const std::int64_t start = Now().n;
    CHECK(gate.RetryNap(machine.zone()));
    CHECK(Now().n - start >= kSecond.n / 50);
    CHECK(Now().n - start < kSecond.n / 10);
    disk.congested = false;
    CHECK(nap(5, 100) < kShort);
    disk.congested = true;
    gate.AfterKswapdPass(*machine.mm->nodes[0]);  // the zone has its high mark
    CHECK(nap(5, 100) < kShort);
    pages(8, 8);
    machine.zone().watermark.high = std::int64_t{1} << 40;
    gate.AfterKswapdPass(*machine.mm->nodes[0]);
    CHECK(nap(5, 100) >= kSecond.n / 10);
  });
  CHECK(machine.mm->gate->numbers()[0].second == 3);
}

}  // namespace
}  // namespace pagestorm::mm
