#include "mm/slab.h"

#include <algorithm>
#include <array>

#include "mm/page_alloc.h"
#include "mm/page_frame.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {
namespace {

// What a running system of the time can give back. Object sizes: x86-64 with ext3, rounded.
struct BootCache {
  const char* name;
  std::int64_t object_bytes;
};
constexpr std::array<BootCache, 3> kBootCaches{
    {{"dentry", 208}, {"inode", 760}, {"buffer_head", 104}}};

std::int64_t ObjectsPerPage(const MemoryManager& mm, std::int64_t object_bytes) {
  const std::int64_t page = ToBytes({1}, mm.page_shift());
  PS_CHECK(object_bytes > 0 && object_bytes <= page, "slab object larger than a page");
  return page / object_bytes;
}

class SharedGuard {
 public:
  explicit SharedGuard(RwSem& sem) : sem_(sem) {}
  ~SharedGuard() { sem_.unlock_shared(); }
  SharedGuard(const SharedGuard&) = delete;
  SharedGuard& operator=(const SharedGuard&) = delete;

 private:
  RwSem& sem_;
};

}  // namespace

SlabCache::SlabCache(MemoryManager& mm, std::string name, std::int64_t object_bytes)
    : mm_(mm),
      name_(std::move(name)),
      per_page_(ObjectsPerPage(mm, object_bytes)),
      lock_(mm.engine, LockRank::kLeaf, "slab_list_lock") {}

bool SlabCache::AddPage(Gfp gfp, int node) {
  const auto frame = mm_.allocator->Alloc(gfp | __GFP_RECLAIMABLE, 0, node);
  if (!frame) return false;
  mm_.frames[*frame].Set(kPageSlab);
  mm_.vmstat->Add(mm_.frames[*frame].zone(), ZoneStat::kNrSlabReclaimable, 1);
  pages_.fetch_add(1, std::memory_order_relaxed);
  SpinGuard guard(lock_);
  slabs_.push_back({.frame = *frame});
  free_ = per_page_;
  return true;
}

std::int64_t SlabCache::Grow(std::int64_t n, Gfp gfp, int node) {
  std::int64_t added = 0;
  while (added < n) {
    {
      SpinGuard guard(lock_);
      const std::int64_t some = std::min(free_, n - added);
      if (some > 0) {
        slabs_.back().live += some;
        free_ -= some;
        added += some;
        objects_.fetch_add(some, std::memory_order_relaxed);
      }
    }
    if (added < n && !AddPage(gfp, node)) break;
  }
  return added;
}

std::int64_t SlabCache::Shrink(std::int64_t n) {
  std::vector<FrameNo> empty;
  {
    SpinGuard guard(lock_);
    while (n > 0 && !slabs_.empty()) {
      Slab& slab = slabs_.front();
      const std::int64_t some = std::min(n, slab.live);
      slab.live -= some;
      n -= some;
      objects_.fetch_sub(some, std::memory_order_relaxed);
      Charge({some * mm_.costs.slab_object_ns});
      if (slab.live > 0) break;
      if (slabs_.size() == 1) free_ = 0;
      empty.push_back(slab.frame);
      slabs_.pop_front();
    }
  }
  for (const FrameNo n_freed : empty) {
    mm_.vmstat->Add(mm_.frames[n_freed].zone(), ZoneStat::kNrSlabReclaimable, -1);
    mm_.frames[n_freed].Clear(kPageSlab);
    mm_.allocator->Free(n_freed, 0, /*cold=*/false);
  }
  pages_.fetch_sub(static_cast<std::int64_t>(empty.size()), std::memory_order_relaxed);
  return static_cast<std::int64_t>(empty.size());
}

