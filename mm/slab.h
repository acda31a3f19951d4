// Slab caches whose objects can be given back under pressure (dentries, inodes, buffer heads), and
// the list of shrinkers through which reclaim asks for that.
//
// A cache fills frames with objects in order and gives the oldest objects back first; a frame
// returns to the allocator with its last object. Frames carry kPageSlab and count as
// nr_slab_reclaimable. Source: spec throttle-2.6.26 2.19, 3.1; what the trial found about slab
// progress: reproducing.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/sleep_lock.h"
#include "core/spin_lock.h"
#include "mm/gfp.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

inline constexpr std::int64_t kDefaultSeeks = 2;
inline constexpr std::int64_t kShrinkBatch = 128;

// What one slab pass did. `pages` is what the task's reclaim counter saw: 0 if the allocator does
// not feed it.
struct SlabProgress {
  std::int64_t objects = 0;
  std::int64_t pages = 0;
};

// One who can give memory back. Count and shrink may be called by many tasks at once.
struct Shrinker {
  std::string name;
  std::int64_t seeks = kDefaultSeeks;
  std::function<std::int64_t()> count;  // objects it could free
  // Looks at up to n objects. Returns pages freed, or -1 if it may not in this context (no
  // __GFP_FS).
  std::function<std::int64_t(std::int64_t n, Gfp gfp)> shrink;
  std::atomic<std::int64_t> pending{0};  // scans owed; unlocked as in the kernel
};

class SlabCache {
 public:
  // object_bytes <= page size. reclaimable: registered as a shrinker that needs __GFP_FS.
  SlabCache(MemoryManager& mm, std::string name, std::int64_t object_bytes);
  ~SlabCache() = default;  // its frames go with the machine
  SlabCache(const SlabCache&) = delete;
  SlabCache& operator=(const SlabCache&) = delete;

  // Adds n objects, all reclaimable at once. Returns how many there was memory for.
  std::int64_t Grow(std::int64_t n, Gfp gfp = GFP_KERNEL, int node = -1);
  // One page more, full of objects. False: no memory.
  bool GrowPage(Gfp gfp, int node) { return Grow(per_page_, gfp, node) == per_page_; }
  // Gives back the n oldest objects. Returns pages freed.
  std::int64_t Shrink(std::int64_t n);
  [[nodiscard]] std::int64_t objects() const { return objects_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t pages() const { return pages_.load(std::memory_order_relaxed); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Slab {
    FrameNo frame = kNoFrame;
    std::int64_t live = 0;
  };
  bool AddPage(Gfp gfp, int node);

  MemoryManager& mm_;
  const std::string name_;
  const std::int64_t per_page_;
  SpinLock lock_;
  std::deque<Slab> slabs_;  // oldest first: lock_
  std::int64_t free_ = 0;   // unused places in the newest slab: lock_
  std::atomic<std::int64_t> objects_{0};
  std::atomic<std::int64_t> pages_{0};
};

class SlabCaches {
 public:
  explicit SlabCaches(MemoryManager& mm);

  // A cache with a shrinker of that name; it lives as long as this. Before there are tasks, or from
  // one: that waits until no slab pass is under way, and throws Cancelled at shutdown.
  SlabCache& AddCache(std::string name, std::int64_t object_bytes,
                      std::int64_t seeks = kDefaultSeeks);
  // register_shrinker for something else. From where, and with what waits, as AddCache.
  Shrinker& AddShrinker(std::string name, std::int64_t seeks, std::function<std::int64_t()> count,
                        std::function<std::int64_t(std::int64_t, Gfp)> shrink);
  // shrink_slab: presses every shrinker in proportion to scanned / lru_pages. {1, 0} if the list is
  // being changed. May sleep.
  SlabProgress Shrink(std::int64_t scanned, Gfp gfp, std::int64_t lru_pages);
  // From a task, once: fills the caches that every machine has with
  // MmConfig::slab_reclaimable_pages pages of objects, all nodes alike. Stops when there is no
  // memory for it.
  void FillAtBoot();

 private:
  class Registration;
  SlabCache& NewCache(std::string name, std::int64_t object_bytes, std::int64_t seeks);
  Shrinker& NewShrinker(std::string name, std::int64_t seeks, std::function<std::int64_t()> count,
                        std::function<std::int64_t(std::int64_t, Gfp)> shrink);
  SlabProgress Press(Shrinker& shrinker, std::int64_t scanned, Gfp gfp, std::int64_t lru_pages);

  MemoryManager& mm_;
  RwSem shrinker_rwsem_;  // the two lists
  std::deque<SlabCache> caches_;
  std::deque<Shrinker> shrinkers_;
};

// What a shrinker owes for `scanned` of lru_pages + 1 pages: (4 * scanned / seeks) * objects /
// (lru_pages + 1).
[[nodiscard]] constexpr std::int64_t SlabScanDelta(std::int64_t scanned, std::int64_t seeks,
                                                   std::int64_t objects, std::int64_t lru_pages) {
  return (4 * scanned / seeks) * objects / (lru_pages + 1);
}

}  // namespace pagestorm::mm
