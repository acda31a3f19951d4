// 2.6.37: direct reclaim and the allocator nap only where naps help: a device is congested, and in
// the zone every dirty page of the last batch was held up. Else they only give way.
// Source: spec throttle-2.6.26 5.2.
#include <atomic>

#include "mm/block_device.h"
#include "mm/builtin_gates.h"
#include "mm/page_alloc.h"
#include "mm/page_cache.h"
#include "mm/writeback.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

constexpr Ns kRetryNap{kSecond.n / 50};

class WaitIffCongestedGateObject final : public Gate {
 public:
  explicit WaitIffCongestedGateObject(MemoryManager& mm) : mm_(mm) {}

  void AfterPages(Zone& zone, LruList, ScanControl& sc) override {
    if (sc.pages.dirty == 0 || sc.pages.dirty != sc.pages.congested) return;
    zone.flags.fetch_or(kZoneCongested, std::memory_order_relaxed);
  }

  bool Nap(std::span<Zone* const> zonelist, int priority, const ScanControl& sc) override {
    if (sc.nr_scanned != 0 && priority < kNapBelowPriority) Wait(*zonelist.front(), kCongestionNap);
    return true;
  }
  bool RetryNap(Zone& preferred) override {
    Wait(preferred, kRetryNap);
    return true;
  }

  void AfterKswapdPass(PgData& node) override {
    for (Zone* zone : node.zones) {
      if (!zone->Has(kZoneCongested)) continue;
      if (!mm_.allocator->WatermarkOk(*zone, 0, zone->watermark.high, 0, 0)) continue;
      zone->flags.fetch_and(~std::uint32_t{kZoneCongested}, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] Numbers numbers() const override {
    return {{"congested_naps", naps_.load(std::memory_order_relaxed)},
            {"congested_yields", yields_.load(std::memory_order_relaxed)}};
  }

 private:
  void Wait(const Zone& zone, Ns nap) {
    const bool device = mm_.disk->Congested(IoDirection::kWrite) ||
                        mm_.page_cache->device().Congested(IoDirection::kWrite);
    if (!device || !zone.Has(kZoneCongested)) {
      yields_.fetch_add(1, std::memory_order_relaxed);
      return CondResched();
    }
    naps_.fetch_add(1, std::memory_order_relaxed);
    mm_.writeback->CongestionWait(IoDirection::kWrite, nap);
  }

  MemoryManager& mm_;
  std::atomic<std::int64_t> naps_{0};
  std::atomic<std::int64_t> yields_{0};
};

}  // namespace

GateType WaitIffCongestedGate() {
  return {"wait_iff_congested",
          [](MemoryManager& mm) { return std::make_unique<WaitIffCongestedGateObject>(mm); }};
}

}  // namespace pagestorm::mm
