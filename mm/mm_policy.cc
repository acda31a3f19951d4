#include "mm/mm_policy.h"

#include "absl/strings/str_cat.h"
#include "mm/gfp.h"
#include "mm/throttle.h"

namespace pagestorm::mm {
namespace {

absl::Status Range(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " = ", value, ": allowed are ", low, "..", high));
}

absl::Status AtLeast(const char* key, std::int64_t value, std::int64_t low) {
  if (value >= low) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key, " = ", value, ": must be at least ", low));
}

absl::Status Contradiction(const char* one, const char* other) {
  return absl::InvalidArgumentError(absl::StrCat(one, " contradicts ", other));
}

#define PS_RETURN_IF_ERROR(expression) \
  if (absl::Status status = (expression); !status.ok()) return status

absl::Status CheckThrottle(const ThrottlePolicy& throttle) {
  PS_RETURN_IF_ERROR(CheckGates(throttle.gate));
  PS_RETURN_IF_ERROR(AtLeast("throttle.cutoff_mult", throttle.cutoff_mult, 0));
  PS_RETURN_IF_ERROR(AtLeast("throttle.cutoff_mark_mult", throttle.cutoff_mark_mult, 0));
  if (HasGate(throttle.gate, "throttle") && throttle.scope == ThrottleScope::kOff) {
    return Contradiction("throttle.gate = \"throttle\"", "throttle.scope = \"off\"");
  }
  return absl::OkStatus();
}

absl::Status CheckAlloc(const AllocPolicy& alloc) {
  PS_RETURN_IF_ERROR(AtLeast("alloc.min_free_kbytes", alloc.min_free_kbytes, 0));
  if (alloc.percpu_pagelist_fraction != 0 && alloc.percpu_pagelist_fraction < 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("alloc.percpu_pagelist_fraction = ", alloc.percpu_pagelist_fraction,
                     ": must be 0 or at least 8"));
  }
  PS_RETURN_IF_ERROR(Range("alloc.zone_reclaim_mode", alloc.zone_reclaim_mode, -1, 7));
  PS_RETURN_IF_ERROR(Range("alloc.min_unmapped_ratio", alloc.min_unmapped_ratio, 0, 100));
  PS_RETURN_IF_ERROR(Range("alloc.min_slab_ratio", alloc.min_slab_ratio, 0, 100));
  PS_RETURN_IF_ERROR(Range("alloc.struct_page_bytes", alloc.struct_page_bytes, 0, 4096));
  PS_RETURN_IF_ERROR(Range("alloc.pageblock_order", alloc.pageblock_order, 1, kMaxOrder));
  PS_RETURN_IF_ERROR(Range("alloc.watermark.scale_factor", alloc.watermark.scale_factor, 1, 1000));
  PS_RETURN_IF_ERROR(
      AtLeast("alloc.watermark.min_free_kbytes_cap", alloc.watermark.min_free_kbytes_cap, 128));
  return absl::OkStatus();
}

absl::Status CheckReclaim(const ReclaimPolicy& reclaim) {
  PS_RETURN_IF_ERROR(Range("reclaim.swappiness", reclaim.swappiness, 0, 100));
  PS_RETURN_IF_ERROR(Range("reclaim.page_cluster", reclaim.page_cluster, 0, 10));
  PS_RETURN_IF_ERROR(AtLeast("reclaim.nap_min_io_pages", reclaim.nap_min_io_pages, 0));
  PS_RETURN_IF_ERROR(AtLeast("reclaim.bail_out_pages", reclaim.bail_out_pages, 0));
  return absl::OkStatus();
}

// The lists of split LRU, and pages that are isolated and on a list, are the locked design's alone.
absl::Status CheckLru(LruDesign lru, const ReclaimPolicy& reclaim) {
  if (lru == LruDesign::kLocked) return absl::OkStatus();
  const char* name = lru == LruDesign::kRing ? "lru = \"ring\"" : "lru = \"clock\"";
  if (reclaim.split_lru) return Contradiction(name, "reclaim.split_lru = true");
  if (reclaim.isolated_visible) return Contradiction(name, "reclaim.isolated_visible = true");
  return absl::OkStatus();
}

}  // namespace

absl::Status MmPolicy::Validate() const {
  if (hz <= 0 || hz > 10'000 || kSecond.n % hz != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("hz = ", hz, ": must divide a second, like 100, 250, 1000"));
  }
  PS_RETURN_IF_ERROR(CheckThrottle(throttle));
  PS_RETURN_IF_ERROR(CheckAlloc(alloc));
  PS_RETURN_IF_ERROR(CheckReclaim(reclaim));
  PS_RETURN_IF_ERROR(CheckLru(lru, reclaim));
  PS_RETURN_IF_ERROR(Range("dirty.dirty_ratio", dirty.dirty_ratio, 0, 100));
  PS_RETURN_IF_ERROR(Range("dirty.dirty_background_ratio", dirty.dirty_background_ratio, 0, 100));
  if (memcg.lru == MemcgLru::kPerCgroup && lru != LruDesign::kLocked) {
    return Contradiction("memcg.lru = \"per_cgroup\"", "an lru other than \"locked\"");
  }
  // Visible batches hold no references, so that the group of a frame could change under them.
  if (memcg.lru == MemcgLru::kPerCgroup && reclaim.isolated_visible) {
    return Contradiction("memcg.lru = \"per_cgroup\"", "reclaim.isolated_visible = true");
  }
  PS_RETURN_IF_ERROR(Range("oom.panic_on_oom", oom.panic_on_oom, 0, 2));
  return absl::OkStatus();
}

}  // namespace pagestorm::mm
