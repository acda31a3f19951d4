// The page allocator: watermarks, zonelists, per-CPU lists over the buddy, and the allocation slow
// path. Source: spec throttle-2.6.26 2.2, 2.4-2.10.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/task.h"
#include "core/units.h"
#include "mm/alloc_retry.h"
#include "mm/gfp.h"
#include "mm/memory_manager.h"
#include "mm/page_frame.h"
#include "mm/zone.h"
#include "mm/zonelist.h"

namespace pagestorm::mm {

class PageAllocator {
 public:
  explicit PageAllocator(MemoryManager& mm);

  // Takes 2^order contiguous frames, preferring `node` (position; -1: that of the running CPU). The
  // first frame has refcount 1, state kInUse; nullopt is an everyday outcome (spec 2.10 says for
  // whom). May reclaim, sleep and invoke the OOM killer if gfp has __GFP_WAIT. Charges zeroing for
  // __GFP_ZERO.
  [[nodiscard]] std::optional<FrameNo> Alloc(Gfp gfp, int order = 0, int node = -1);
  // Drops one reference; the last one frees the block. The frame must be on no list and unmapped.
  void PutPage(FrameNo n, int order = 0, bool cold = false);
  // Frees a block whose only reference the caller holds. Order 0 goes to the per-CPU list.
  void Free(FrameNo n, int order, bool cold);

  // zone_watermark_ok (spec 2.5): lock-free, approximate counters. Charges nothing, runs anywhere.
  [[nodiscard]] bool WatermarkOk(const Zone& zone, int order, std::int64_t mark, int classzone,
                                 std::uint32_t alloc_flags) const;
  // The same as if that many pages were free.
  [[nodiscard]] bool WatermarkOkWith(std::int64_t free, const Zone& zone, int order,
                                     std::int64_t mark, int classzone,
                                     std::uint32_t alloc_flags) const;
  // The zone index of a request; its migrate type.
  [[nodiscard]] int GfpZone(Gfp gfp) const;
  [[nodiscard]] static MigrateType MigrateTypeOf(Gfp gfp);
  // The zones of a request, in fallback order, without those above GfpZone(gfp).
  [[nodiscard]] std::span<Zone* const> ZonelistFor(Gfp gfp, int node) const;

  void set_zone_reclaim_mode(std::int64_t mode) { zone_reclaim_mode_ = mode; }
  // The zone whose index is the class of a request: the first of its list; nullptr: the list is
  // empty.
  [[nodiscard]] Zone* PreferredZone(Gfp gfp, int node) const;

  // get_page_from_freelist with a given mark; for tests and for the last-chance walk.
  [[nodiscard]] std::optional<FrameNo> WalkFreeLists(Gfp gfp, int order, int node, Mark mark,
                                                     std::uint32_t alloc_flags);

  // Returns this CPU's per-CPU pages of every zone to the buddy; all CPUs' with DrainAll().
  void DrainLocal();
  void DrainAll();

  // The once-a-second work of the running CPU: folds its counters, and drains its lists of remote
  // nodes' zones once they have been idle for 3 ticks.
  void TickCpu();

  // Recomputes watermarks, reserve blocks and totalreserve as a write to min_free_kbytes does. From
  // a task.
  void SetupWatermarks(std::int64_t min_free_kbytes);
  [[nodiscard]] std::int64_t min_free_kbytes() const { return min_free_kbytes_; }
  [[nodiscard]] std::int64_t totalreserve_pages() const { return totalreserve_pages_; }
  [[nodiscard]] bool zone_order() const { return zone_order_; }
  [[nodiscard]] std::int64_t zone_reclaim_mode() const { return zone_reclaim_mode_; }
  [[nodiscard]] int effective_pageblock_order() const;

  // --- boot: on the host, before the engine runs ---

  void BuildZonelists();
  // min_free_kbytes as configured or computed, watermarks, lowmem reserves, counter thresholds.
  void BootWatermarks();

 private:
  struct Request {
    Gfp gfp;
    int order;
    int node;  // position
    std::span<Zone* const> zonelist{};
  };

  [[nodiscard]] int PositionOf(const Cpu& cpu) const {
    return cpu_node_[static_cast<std::size_t>(cpu.id.n)];
  }
  std::optional<FrameNo> Walk(const Request& request, Mark mark, std::uint32_t flags);
  // full: where zones found full are noted; nullptr: nowhere. `skip` says whether those noted are
  // left out from the second zone on, and tells whether that was so.
  std::optional<FrameNo> WalkOnce(const Request& request, Mark mark, std::uint32_t flags,
                                  FullZones* full, bool& skip);
  bool Acceptable(Zone& zone, const Request& request, Mark mark, int classzone,
                  std::uint32_t flags);
  std::optional<FrameNo> TakeFrom(Zone& zone, const Request& request);
  void Prepare(FrameNo n, const Request& request);
  void CountAlloc(const Zone& preferred, const Zone& zone, const Request& request);

  std::optional<FrameNo> SlowPath(const Request& request);
  std::optional<FrameNo> WithoutWatermarks(const Request& request);
  std::int64_t Reclaim(const Request& request);
  enum class AfterOom : std::uint8_t { kRestart, kPage, kFail };
  AfterOom TryOom(const Request& request, const RetryRule::Request& ask,
                  std::optional<FrameNo>& page);
  std::optional<FrameNo> Fail(const Request& request);
  void WakeKswapds(const Request& request);
  void NapHz50(const Request& request);

  void FreeUnreferenced(FrameNo n, int order, bool cold);
  void ComputeMarks(Zone& zone);
  void SumReserves();
  [[nodiscard]] std::int64_t TotalPresent() const;

  MemoryManager& mm_;
  const std::unique_ptr<RetryRule> retry_;
  std::vector<int> cpu_node_;         // by CpuId, service CPUs too: node position
  std::vector<Zonelists> zonelists_;  // by node position
  Relaxed<std::int64_t> min_free_kbytes_ = 0;
  Relaxed<std::int64_t> totalreserve_pages_ = 0;
  Relaxed<std::int64_t> zone_reclaim_mode_ = 0;
  bool zone_order_ = false;
};

}  // namespace pagestorm::mm
