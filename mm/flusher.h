// pdflush: writes dirty file pages in the background, in order of the age of their files' dirt.
//
// Two daemons share the work: one writes while more than the background limit is dirty (or as much
// as it was asked for), one comes every 5 s for files that have been dirty for 30 s. Both, and
// throttled writers, take the files one after the other from the same lists, and from each file at
// most what is left of their chunk. Simplification: the kernel keeps 2 to 8 pdflush threads; here
// there are always these two. Locks: inode_lock (kLeaf) guards the lists and File::dirtied_when.
// Never under a tree_lock.
// Source: spec throttle-2.6.26 2.23; intervals: kswapd-4.11 6.1.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "mm/memory_manager.h"
#include "mm/page_cache.h"

namespace pagestorm::mm {

inline constexpr std::int64_t kWritebackPagesMax = 1024;  // of one round of a daemon
inline constexpr Ns kDirtyWritebackInterval{5 * kSecond.n};
inline constexpr Ns kDirtyExpire{30 * kSecond.n};

// What one round of writing is about, and what became of it (struct writeback_control).
struct WritebackControl {
  std::int64_t nr_to_write = kWritebackPagesMax;  // counts down
  std::optional<Ns> older_than{};                 // only files dirty since this time or longer
  bool nonblocking = false;                       // stop when the disk is congested
  bool encountered_congestion = false;
  bool more_io = false;  // a file had more dirty pages than the round could take
};

class Flusher {
 public:
  Flusher(MemoryManager& mm, PageCache& cache);

  // A page of the file has been tagged dirty. Puts a clean file onto the list.
  void MarkDirty(File& file);
  // writeback_inodes: one round over the dirty files, oldest dirt first. May sleep for requests,
  // not for their completion.
  void WriteInodes(WritebackControl& control);

  // background_writeout: rounds until no more than the background limit is dirty and min_pages were
  // written, or nothing is left to do. Pages written. Naps while the disk is congested.
  std::int64_t BackgroundWriteout(std::int64_t min_pages);
  // wb_kupdate: the files whose dirt has expired. Pages written.
  std::int64_t Kupdate();
  // wakeup_pdflush: asks the background daemon for min_pages (0: whatever is dirty above the
  // limit). From anywhere; ignored while the daemons have not been started.
  void WakeBackground(std::int64_t min_pages);
  // The background daemon is at work, or about to be.
  [[nodiscard]] bool busy() const { return busy_.load(std::memory_order_relaxed); }

  // The tasks' lives.
  [[noreturn]] void RunBackground();
  [[noreturn]] void RunKupdate();

  struct Counts {
    std::int64_t background = 0;  // pages written by the one daemon
    std::int64_t kupdate = 0;     // and by the other
  };
  [[nodiscard]] Counts counts() const;

 private:
  class Writing;
  // Moves the files whose turn it is to io_; under inode_lock.
  void QueueIo(const WritebackControl& control);
  File* TakeNext(WritebackControl& control);
  void Finish(File& file, const WritebackControl& control);
  void WriteFile(File& file, WritebackControl& control);
  // Whether the page was written.
  bool WriteOne(File& file, FrameNo n);

  MemoryManager& mm_;
  PageCache& cache_;
  SpinLock inode_lock_;      // guards what is declared down to the next blank line
  std::deque<File*> dirty_;  // oldest first
  std::deque<File*> io_;
  std::deque<File*> more_io_;

  WaitQueue queue_;
  std::atomic<std::int64_t> wanted_{-1};  // pages asked of the background daemon; -1: nothing
  std::atomic<bool> busy_{false};
  std::atomic<std::int64_t> background_{0};
  std::atomic<std::int64_t> kupdate_{0};
};

}  // namespace pagestorm::mm
