// Reverse mapping: from a frame to the ptes that map it.
//
// In 2.6.26 a forked area joins its parent's anon_vma list, so a page of one of N children is
// looked for among N entries under one spin lock. That walk is charged (rmap_vma_ns x entries / 2,
// under the anon_vma's lock); for a page mapped once it is not executed, as the frame's `mapper`
// finds its pte at once. A page mapped more than once really is looked for in the list. mapcount
// counts ptes; a frame that gets its first or loses its last one changes NR_ANON_PAGES. Source:
// spec throttle-2.6.26 2.16.1, 3.4.
#pragma once

#include <cstdint>
#include <memory>

#include "mm/anon_vma.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

enum class UnmapResult : std::uint8_t { kSuccess, kAgain, kFail };

class Rmap {
 public:
  explicit Rmap(MemoryManager& mm);

  // page_referenced: software bit (cleared) + young ptes (cleared) + mappers that hold the swap
  // token in the middle of a fault. The caller has a reference; it holds the page lock, or not.
  int Referenced(FrameNo n, bool page_locked);
  // try_to_unmap: replaces every pte of a locked anonymous frame in the swap cache by its swap
  // entry (dirty bits move to the frame). The caller has a reference. kFail: a young pte was found;
  // kAgain: a race, the frame is still mapped.
  UnmapResult TryToUnmap(FrameNo n);

  // --- for faults, fork and unmapping ---

  // Makes a frame that nobody maps a page of `area`: page lock held, or not visible yet.
  void Prepare(FrameNo n, const Area& area, std::uint32_t page);
  // One pte more or less: with the pte, under pt_lock; does not charge or block. True: it was the
  // first, or the last; AccountMapped() then follows, outside pt_lock.
  [[nodiscard]] bool AddPte(FrameNo n);
  [[nodiscard]] bool RemovePte(FrameNo n);
  void AccountMapped(FrameNo n, std::int64_t pages);
  // The area's anon_vma, made now if this is its first page.
  AnonVma& AnonVmaOf(Area& area);
  [[nodiscard]] AnonVmas& anon_vmas() { return anon_vmas_; }

 private:
  enum class Visit : std::uint8_t { kNotMapped, kGoOn, kStop };
  template <class F>
  void ForEachPte(AnonVma& list, FrameNo n, F visit);
  AnonVma* ListOf(FrameNo n);
  void ChargeWalk(const AnonVma& list) const;
  Visit LookAt(Area& area, FrameNo n, int& referenced) const;
  Visit UnmapFrom(Area& area, FrameNo n, bool& failed);

  MemoryManager& mm_;
  AnonVmas anon_vmas_;
};

std::unique_ptr<Rmap> MakeRmap(MemoryManager& mm);

}  // namespace pagestorm::mm
