#include "mm/page_cache.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "mm/dirty.h"
#include "mm/disk.h"
#include "mm/flusher.h"
#include "mm/frame_ref.h"
#include "mm/page_alloc.h"
#include "mm/page_lock.h"
#include "mm/pagevec.h"
#include "mm/throttle.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"

namespace pagestorm::mm {
namespace {

constexpr std::uint32_t kWordBits = 64;
constexpr std::int64_t kFilePagesMax = std::int64_t{1} << 31;

std::unique_ptr<BlockDevice> MakeFileDisk(MemoryManager& mm) {
  constexpr std::int64_t kBatchTimesASecond = 50;  // HZ/50: how long a batcher may exceed the pool
  return std::make_unique<Disk>(
      mm.engine, mm.config.disk, mm.costs, mm.page_shift(), mm.policy.reclaim.submission_blocks,
      Ns{kSecond.n / kBatchTimesASecond},
      [&mm](IoDirection direction) { mm.writeback->NoteReleased(direction); });
}

// A frame's file may be asked for without the page lock, by those who then take it and ask again.
std::uint32_t Get(const std::uint32_t& field) {
  return std::atomic_ref(const_cast<std::uint32_t&>(field)).load(std::memory_order_relaxed);
}
void Put(std::uint32_t& field, std::uint32_t value) {
  std::atomic_ref(field).store(value, std::memory_order_relaxed);
}

}  // namespace

File::File(Engine& engine, FileId number, std::uint32_t page_count, std::uint64_t sector,
           bool stamps)
    : id(number),
      pages(page_count),
      first_sector(sector),
      i_mutex(engine, "i_mutex", static_cast<std::int64_t>(number)),
      tree_lock(engine, LockRank::kSwapCache, "mapping.tree_lock"),
      frames(page_count, kNoFrame),
      dirty_tags((page_count + kWordBits - 1) / kWordBits, 0) {
  if (stamps) content = std::make_unique<std::atomic<std::uint64_t>[]>(page_count);
}

PageCache::PageCache(MemoryManager& mm)
    : mm_(mm),
      device_(MakeFileDisk(mm)),
      flusher_(std::make_unique<Flusher>(mm, *this)),
      throttle_(std::make_unique<DirtyThrottle>(mm, *this)),
      mu_(mm.engine.kind()) {
  device_->on_complete = [this](IoDirection direction, std::uint64_t, FrameNo n) {
    OnComplete(direction, n);
  };
}

PageCache::~PageCache() = default;

// --- files ---

File& PageCache::CreateFile(Pages pages,
                            const std::function<std::uint64_t(std::uint32_t)>& content) {
  PS_CHECK(pages.n > 0 && pages.n <= kFilePagesMax, "a file has 1..2^31 pages");
  const auto count = static_cast<std::uint32_t>(pages.n);
  File* file = nullptr;
  {
    std::lock_guard guard(mu_);
    const auto id = static_cast<FileId>(files_.size() + 1);
    file = &files_.emplace_back(mm_.engine, id, count, next_sector_, mm_.config.stamps);
    next_sector_ += count;
  }
  if (content && file->content) {
    for (std::uint32_t page = 0; page < count; ++page) {
      file->content[page].store(content(page), std::memory_order_relaxed);
    }
  }
  if (!started_.exchange(true, std::memory_order_acq_rel)) StartDaemons();
  return *file;
}

void PageCache::FillAtBoot() {
  const std::int64_t pages = std::min(mm_.config.page_cache_pages, mm_.vm_total_pages());
  if (pages == 0) return;
  std::vector<int> nodes;  // by position: those with memory
  for (const auto& node : mm_.nodes) {
    if (!node->zones.empty()) nodes.push_back(node->position);
  }
  File& file = CreateFile(Pages{pages});
  const Gfp gfp = GFP_HIGHUSER_MOVABLE | __GFP_COLD | __GFP_NORETRY | __GFP_NOWARN;
  for (std::uint32_t page = 0; page < file.pages; ++page) {
    const std::optional<FrameNo> n = mm_.allocator->Alloc(gfp, 0, nodes[page % nodes.size()]);
    if (!n) return;
    FrameRef ref(mm_, *n);
    PS_CHECK(mm_.page_locks->Trylock(*n));
    const PageLockGuard lock(*mm_.page_locks, *n, PageLockGuard::Already::kLocked);
    PS_CHECK(Insert(file, page, *n));
    mm_.frames.SetStamp(*n, DiskStamp(file, page));
    mm_.frames[*n].Set(kPageUptodate);
    mm_.pagevecs->Add(*n);
  }
}

void PageCache::StartDaemons() {
  mm_.engine.Spawn({.name = "filedisk", .allowed = mm_.config.device_cpus, .daemon = true},
                   [this] { device_->Run(); });
  mm_.engine.AddStallReporter([this] { return "file " + device_->Describe(); });
  mm_.engine.Spawn({.name = "pdflush", .daemon = true, .flags = PF_SWAPWRITE},
                   [this] { flusher_->RunBackground(); });
  mm_.engine.Spawn({.name = "pdflush", .daemon = true, .flags = PF_SWAPWRITE},
                   [this] { flusher_->RunKupdate(); });
}

File& PageCache::FileOf(FileId id) {
  std::lock_guard guard(mu_);
  PS_CHECK(id > 0 && id <= files_.size(), "no such file");
  return files_[id - 1];
}

FileId PageCache::OwnerOf(const PageFrame& frame) { return Get(frame.owner); }

void PageCache::Truncate(File& file) {
  for (std::uint32_t page = 0; page < file.pages; ++page) {
    const std::optional<FrameNo> n = Find(file, page);
    if (!n) continue;
    FrameRef ref(mm_, *n);
    PageLockGuard lock(*mm_.page_locks, *n);
    while (mm_.frames[*n].Test(kPageWriteback)) mm_.page_locks->WaitOnWriteback(*n);
    TruncatePage(file, page, *n);
  }
}

void PageCache::TruncatePage(File& file, std::uint32_t page, FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  SpinGuard guard(file.tree_lock);
  if (file.frames[page] != n) return;
  if (frame.TestAndClear(kPageDirty)) {
    Untag(file, page);
    mm_.vmstat->Add(frame.zone(), ZoneStat::kNrDirty, -1);
    dirty_.fetch_sub(1, std::memory_order_relaxed);
  }
  RemoveLocked(file, n);
}

// --- index ---

std::optional<FrameNo> PageCache::Find(File& file, std::uint32_t page) {
  PS_CHECK(page < file.pages, "access behind the end of a file");
  SpinGuard guard(file.tree_lock);
  const FrameNo n = file.frames[page];
  if (n == kNoFrame) return std::nullopt;
  mm_.frames[n].refcount.fetch_add(1, std::memory_order_relaxed);
  return n;
}

bool PageCache::Insert(File& file, std::uint32_t page, FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageLocked) && !frame.Test(kPageDirty | kPageUptodate));
  SpinGuard guard(file.tree_lock);
  if (file.frames[page] != kNoFrame) return false;
  Put(frame.owner, file.id);
  Put(frame.index, page);
  frame.refcount.fetch_add(1, std::memory_order_relaxed);
  file.frames[page] = n;
  file.cached.fetch_add(1, std::memory_order_relaxed);
  cached_.fetch_add(1, std::memory_order_relaxed);
  mm_.vmstat->Add(frame.zone(), ZoneStat::kNrFilePages, 1);
  return true;
}