// shrinker_rwsem exclusively, for whoever changes the lists. Before there are tasks nobody can be
// reading them, and nobody could wait.
class SlabCaches::Registration {
 public:
  explicit Registration(SlabCaches& caches) : sem_(caches.shrinker_rwsem_) {
    held_ = caches.mm_.engine.live_tasks() > 0;
    if (held_) sem_.lock();
  }
  ~Registration() {
    if (held_) sem_.unlock();
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  RwSem& sem_;
  bool held_ = false;
};

SlabCaches::SlabCaches(MemoryManager& mm) : mm_(mm), shrinker_rwsem_(mm.engine, "shrinker_rwsem") {
  for (const BootCache& cache : kBootCaches)
    NewCache(cache.name, cache.object_bytes, kDefaultSeeks);
}

void SlabCaches::FillAtBoot() {
  const Gfp gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
  for (std::int64_t i = 0; i < mm_.config.slab_reclaimable_pages; ++i) {
    const auto turn = static_cast<std::size_t>(i);
    const std::size_t node = turn / kBootCaches.size() % mm_.nodes.size();
    if (!caches_[turn % kBootCaches.size()].GrowPage(gfp, static_cast<int>(node))) return;
  }
}

SlabCache& SlabCaches::AddCache(std::string name, std::int64_t object_bytes, std::int64_t seeks) {
  const Registration registration(*this);
  return NewCache(std::move(name), object_bytes, seeks);
}

Shrinker& SlabCaches::AddShrinker(std::string name, std::int64_t seeks,
                                  std::function<std::int64_t()> count,
                                  std::function<std::int64_t(std::int64_t, Gfp)> shrink) {
  const Registration registration(*this);
  return NewShrinker(std::move(name), seeks, std::move(count), std::move(shrink));
}

SlabCache& SlabCaches::NewCache(std::string name, std::int64_t object_bytes, std::int64_t seeks) {
  SlabCache& cache = caches_.emplace_back(mm_, name, object_bytes);
  NewShrinker(
      std::move(name), seeks, [&cache] { return cache.objects(); },
      [&cache](std::int64_t n, Gfp gfp) {
        return (gfp & __GFP_FS) != 0 ? cache.Shrink(n) : std::int64_t{-1};
      });
  return cache;
}

Shrinker& SlabCaches::NewShrinker(std::string name, std::int64_t seeks,
                                  std::function<std::int64_t()> count,
                                  std::function<std::int64_t(std::int64_t, Gfp)> shrink) {
  PS_CHECK(seeks > 0, "a shrinker's seeks are positive");
  Shrinker& shrinker = shrinkers_.emplace_back();
  shrinker.name = std::move(name);
  shrinker.seeks = seeks;
  shrinker.count = std::move(count);
  shrinker.shrink = std::move(shrink);
  return shrinker;
}

SlabProgress SlabCaches::Shrink(std::int64_t scanned, Gfp gfp, std::int64_t lru_pages) {
  if (scanned == 0) scanned = kSwapClusterMax;
  if (!shrinker_rwsem_.try_lock_shared()) return {.objects = 1, .pages = 0};
  SharedGuard guard(shrinker_rwsem_);
  SlabProgress all;
  for (Shrinker& shrinker : shrinkers_) {
    const SlabProgress some = Press(shrinker, scanned, gfp, lru_pages);
    all.objects += some.objects;
    all.pages += some.pages;
  }
  if (!mm_.policy.reclaim.slab_counts_as_progress) all.pages = 0;
  return all;
}

SlabProgress SlabCaches::Press(Shrinker& shrinker, std::int64_t scanned, Gfp gfp,
                               std::int64_t lru_pages) {
  const std::int64_t objects = shrinker.count();
  std::int64_t owed = shrinker.pending.load(std::memory_order_relaxed) +
                      SlabScanDelta(scanned, shrinker.seeks, objects, lru_pages);
  owed = std::min(owed, 2 * objects);
  shrinker.pending.store(0, std::memory_order_relaxed);
  SlabProgress progress;
  for (; owed >= kShrinkBatch; owed -= kShrinkBatch) {
    const std::int64_t before = shrinker.count();
    const std::int64_t pages = shrinker.shrink(kShrinkBatch, gfp);
    if (pages < 0) break;
    progress.pages += pages;
    progress.objects += std::max<std::int64_t>(0, before - shrinker.count());
    mm_.vmstat->Count(VmEvent::kSlabsScanned, kShrinkBatch);
    CondResched();
  }
  shrinker.pending.store(shrinker.pending.load(std::memory_order_relaxed) + owed,
                         std::memory_order_relaxed);
  return progress;
}

}  // namespace pagestorm::mm
