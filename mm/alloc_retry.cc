#include "mm/alloc_retry.h"

#include <algorithm>

#include "mm/page_alloc.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"
#include "mm/zone.h"
#include "mm/zone_reclaimable.h"

namespace pagestorm::mm {
namespace {

bool Has(const RetryRule::Request& request, Gfp flag) { return (request.gfp & flag) != 0; }

class UntilNoProgress final : public RetryRule {
 public:
  Next AfterReclaim(const Request& request, std::int64_t progress, State& state) override {
    if (Has(request, __GFP_NORETRY)) return Next::kFail;
    if (progress == 0 && Has(request, __GFP_FS)) return Next::kOom;
    state.reclaimed += progress;
    if (request.order <= kPageAllocCostlyOrder || Has(request, __GFP_NOFAIL)) return Next::kReclaim;
    const bool repeat = Has(request, __GFP_REPEAT) && state.reclaimed < std::int64_t{1}
                                                                            << request.order;
    return repeat ? Next::kReclaim : Next::kFail;
  }
  Kill MayKill(const Request& request) override {
    return request.order > kPageAllocCostlyOrder ? Kill::kFail : Kill::kYes;
  }
  bool AfterOom(State&) override { return true; }
};

class SixteenRounds final : public RetryRule {
 public:
  explicit SixteenRounds(MemoryManager& mm) : mm_(mm) {}

  Next AfterReclaim(const Request& request, std::int64_t progress, State& state) override {
    const bool costly = request.order > kPageAllocCostlyOrder;
    if (Has(request, __GFP_NORETRY) || (costly && !Has(request, __GFP_REPEAT))) {
      return Has(request, __GFP_NOFAIL) ? Next::kWalk : Next::kFail;
    }
    state.no_progress_loops = progress != 0 && !costly ? 0 : state.no_progress_loops + 1;
    if (state.no_progress_loops > kMaxReclaimRetries) return Next::kOom;
    const auto promising = std::find_if(
        request.zonelist.begin(), request.zonelist.end(),
        [&](const Zone* zone) { return CouldServe(*zone, request, state.no_progress_loops); });
    if (promising == request.zonelist.end()) return Next::kOom;
    if (progress == 0 && 2 * WritePending(mm_, **promising) > ReclaimablePages(mm_, **promising)) {
      mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
    } else {
      CondResched();
    }
    return Next::kWalk;
  }
  // A request that must not fail goes on for ever; the kernel also lets it dig deeper once.
  Kill MayKill(const Request& request) override {
    const bool low = mm_.allocator->GfpZone(request.gfp) < mm_.layout().NormalIndex();
    if (request.order > kPageAllocCostlyOrder || low || Has(request, __GFP_THISNODE)) {
      return Has(request, __GFP_NOFAIL) ? Kill::kSpare : Kill::kFail;
    }
    return Has(request, __GFP_FS) ? Kill::kYes : Kill::kSpare;
  }
  bool AfterOom(State& state) override {
    state.no_progress_loops = 0;
    return false;
  }

 private:
  [[nodiscard]] bool CouldServe(const Zone& zone, const Request& request, int loops) const {
    Charge({mm_.costs.watermark_ns});
    const std::int64_t reclaimable = ReclaimablePages(mm_, zone);
    const std::int64_t free = mm_.vmstat->Exact(zone.ordinal, ZoneStat::kNrFreePages);
    const std::int64_t available =
        reclaimable - RetryDiscount(loops, reclaimable) + std::max<std::int64_t>(0, free);
    return mm_.allocator->WatermarkOkWith(available, zone, request.order, zone.watermark.min,
                                          request.zonelist.front()->index, request.alloc_flags);
  }

  MemoryManager& mm_;
};

}  // namespace

std::unique_ptr<RetryRule> MakeRetryRule(MemoryManager& mm) {
  switch (mm.policy.alloc.retry) {
    case AllocRetry::kUntilNoProgress:
      break;
    case AllocRetry::kSixteenRounds:
      return std::make_unique<SixteenRounds>(mm);
  }
  return std::make_unique<UntilNoProgress>();
}

}  // namespace pagestorm::mm