void PageCache::RemoveLocked(File& file, FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  const std::uint32_t page = Get(frame.index);
  PS_CHECK(file.frames[page] == n && !frame.Test(kPageWriteback | kPageDirty));
  file.frames[page] = kNoFrame;
  Put(frame.owner, 0);
  frame.refcount.fetch_sub(1, std::memory_order_acq_rel);
  file.cached.fetch_sub(1, std::memory_order_relaxed);
  cached_.fetch_sub(1, std::memory_order_relaxed);
  mm_.vmstat->Add(frame.zone(), ZoneStat::kNrFilePages, -1);
}

std::optional<PageCache::DirtyPage> PageCache::FindDirty(File& file, std::uint32_t from,
                                                         std::uint32_t end) {
  if (file.dirty.load() == 0) return std::nullopt;
  SpinGuard guard(file.tree_lock);
  for (std::uint32_t page = from; page < end;) {
    const std::uint64_t word = file.dirty_tags[page / kWordBits] >> (page % kWordBits);
    if (word == 0) {
      page = (page / kWordBits + 1) * kWordBits;
      continue;
    }
    page += static_cast<std::uint32_t>(std::countr_zero(word));
    if (page >= end) break;
    const FrameNo n = file.frames[page];
    mm_.frames[n].refcount.fetch_add(1, std::memory_order_relaxed);
    return DirtyPage{page, n};
  }
  return std::nullopt;
}

