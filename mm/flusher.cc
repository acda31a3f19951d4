#include "mm/flusher.h"

#include "mm/frame_ref.h"
#include "mm/page_lock.h"
#include "mm/relaxed.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"

namespace pagestorm::mm {

Flusher::Flusher(MemoryManager& mm, PageCache& cache)
    : mm_(mm),
      cache_(cache),
      inode_lock_(mm.engine, LockRank::kLeaf, "inode_lock"),
      queue_(mm.engine, "pdflush: nothing to write") {}

// The unlocked look is safe: the caller has tagged a page before it, and whoever makes the file
// clean looks for tags afterwards.
void Flusher::MarkDirty(File& file) {
  if (file.dirtiness.load() != FileDirtiness::kClean) return;
  SpinGuard guard(inode_lock_);
  if (file.dirtiness.load() != FileDirtiness::kClean) return;
  file.dirtied_when = Now();
  file.dirtiness.store(FileDirtiness::kDirty);
  dirty_.push_back(&file);
}

void Flusher::QueueIo(const WritebackControl& control) {
  const auto move = [this](std::deque<File*>& from) {
    from.front()->dirtiness.store(FileDirtiness::kIo);
    io_.push_back(from.front());
    from.pop_front();
  };
  while (!more_io_.empty()) move(more_io_);
  while (!dirty_.empty()) {
    if (control.older_than && dirty_.front()->dirtied_when > *control.older_than) break;
    move(dirty_);
  }
}

File* Flusher::TakeNext(WritebackControl& control) {
  SpinGuard guard(inode_lock_);
  if (io_.empty()) return nullptr;
  if (control.nonblocking && cache_.device().Congested(IoDirection::kWrite)) {
    control.encountered_congestion = true;
    return nullptr;
  }
  File* file = io_.front();
  io_.pop_front();
  file->dirtiness.store(FileDirtiness::kWriting);
  return file;
}

void Flusher::Finish(File& file, const WritebackControl& control) {
  SpinGuard guard(inode_lock_);
  file.dirtiness.store(FileDirtiness::kClean);
  if (file.dirty.load() == 0) return;
  if (control.nr_to_write <= 0) {
    file.dirtiness.store(FileDirtiness::kMoreIo);
    more_io_.push_back(&file);
    return;
  }
  file.dirtied_when = Now();
  file.dirtiness.store(FileDirtiness::kDirty);
  dirty_.push_back(&file);
}

// A file that is being written goes back to a list, or off them, on every way out.
class Flusher::Writing {
 public:
  Writing(Flusher& flusher, File& file, const WritebackControl& control)
      : flusher_(flusher), file_(file), control_(control) {}
  ~Writing() { flusher_.Finish(file_, control_); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  Flusher& flusher_;
  File& file_;
  const WritebackControl& control_;
};

void Flusher::WriteInodes(WritebackControl& control) {
  {
    SpinGuard guard(inode_lock_);
    if (io_.empty()) QueueIo(control);
  }
  while (control.nr_to_write > 0) {
    File* file = TakeNext(control);
    if (file == nullptr) break;
    Writing writing(*this, *file, control);
    WriteFile(*file, control);
  }
  SpinGuard guard(inode_lock_);
  if (!more_io_.empty()) control.more_io = true;
}

// From where the last round ended, to the end, and round to there.
void Flusher::WriteFile(File& file, WritebackControl& control) {
  const std::uint32_t start = file.writeback_index;
  std::uint32_t page = start;
  std::uint32_t end = file.pages;
  while (control.nr_to_write > 0) {
    const auto found = cache_.FindDirty(file, page, end);
    if (!found) {
      if (end == start || start == 0) break;
      page = 0;
      end = start;
      continue;
    }
    page = found->page + 1;
    file.writeback_index = page == file.pages ? 0 : page;
    if (WriteOne(file, found->frame)) --control.nr_to_write;
    if (control.nonblocking && cache_.device().Congested(IoDirection::kWrite)) {
      control.encountered_congestion = true;
      break;
    }
    CondResched();
  }
}

bool Flusher::WriteOne(File& file, FrameNo n) {
  FrameRef ref(mm_, n);
  PageFrame& frame = mm_.frames[n];
  PageLockGuard lock(*mm_.page_locks, n);
  if (!PageCache::Holds(frame) || PageCache::OwnerOf(frame) != file.id) return false;
  if (frame.Test(kPageWriteback) || !frame.TestAndClear(kPageDirty)) return false;
  lock.Release();
  cache_.WritePage(n);
  return true;
}

std::int64_t Flusher::BackgroundWriteout(std::int64_t min_pages) {
  const VmStat& stat = *mm_.vmstat;
  std::int64_t written = 0;
  for (;;) {
    const std::int64_t dirty = stat.Global(ZoneStat::kNrDirty) + stat.Global(ZoneStat::kNrUnstable);
    if (dirty < mm_.writeback->Limits().background && written >= min_pages) break;
    WritebackControl control{.nonblocking = true};
    WriteInodes(control);
    written += kWritebackPagesMax - control.nr_to_write;
    if (control.nr_to_write <= 0) continue;
    if (!control.encountered_congestion && !control.more_io) break;
    mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
  }
  background_.fetch_add(written, std::memory_order_relaxed);
  return written;
}

std::int64_t Flusher::Kupdate() {
  const VmStat& stat = *mm_.vmstat;
  const Ns oldest{Now().n - kDirtyExpire.n};
  std::int64_t left = stat.Global(ZoneStat::kNrDirty) + stat.Global(ZoneStat::kNrUnstable);
  std::int64_t written = 0;
  while (left > 0) {
    WritebackControl control{.older_than = oldest, .nonblocking = true};
    WriteInodes(control);
    written += kWritebackPagesMax - control.nr_to_write;
    left -= kWritebackPagesMax - control.nr_to_write;
    if (control.nr_to_write <= 0) continue;
    if (!control.encountered_congestion && !control.more_io) break;
    mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
  }
  kupdate_.fetch_add(written, std::memory_order_relaxed);
  return written;
}

void Flusher::WakeBackground(std::int64_t min_pages) {
  if (!cache_.started()) return;
  RaiseTo(wanted_, min_pages, std::memory_order_seq_cst);
  queue_.WakeOne();
}

void Flusher::RunBackground() {
  for (;;) {
    std::int64_t wanted = -1;
    queue_.Wait([this, &wanted] {
      wanted = wanted_.exchange(-1);
      return wanted >= 0;
    });
    busy_.store(true, std::memory_order_relaxed);
    BackgroundWriteout(wanted);
    busy_.store(false, std::memory_order_relaxed);
  }
}

void Flusher::RunKupdate() {
  for (;;) {
    SleepForHousekeeping(kDirtyWritebackInterval);
    Kupdate();
  }
}

Flusher::Counts Flusher::counts() const {
  return {.background = background_.load(std::memory_order_relaxed),
          .kupdate = kupdate_.load(std::memory_order_relaxed)};
}

}  // namespace pagestorm::mm
