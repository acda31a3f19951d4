// Memory the kernel takes for itself on behalf of tasks: stacks, page tables, slab pages, and the
// buffers of queued messages. None of it can be reclaimed. Source: spec throttle-2.6.26 3.6;
// workloads-and-reports 1.4.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

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

}  // namespace pagestorm::mm
