// Address spaces: areas of anonymous memory, page tables, faults, fork with copy-on-write, exit.
//
// An access goes to the pte: present -> young (and dirty) bits are set, as hardware would;
// otherwise a fault runs under mmap_sem (read). Content is a stamp: a write stores one, a read
// returns it, and it must come back whatever happened to the page in between.  Source: spec
// throttle-2.6.26 2.16, 2.18, 2.22, 3.4.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mm/memory_manager.h"

namespace pagestorm::mm {

using SpaceId = std::uint32_t;  // 0: none
struct MmStruct;                // one address space (mm/mm_struct.h)

enum class AccessResult : std::uint8_t {
  kOk,
  kOom,  // no page could be had: the task must die ("VM: killing process")
};

class AddressSpaces {
 public:
  virtual ~AddressSpaces() = default;

  // The kernel's memory for a task: order-0 pages counted as nr_page_table_pages and
  // nr_slab_unreclaimable, and one block for its stack. All GFP_KERNEL.
  struct Kernel {
    int page_tables = 0;
    int slab_pages = 0;
    int stack_order = 0;
  };
  // A new empty address space for the calling (or a new) task. nullptr: no memory. May block.
  //   node: position of the node to prefer for kernel memory; -1: that of the running CPU.
  virtual MmStruct* Create(const Kernel& kernel, int node = -1) = 0;
  // Copies the parent's areas and ptes copy-on-write (fork): every anonymous area joins its
  // parent's anon_vma. Charges fork_ns and what is copied. nullptr: no memory. May block.
  virtual MmStruct* Fork(MmStruct& parent, const Kernel& kernel, int node = -1) = 0;
  // Gives up one use of the space. The last one unmaps everything, frees frames, slots and kernel
  // memory, and charges exit_ns. By the exiting task, also while it unwinds, or by whoever pinned
  // the space: never blocks or throws. The OOM killer has let go of it (OomKiller::TakeSpace).
  virtual void Destroy(MmStruct* mm) = 0;
  // One more use of a space that cannot go away meanwhile.
  virtual void Pin(MmStruct& mm) = 0;

  // Takes the pages and slots of a pinned space away from its dying tasks, who fault zeroes in if
  // they still come by. False: its mmap_sem is taken for writing; nothing was done. Never blocks.
  virtual bool Reap(MmStruct& mm) = 0;
  // The OOM killer neither waits for the tasks of such a space nor chooses them.
  virtual void SkipForOom(MmStruct& mm) = 0;
  [[nodiscard]] virtual bool SkippedForOom(const MmStruct& mm) const = 0;

  // Adds an anonymous area of `pages` (1 or more) and returns its first page number. Areas do not
  // touch.
  virtual std::uint32_t MapAnon(MmStruct& mm, std::int64_t pages) = 0;
  // Unmaps pages of one area; they must not be accessed any more.
  virtual void Unmap(MmStruct& mm, std::uint32_t first, std::int64_t pages) = 0;

  // One access of the running task to a mapped page. After a fault comes ReturnToUser(), which
  // throws Cancelled if the task was killed, and then the access again: it may fault again under
  // pressure. A page never written reads as stamp 0.
  virtual AccessResult Write(MmStruct& mm, std::uint32_t page, std::uint64_t stamp) = 0;
  virtual AccessResult Read(MmStruct& mm, std::uint32_t page, std::uint64_t* stamp) = 0;

  struct Usage {
    std::int64_t total_vm = 0, rss = 0, swap = 0;  // pages
  };
  [[nodiscard]] virtual Usage UsageOf(const MmStruct& mm) const = 0;
  struct FaultCounts {
    std::int64_t minor = 0, major = 0;
  };
  [[nodiscard]] virtual FaultCounts FaultsOf(const MmStruct& mm) const = 0;
  // Address spaces that exist.
  [[nodiscard]] virtual std::size_t live() const = 0;
  // The stamp of a page wherever it is now (frame or slot), without touching it; at rest, for
  // proofs.
  [[nodiscard]] virtual std::uint64_t PeekStamp(const MmStruct& mm, std::uint32_t page) const = 0;
};

std::unique_ptr<AddressSpaces> MakeAddressSpaces(MemoryManager& mm);

}  // namespace pagestorm::mm
