// Page faults: a first touch, a write to a page shared since a fork, a page that was swapped out.
//
// A fault holds mmap_sem for reading throughout, across any reclaim it causes. Whatever it finds
// changed when it comes to set the pte, it leaves, and the access is tried again. Source: spec
// throttle-2.6.26 2.18, 2.22, 2.26, 3.4.
#pragma once

#include <cstdint>

#include "mm/address_space.h"
#include "mm/memory_manager.h"
#include "mm/mm_struct.h"

namespace pagestorm::mm {

class Faults {
 public:
  explicit Faults(MemoryManager& mm) : mm_(mm) {}

  enum class Access : std::uint8_t { kRead, kWrite };
  // Reads *stamp from, or writes it to, a mapped page of `space`, faulting as often as it takes.
  AccessResult Do(MmStruct& space, std::uint32_t page, Access access, std::uint64_t* stamp);

 private:
  enum class Outcome : std::uint8_t { kMinor, kMajor, kOom };

  bool TryAccess(MmStruct& space, std::uint32_t page, Access access, std::uint64_t* stamp);
  Outcome Handle(MmStruct& space, std::uint32_t page, Access access);
  // do_anonymous_page, do_wp_page, do_swap_page.
  Outcome FirstTouch(Area& area, std::uint32_t page);
  Outcome WriteShared(Area& area, std::uint32_t page, Pte pte);
  Outcome SwapIn(Area& area, std::uint32_t page, Pte pte, Access access);
  Outcome Copy(Area& area, std::uint32_t page, FrameNo old);

  bool MapNew(Area& area, std::uint32_t page, FrameNo n, FrameNo replaced);
  bool Reuse(Area& area, std::uint32_t page, FrameNo n);
  void Count(MmStruct& space, Outcome outcome);

  MemoryManager& mm_;
};

}  // namespace pagestorm::mm