// Under tree_lock, as Untag().
void PageCache::Tag(File& file, std::uint32_t page) {
  std::uint64_t& word = file.dirty_tags[page / kWordBits];
  const std::uint64_t bit = std::uint64_t{1} << (page % kWordBits);
  PS_CHECK((word & bit) == 0, "a clean page with a dirty tag");
  word |= bit;
  file.dirty.fetch_add(1);
}

void PageCache::Untag(File& file, std::uint32_t page) {
  std::uint64_t& word = file.dirty_tags[page / kWordBits];
  const std::uint64_t bit = std::uint64_t{1} << (page % kWordBits);
  PS_CHECK((word & bit) != 0, "a dirty page without its tag");
  word &= ~bit;
  file.dirty.fetch_sub(1);
}

// --- dirt and I/O ---

void PageCache::SetDirty(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  if (frame.TestAndSet(kPageDirty)) return;
  File& file = FileOf(Get(frame.owner));
  {
    SpinGuard guard(file.tree_lock);
    PS_CHECK(file.frames[Get(frame.index)] == n);
    Tag(file, Get(frame.index));
    mm_.vmstat->Add(frame.zone(), ZoneStat::kNrDirty, 1);
    dirty_.fetch_add(1, std::memory_order_relaxed);
  }
  flusher_->MarkDirty(file);
}

void PageCache::StartRead(File& file, std::uint32_t page, FrameNo n) {
  mm_.vmstat->Count(VmEvent::kPgpgin, ToKiB({1}, mm_.page_shift()));
  // The completion unlocks the page. If Submit throws, nothing was queued and there is none.
  PageLockGuard locked(*mm_.page_locks, n, PageLockGuard::Already::kLocked);
  device_->Submit(IoDirection::kRead, file.first_sector + page, n);
  locked.Release();
}

void PageCache::WritePage(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageLocked) && frame.Test(kPageUptodate) && !frame.Test(kPageWriteback));
  File& file = FileOf(Get(frame.owner));
  const std::uint32_t page = Get(frame.index);
  {
    SpinGuard guard(file.tree_lock);
    mm_.vmstat->Add(frame.zone(), ZoneStat::kNrDirty, -1);
    dirty_.fetch_sub(1, std::memory_order_relaxed);
    Untag(file, page);
    frame.Set(kPageWriteback);
    mm_.vmstat->Add(frame.zone(), ZoneStat::kNrWriteback, 1);
    writeback_.fetch_add(1, std::memory_order_relaxed);
  }
  mm_.vmstat->Count(VmEvent::kPgpgout, ToKiB({1}, mm_.page_shift()));
  mm_.page_locks->Unlock(n);
  // If Submit throws, nothing was queued: the page is as dirty as before.
  struct Submission {
    PageCache& cache;
    FrameNo frame;
    bool done = false;
    ~Submission() {
      if (done) return;
      cache.SetDirty(frame);
      cache.EndWrite(frame);
    }
  } submission{*this, n};
  device_->Submit(IoDirection::kWrite, file.first_sector + page, n);
  submission.done = true;
}

// The page is locked (read) or under writeback, so it stays in its file.
void PageCache::OnComplete(IoDirection direction, FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  File& file = FileOf(Get(frame.owner));
  std::atomic<std::uint64_t>* content = file.content ? &file.content[Get(frame.index)] : nullptr;
  if (direction == IoDirection::kRead) {
    if (content != nullptr) mm_.frames.SetStamp(n, content->load(std::memory_order_relaxed));
    frame.Set(kPageUptodate);
    mm_.page_locks->Unlock(n);
    return;
  }
  // A page that was written to meanwhile is dirty and will come again.
  if (content != nullptr) content->store(mm_.frames.Stamp(n), std::memory_order_relaxed);
  if (frame.TestAndClear(kPageReclaim)) {
    mm_.gate->NoteWritten(mm_.ZoneOf(n));
    mm_.pagevecs->RotateReclaimable(n);
  }
  EndWrite(n);
}

