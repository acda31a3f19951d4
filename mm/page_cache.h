// The page cache: which frame holds which page of which file, which pages are dirty or being
// written, and the way to the files' disk and back.
//
// A cached frame has its file's number in `owner`, its page number in `index`, and one reference
// from here; it is neither anonymous nor swap-backed. A page's content is a stamp, on disk as in
// memory; a clean, up-to-date page equals what is on disk, which every removal verifies. Files lie
// contiguously on a disk of their own, apart from the swap device (ADR 0018), and have no buffer
// heads; pages that are mapped into address spaces are not modelled.
// Locks: a file's tree_lock (kSwapCache, as the swap cache's own) guards its index and tags. It is
// a plain spin lock where the kernel has a read-write one: lookups keep each other out too.
// Source: spec throttle-2.6.26 2.15, 2.18, 2.22, 2.23.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/raw_lock.h"
#include "core/sleep_lock.h"
#include "core/spin_lock.h"
#include "mm/block_device.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

class DirtyThrottle;
class Flusher;

using FileId = std::uint32_t;  // from 1; 0: none

// Task::flags: the task is inside a write to a file, so reclaim may make it wait for that disk even
// if it is congested. Stands for the kernel's pointer current->backing_dev_info, which is no flag
// there.
inline constexpr std::uint32_t kTaskWritesFile = 0x20000000;

// Where a file stands with the flusher.
enum class FileDirtiness : std::uint8_t {
  kClean,    // on no list
  kDirty,    // waits its turn or its age
  kIo,       // picked for this round
  kMoreIo,   // goes on in the next round
  kWriting,  // the flusher (or a throttled writer) is at it
};

struct File {
  File(Engine& engine, FileId number, std::uint32_t page_count, std::uint64_t sector, bool stamps);
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const FileId id;
  const std::uint32_t pages;
  const std::uint64_t first_sector;  // of page 0, in pages of the disk
  SleepMutex i_mutex;                // one writer at a time, throttling included

  SpinLock tree_lock;                     // guards what is declared down to the next blank line
  std::vector<FrameNo> frames;            // by page; kNoFrame: not cached
  std::vector<std::uint64_t> dirty_tags;  // a bit a page

  std::atomic<std::int64_t> dirty{0};   // tags that are set; written under tree_lock
  std::atomic<std::int64_t> cached{0};  // pages in `frames`; likewise
  std::unique_ptr<std::atomic<std::uint64_t>[]> content;  // stamps on disk; nullptr without stamps

  // The flusher's, under its lock; writeback_index belongs to who has the file in kWriting.
  std::atomic<FileDirtiness> dirtiness{FileDirtiness::kClean};
  Ns dirtied_when;
  std::uint32_t writeback_index = 0;
};

class PageCache {
 public:
  explicit PageCache(MemoryManager& mm);
  ~PageCache();
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  // A new file of `pages` (1..2^31) on the disk, none of it cached. content(page) is what is on
  // disk already; none: stamp 0. Before Run() or from a task; the first file starts the daemons
  // (disk, pdflush).
  File& CreateFile(Pages pages, const std::function<std::uint64_t(std::uint32_t)>& content = {});
  // From a task, once: a file of MmConfig::page_cache_pages pages, all of them cached, clean and
  // read once, as booting leaves files behind; all nodes with memory alike, without I/O. Nobody
  // reads them again. Stops when there is no memory for it.
  void FillAtBoot();
  // Takes every page out of the cache, dirty ones unwritten, as for a file being deleted. Waits for
  // I/O under way.
  void Truncate(File& file);
  [[nodiscard]] File& FileOf(FileId id);
  // A frame whose mapping is a file, which nobody can change while the page lock is held.
  [[nodiscard]] static bool Holds(const PageFrame& frame) {
    return !frame.Test(kPageSwapCache | kPageAnon | kPageSwapBacked) && OwnerOf(frame) != 0;
  }
  [[nodiscard]] static FileId OwnerOf(const PageFrame& frame);

