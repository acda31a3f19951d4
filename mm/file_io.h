// read(2) and write(2) of whole pages of a file, through the page cache, with sequential
// read-ahead.
//
// Read-ahead: whoever reads on where he stopped, and misses, gets a window of 128 KiB; reaching the
// second page of the first window, or the first page of a later one, starts the next while the last
// is being read. Anyone else gets the page alone. Simplification: the kernel's window grows to that
// size in steps.
// Source: spec throttle-2.6.26 2.18 (mark_page_accessed), 2.23.
#pragma once

#include <cstdint>

#include "mm/page_cache.h"

namespace pagestorm::mm {

enum class FileResult : std::uint8_t {
  kOk,
  kNoMemory,  // no page could be had: only for a task that is being killed
};

// An open file of one task: where it reads.
struct OpenFile {
  explicit OpenFile(File& opened) : file(&opened) {}

  File* file;
  std::uint32_t next = 0;             // a read here goes on where the last one ended
  std::uint32_t window_end = 0;       // read ahead up to here
  std::uint32_t marker = UINT32_MAX;  // reading this page starts the next window
};

// Pages of a full read-ahead window.
[[nodiscard]] std::uint32_t ReadAheadPages(PageShift shift);

// One page, from the cache or the disk; the second read of a page in a row is none for the LRU.
// Ends with ReturnToUser() (throws Cancelled if killed). May reclaim and sleep.
FileResult ReadFilePage(MemoryManager& mm, OpenFile& open, std::uint32_t page,
                        std::uint64_t* stamp);
// Overwrites a whole page in the cache and marks it dirty; nothing is read. The writer may be
// throttled. Ends with ReturnToUser(). May reclaim and sleep.
FileResult WriteFilePage(MemoryManager& mm, OpenFile& open, std::uint32_t page,
                         std::uint64_t stamp);

}  // namespace pagestorm::mm
