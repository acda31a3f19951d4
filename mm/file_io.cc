#include "mm/file_io.h"

#include <algorithm>
#include <optional>

#include "core/check.h"
#include "mm/dirty.h"
#include "mm/frame_ref.h"
#include "mm/memcg.h"
#include "mm/oom.h"
#include "mm/page_lock.h"
#include "mm/pagevec.h"

namespace pagestorm::mm {
namespace {

constexpr std::int64_t kReadAheadBytes = 128 * 1024;

// Whose group pays for a page of a file: the running process's.
const MmStruct* Payer() {
  const auto* self = static_cast<const TaskMm*>(Current().mm);
  return self == nullptr ? nullptr : self->space;
}

// The page, cached or newly being read, with a reference; nullopt: no memory.
std::optional<FrameNo> ReadAsync(MemoryManager& mm, File& file, std::uint32_t page) {
  PageCache& cache = *mm.page_cache;
  for (;;) {
    if (const std::optional<FrameNo> cached = cache.Find(file, page)) return cached;
    const std::optional<FrameNo> fresh =
        AllocCharged(mm, GFP_HIGHUSER_MOVABLE | __GFP_COLD, Payer(), ChargeAs::kCache);
    if (!fresh) return std::nullopt;
    FrameRef ref(mm, *fresh);
    PS_CHECK(mm.page_locks->Trylock(*fresh));
    PageLockGuard lock(*mm.page_locks, *fresh, PageLockGuard::Already::kLocked);
    if (!cache.Insert(file, page, *fresh)) continue;  // another reader was first
    mm.pagevecs->Add(*fresh);
    lock.Release();
    cache.StartRead(file, page, *fresh);
    return ref.Release();
  }
}

// Pages that are cached already are left alone; the first one without memory ends it.
void ReadAhead(MemoryManager& mm, OpenFile& open, std::uint32_t from) {
  const std::uint32_t end =
      from + std::min(ReadAheadPages(mm.page_shift()), open.file->pages - from);
  open.window_end = end;
  for (std::uint32_t page = from; page < end; ++page) {
    const std::optional<FrameNo> n = ReadAsync(mm, *open.file, page);
    if (!n) return;
    ReleasePage(mm, *n);
  }
}

void ReadAheadOnMiss(MemoryManager& mm, OpenFile& open, std::uint32_t page) {
  if (page != open.next) {
    open.marker = UINT32_MAX;
    return;
  }
  open.marker = page + 1;
  ReadAhead(mm, open, page);
}

void ReadAheadAtMarker(MemoryManager& mm, OpenFile& open, std::uint32_t page) {
  if (page != open.marker || open.window_end >= open.file->pages) return;
  if (mm.page_cache->device().Congested(IoDirection::kRead)) return;
  open.marker = open.window_end;
  ReadAhead(mm, open, open.window_end);
}

// Waits for the page's content. False: the page was taken out of the file meanwhile.
bool WaitUptodate(MemoryManager& mm, const File& file, FrameNo n) {
  const PageFrame& frame = mm.frames[n];
  if (frame.Test(kPageUptodate)) return true;
  PageLockGuard lock(*mm.page_locks, n);
  if (!PageCache::Holds(frame) || PageCache::OwnerOf(frame) != file.id) return false;
  if (frame.Test(kPageUptodate)) return true;
  CondResched();  // only shutdown leaves a page behind that was never read
  PS_CHECK(false, "a file page was unlocked before its read completed");
  return false;
}

// The page locked, with a reference, from the cache or new; nullopt: no memory.
std::optional<FrameNo> GrabLocked(MemoryManager& mm, File& file, std::uint32_t page) {
  PageCache& cache = *mm.page_cache;
  for (;;) {
    if (const std::optional<FrameNo> cached = cache.Find(file, page)) {
      FrameRef ref(mm, *cached);
      PageLockGuard lock(*mm.page_locks, *cached);
      const PageFrame& frame = mm.frames[*cached];
      if (!PageCache::Holds(frame) || PageCache::OwnerOf(frame) != file.id) continue;
      lock.Release();
      return ref.Release();
    }
    const std::optional<FrameNo> fresh =
        AllocCharged(mm, GFP_HIGHUSER_MOVABLE, Payer(), ChargeAs::kCache);
    if (!fresh) return std::nullopt;
    FrameRef ref(mm, *fresh);
    PS_CHECK(mm.page_locks->Trylock(*fresh));
    PageLockGuard lock(*mm.page_locks, *fresh, PageLockGuard::Already::kLocked);
    if (!cache.Insert(file, page, *fresh)) continue;
    mm.pagevecs->Add(*fresh);
    lock.Release();
    return ref.Release();
  }
}

class WritingScope {
 public:
  WritingScope() { Current().flags |= kTaskWritesFile; }
  ~WritingScope() { Current().flags &= ~kTaskWritesFile; }
  WritingScope(const WritingScope&) = delete;
  WritingScope& operator=(const WritingScope&) = delete;
};

FileResult WriteLocked(MemoryManager& mm, File& file, std::uint32_t page, std::uint64_t stamp) {
  SleepGuard one_writer(file.i_mutex);
  WritingScope writing;
  const std::optional<FrameNo> n = GrabLocked(mm, file, page);
  if (!n) return FileResult::kNoMemory;
  FrameRef ref(mm, *n);
  {
    PageLockGuard lock(*mm.page_locks, *n, PageLockGuard::Already::kLocked);
    Charge({mm.costs.page_copy_ns});
    mm.frames.SetStamp(*n, stamp);
    mm.frames[*n].Set(kPageUptodate);
    mm.page_cache->SetDirty(*n);
  }
  mm.pagevecs->MarkAccessed(*n);
  ref.Drop();
  mm.page_cache->throttle().BalanceRatelimited();
  return FileResult::kOk;
}

}  // namespace

std::uint32_t ReadAheadPages(PageShift shift) {
  return static_cast<std::uint32_t>(PagesFromBytes(kReadAheadBytes, shift).n);
}

FileResult ReadFilePage(MemoryManager& mm, OpenFile& open, std::uint32_t page,
                        std::uint64_t* stamp) {
  File& file = *open.file;
  Charge({mm.costs.syscall_ns});
  for (;;) {
    std::optional<FrameNo> n = mm.page_cache->Find(file, page);
    if (!n) {
      ReadAheadOnMiss(mm, open, page);
      n = ReadAsync(mm, file, page);
      if (!n) return FileResult::kNoMemory;
    }
    FrameRef ref(mm, *n);
    ReadAheadAtMarker(mm, open, page);
    if (!WaitUptodate(mm, file, *n)) continue;
    // page + 1 == next: the same page as the last time.
    if (page + 1 != open.next) mm.pagevecs->MarkAccessed(*n);
    open.next = page + 1;
    Charge({mm.costs.page_copy_ns});
    *stamp = mm.frames.Stamp(*n);
    break;
  }
  ReturnToUser();
  return FileResult::kOk;
}

FileResult WriteFilePage(MemoryManager& mm, OpenFile& open, std::uint32_t page,
                         std::uint64_t stamp) {
  Charge({mm.costs.syscall_ns});
  const FileResult result = WriteLocked(mm, *open.file, page, stamp);
  ReturnToUser();
  return result;
}

}  // namespace pagestorm::mm