  // --- index ---

  // The page's frame, with a reference; it may be locked for its read.
  [[nodiscard]] std::optional<FrameNo> Find(File& file, std::uint32_t page);
  // Enters a fresh locked frame; false: another one is there.
  [[nodiscard]] bool Insert(File& file, std::uint32_t page, FrameNo n);
  // The first dirty page in [from, end), with a reference.
  struct DirtyPage {
    std::uint32_t page = 0;
    FrameNo frame = kNoFrame;
  };
  [[nodiscard]] std::optional<DirtyPage> FindDirty(File& file, std::uint32_t from,
                                                   std::uint32_t end);

  // --- dirt and I/O ---

  // set_page_dirty: counts and tags a page that was clean, and tells the flusher.
  void SetDirty(FrameNo n);
  // Starts reading a locked page that was just inserted; completion fills in the stamp and unlocks.
  // Throws Cancelled at shutdown: unlocked, and not up to date.
  void StartRead(File& file, std::uint32_t page, FrameNo n);
  // Starts writing a locked page whose dirty bit the caller has cleared: counts it clean, sets
  // writeback, unlocks, submits (may sleep for a request). Throws Cancelled at shutdown: dirty
  // again, not under writeback.
  void WritePage(FrameNo n);
  // The device has transferred a page. On its task.
  void OnComplete(IoDirection direction, FrameNo n);

  // --- reclaim ---

  // Whether the running task may write to the disk now: it is not congested, or the task is kswapd
  // or pdflush (PF_SWAPWRITE) or is itself writing to a file.
  [[nodiscard]] bool MayWrite() const;
  // remove_mapping: takes a locked, clean frame that only the cache and the caller refer to out of
  // its file.
  [[nodiscard]] bool RemoveForReclaim(FrameNo n);

  // --- the disk's share of the counters (bdi), exact ---

  [[nodiscard]] std::int64_t dirty_pages() const { return dirty_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t writeback_pages() const {
    return writeback_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::int64_t cached_pages() const {
    return cached_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] BlockDevice& device() { return *device_; }
  [[nodiscard]] const BlockDevice& device() const { return *device_; }
  [[nodiscard]] Flusher& flusher() { return *flusher_; }
  [[nodiscard]] DirtyThrottle& throttle() { return *throttle_; }
  // The daemons run (there is a file).
  [[nodiscard]] bool started() const { return started_.load(std::memory_order_relaxed); }

  // At rest: the page's stamp wherever it is, and on disk.
  [[nodiscard]] std::uint64_t PeekStamp(const File& file, std::uint32_t page) const;
  [[nodiscard]] static std::uint64_t DiskStamp(const File& file, std::uint32_t page);
  // At rest. Empty, or what is wrong.
  [[nodiscard]] std::string CheckInvariants();

 private:
  void StartDaemons();
  void EndWrite(FrameNo n);
  void Tag(File& file, std::uint32_t page);
  void Untag(File& file, std::uint32_t page);
  // Under tree_lock: drops the cache's reference.
  void RemoveLocked(File& file, FrameNo n);
  void TruncatePage(File& file, std::uint32_t page, FrameNo n);
  [[nodiscard]] std::string CheckFile(const File& file, std::int64_t& dirty) const;

  MemoryManager& mm_;
  std::unique_ptr<BlockDevice> device_;
  std::unique_ptr<Flusher> flusher_;
  std::unique_ptr<DirtyThrottle> throttle_;
  std::atomic<bool> started_{false};
  std::atomic<std::int64_t> dirty_{0};
  std::atomic<std::int64_t> writeback_{0};
  std::atomic<std::int64_t> cached_{0};

  RawLock mu_;  // guards the two below; files stay where they are
  std::deque<File> files_;
  std::uint64_t next_sector_ = 0;
};

}  // namespace pagestorm::mm
