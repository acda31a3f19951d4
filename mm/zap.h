// Unmapping of page ranges by munmap and exit: ptes go, frames and slots lose a user, in batches.
#pragma once

#include <array>
#include <cstdint>

#include "mm/memory_manager.h"
#include "mm/mm_struct.h"

namespace pagestorm::mm {

// Frames that have lost a pte and still have its reference. Never blocks or throws: also used while
// a cancelled task unwinds.
class ZapBatch {
 public:
  explicit ZapBatch(MemoryManager& mm) : mm_(mm) {}
  ~ZapBatch() { Flush(); }
  ZapBatch(const ZapBatch&) = delete;
  ZapBatch& operator=(const ZapBatch&) = delete;

  // Empties one pte and leaves `replacement`. False: there was nothing to unmap.
  bool Zap(Area& area, std::uint32_t page, Pte replacement);
  // Gives up slots nobody else uses, then drops the references (release_pages).
  void Flush();

 private:
  MemoryManager& mm_;
  std::array<FrameNo, 16> frames_{};
  std::size_t count_ = 0;
};

}  // namespace pagestorm::mm
