// Memory the kernel takes for itself on behalf of tasks: stacks, page tables, slab pages, and the
// buffers of queued messages. None of it can be reclaimed. Source: spec throttle-2.6.26 3.6;
// workloads-and-reports 1.4.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/raw_lock.h"
#include "mm/address_space.h"
#include "mm/memory_manager.h"
#include "mm/page_frame.h"

namespace pagestorm::mm {

// One order-0 GFP_KERNEL page, counted as unreclaimable slab. Alloc may reclaim, sleep and kill;
// nullopt: none for this task (it is being killed).
[[nodiscard]] std::optional<FrameNo> AllocKernelPage(MemoryManager& mm, int node = -1);
void FreeKernelPage(MemoryManager& mm, FrameNo n);

// The kernel memory of one address space. Not thread-safe: its task's. Free() is for a task to
// call: what is left when a machine is taken down (no task runs any more) simply stays allocated.
class KernelPages {
 public:
  KernelPages() = default;
  KernelPages(const KernelPages&) = delete;
  KernelPages& operator=(const KernelPages&) = delete;

  // Takes it all: one stack block, page tables, slab pages. False: no memory; what was taken is
  // given back. May block; throws Cancelled, then also without a trace.
  [[nodiscard]] bool Alloc(MemoryManager& mm, const AddressSpaces::Kernel& wanted, int node);
  void Free();
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }

 private:
  enum class Use : std::uint8_t { kStack, kPageTable, kSlab };
  struct Block {
    FrameNo frame;
    std::int8_t order;
    Use use;
  };
  bool Take(Use use, int order, int node);
  void Account(const Block& block, std::int64_t sign);

  MemoryManager* mm_ = nullptr;
  std::vector<Block> blocks_;
};

// Objects smaller than a page, packed into slab pages: message buffers. A freed object is reused
// from its own page first; a page without objects goes back to the allocator, unless it is the
// running CPU's current one. Thread-safe. Objects are named by the frame they lie in; whoever frees
// one says which.
class ObjectCache {
 public:
  // objects_per_page >= 1.
  ObjectCache(MemoryManager& mm, std::int64_t objects_per_page);
  ~ObjectCache();
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;

  // May block, as AllocKernelPage.
  [[nodiscard]] std::optional<FrameNo> Alloc(int node = -1);
  void Free(FrameNo page);
  // Gives the CPUs' current pages back if nothing is in them; at the end of a workload.
  void Drain();
  [[nodiscard]] std::int64_t objects() const;
  [[nodiscard]] std::int64_t pages() const;

 private:
  bool TakeFrom(FrameNo page);

  MemoryManager& mm_;
  const std::uint32_t per_page_;
  mutable RawLock mu_;  // guards the rest, and PageFrame::priv (objects in use) of the pages
  std::vector<FrameNo> current_;  // by CPU
  FrameList partial_;             // pages with room that are nobody's current one
  std::int64_t objects_ = 0;
  std::int64_t pages_ = 0;
};

}  // namespace pagestorm::mm