void PageCache::EndWrite(FrameNo n) {
  // The frame may be gone as soon as the bit is cleared.
  mm_.vmstat->Add(mm_.frames[n].zone(), ZoneStat::kNrWriteback, -1);
  writeback_.fetch_sub(1, std::memory_order_relaxed);
  mm_.page_locks->EndWriteback(n);
}

// --- reclaim ---

bool PageCache::MayWrite() const {
  if ((Current().flags & (PF_SWAPWRITE | kTaskWritesFile)) != 0) return true;
  return !device_->Congested(IoDirection::kWrite);
}

bool PageCache::RemoveForReclaim(FrameNo n) {
  PageFrame& frame = mm_.frames[n];
  PS_CHECK(frame.Test(kPageLocked));
  File& file = FileOf(Get(frame.owner));
  SpinGuard guard(file.tree_lock);
  if (frame.refcount.load(std::memory_order_acquire) != 2) return false;
  if (frame.Test(kPageDirty | kPageWriteback)) return false;
  PS_CHECK(!file.content || !frame.Test(kPageUptodate) ||
               mm_.frames.Stamp(n) == DiskStamp(file, Get(frame.index)),
           "a clean file page differs from its disk");
  RemoveLocked(file, n);
  return true;
}

// --- reports and checks ---

std::uint64_t PageCache::DiskStamp(const File& file, std::uint32_t page) {
  return file.content ? file.content[page].load(std::memory_order_relaxed) : 0;
}

std::uint64_t PageCache::PeekStamp(const File& file, std::uint32_t page) const {
  const FrameNo n = file.frames[page];
  if (n != kNoFrame && mm_.frames[n].Test(kPageUptodate)) return mm_.frames.Stamp(n);
  return DiskStamp(file, page);
}

std::string PageCache::CheckFile(const File& file, std::int64_t& dirty) const {
  std::int64_t cached = 0;
  for (std::uint32_t page = 0; page < file.pages; ++page) {
    const bool tag = (file.dirty_tags[page / kWordBits] >> (page % kWordBits) & 1) != 0;
    const FrameNo n = file.frames[page];
    const auto wrong = [&](const char* what) {
      return absl::StrCat("file ", file.id, " page ", page, ": ", what);
    };
    if (n == kNoFrame) {
      if (tag) return wrong("is tagged dirty and not cached");
      continue;
    }
    const PageFrame& frame = mm_.frames[n];
    ++cached;
    dirty += tag ? 1 : 0;
    if (!Holds(frame) || frame.owner != file.id || frame.index != page) {
      return wrong("its frame does not know of it");
    }
    if (frame.refcount.load() == 0) return wrong("its frame is free");
    if (tag != frame.Test(kPageDirty)) return wrong("tag and dirty bit differ");
    const bool settled = frame.Test(kPageUptodate) && !frame.Test(kPageDirty | kPageWriteback);
    if (settled && file.content && mm_.frames.Stamp(n) != DiskStamp(file, page)) {
      return wrong("is clean and differs from its disk");
    }
  }
  if (cached != file.cached.load()) {
    return absl::StrCat("file ", file.id, " has ", cached, " cached pages, counted ",
                        file.cached.load());
  }
  return {};
}

std::string PageCache::CheckInvariants() {
  std::int64_t dirty = 0;
  std::int64_t cached = 0;
  for (const File& file : files_) {
    std::string wrong = CheckFile(file, dirty);
    if (!wrong.empty()) return wrong;
    cached += file.cached.load();
  }
  std::int64_t counted = 0;
  for (std::size_t zone = 0; zone < mm_.zones.size(); ++zone) {
    counted += mm_.vmstat->Exact(zone, ZoneStat::kNrDirty);
  }
  if (dirty != dirty_pages() || dirty != counted) {
    return absl::StrCat(dirty, " file pages are dirty, the disk counts ", dirty_pages(),
                        " and nr_dirty says ", counted);
  }
  if (cached != cached_pages()) {
    return absl::StrCat(cached, " file pages are cached, counted ", cached_pages());
  }
  return {};
}

}  // namespace pagestorm::mm
