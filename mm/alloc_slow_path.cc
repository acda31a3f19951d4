// What PageAllocator does when no zone has enough free pages for an ordinary request.
// Step numbers are those of spec throttle-2.6.26 2.10; mm/alloc_retry.h decides after steps 8
// and 9.
#include "mm/block_device.h"
#include "mm/kswapd.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/reclaim.h"
#include "mm/throttle.h"
#include "mm/writeback.h"

namespace pagestorm::mm {
namespace {

// PF_MEMALLOC for a scope: whoever reclaims may use the last pages, and is not sent to reclaim
// again.
class MemallocScope {
 public:
  MemallocScope() : task_(Current()) { task_.flags |= PF_MEMALLOC; }
  ~MemallocScope() { task_.flags &= ~PF_MEMALLOC; }
  MemallocScope(const MemallocScope&) = delete;
  MemallocScope& operator=(const MemallocScope&) = delete;

 private:
  Task& task_;
};

// The OOM locks of a zonelist's zones, released on every way out.
class OomZonesLock {
 public:
  OomZonesLock(OomKiller& oom, std::span<Zone* const> zonelist, bool enabled)
      : oom_(oom), zonelist_(zonelist), enabled_(enabled) {
    held_ = !enabled_ || oom_.TryLockZones(zonelist_);
  }
  ~OomZonesLock() {
    if (enabled_ && held_) oom_.UnlockZones(zonelist_);
  }
  OomZonesLock(const OomZonesLock&) = delete;
  OomZonesLock& operator=(const OomZonesLock&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  OomKiller& oom_;
  const std::span<Zone* const> zonelist_;
  const bool enabled_;
  bool held_ = false;
};

bool MayUseEverything(const Task& task) {
  return (task.flags & PF_MEMALLOC) != 0 || task.memdie.load(std::memory_order_relaxed);
}

}  // namespace

std::optional<FrameNo> PageAllocator::SlowPath(const Request& request) {
  const Gfp gfp = request.gfp;
  const bool can_wait = (gfp & __GFP_WAIT) != 0;
  const std::uint32_t flags =
      (can_wait ? 0U : kAllocHarder) | ((gfp & __GFP_HIGH) != 0 ? kAllocHigh : 0U);
  const RetryRule::Request ask{gfp, request.order, request.zonelist, flags};
  RetryRule::State state;
  for (;;) {
    if (mm_.nodes.size() > 1 && (gfp & GFP_THISNODE) == GFP_THISNODE) return Fail(request);
    WakeKswapds(request);
    if (const auto n = Walk(request, Mark::kMin, flags)) return n;
    auto next = RetryRule::Next::kReclaim;
    while (next == RetryRule::Next::kReclaim) {
      if (MayUseEverything(Current())) return WithoutWatermarks(request);
      if (!can_wait) return Fail(request);
      const std::int64_t progress = Reclaim(request);
      if (progress != 0) {
        if (const auto n = Walk(request, Mark::kMin, flags)) return n;
      }
      next = retry_->AfterReclaim(ask, progress, state);
      if (next == RetryRule::Next::kReclaim) NapHz50(request);
    }
    if (next == RetryRule::Next::kFail) return Fail(request);
    if (next == RetryRule::Next::kWalk) continue;
    std::optional<FrameNo> page;
    const AfterOom after = TryOom(request, ask, page);
    if (after == AfterOom::kPage) return page;
    if (after == AfterOom::kFail) return Fail(request);
    if (!retry_->AfterOom(state)) continue;
    if (const auto n = Walk(request, Mark::kLow, 0)) return n;
  }
}

// Step 5.
std::optional<FrameNo> PageAllocator::WithoutWatermarks(const Request& request) {
  if ((request.gfp & __GFP_NOMEMALLOC) != 0) return Fail(request);
  for (;;) {
    if (const auto n = Walk(request, Mark::kMin, kAllocNoWatermarks)) return n;
    if ((request.gfp & __GFP_NOFAIL) == 0) return Fail(request);
    NapHz50(request);
  }
}

// Step 7.
std::int64_t PageAllocator::Reclaim(const Request& request) {
  CondResched();
  std::int64_t progress = 0;
  if (mm_.reclaimer != nullptr) {
    const MemallocScope memalloc;
    progress = mm_.reclaimer->TryToFreePages(request.zonelist, request.order, request.gfp);
  }
  CondResched();
  if (request.order > 0) DrainAll();
  return progress;
}

// Step 9.
PageAllocator::AfterOom PageAllocator::TryOom(const Request& request, const RetryRule::Request& ask,
                                              std::optional<FrameNo>& page) {
  PS_CHECK(mm_.oom != nullptr, "out of memory on a machine without an OOM killer");
  const OomZonesLock lock(*mm_.oom, request.zonelist, mm_.policy.alloc.oom_lock);
  if (!lock.held()) {
    SleepFor(mm_.policy.Jiffy());
    return AfterOom::kRestart;
  }
  if (mm_.policy.reclaim.drain_pcp_before_oom) DrainAll();
  // At the high mark: only if a kill under way has freed a good deal may this one be spared.
  page = Walk(request, Mark::kHigh, 0);
  if (page) return AfterOom::kPage;
  switch (retry_->MayKill(ask)) {
    case RetryRule::Kill::kFail:
      return AfterOom::kFail;
    case RetryRule::Kill::kSpare:
      CondResched();
      break;
    case RetryRule::Kill::kYes:
      mm_.oom->OutOfMemory(request.zonelist, request.gfp, request.order);
      break;
  }
  return AfterOom::kRestart;
}

std::optional<FrameNo> PageAllocator::Fail(const Request& request) {
  if ((request.gfp & __GFP_NOWARN) == 0 && mm_.oom != nullptr) {
    mm_.oom->AllocationFailure(request.gfp, request.order);
  }
  return std::nullopt;
}

void PageAllocator::WakeKswapds(const Request& request) {
  for (Zone* zone : request.zonelist) {
    Kswapd* kswapd = mm_.NodeAt(zone->node_position).kswapd.get();
    if (kswapd != nullptr) kswapd->Wake(*zone, request.order);
  }
}

void PageAllocator::NapHz50(const Request& request) {
  const Ns nap{kSecond.n / 50};
  if (mm_.gate != nullptr && mm_.gate->RetryNap(*request.zonelist.front())) return;
  if (mm_.writeback != nullptr) {
    mm_.writeback->CongestionWait(IoDirection::kWrite, nap);
  } else {
    SleepFor(nap);
  }
}

}  // namespace pagestorm::mm
