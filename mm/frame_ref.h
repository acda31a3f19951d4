// A reference to a frame that may be on an LRU list, for a scope.
#pragma once

#include <utility>

#include "mm/pagevec.h"

namespace pagestorm::mm {

class FrameRef {
 public:
  // Takes over a reference the caller has.
  FrameRef(MemoryManager& mm, FrameNo n) : mm_(mm), n_(n) {}
  ~FrameRef() { Drop(); }
  FrameRef(const FrameRef&) = delete;
  FrameRef& operator=(const FrameRef&) = delete;

  [[nodiscard]] FrameNo get() const { return n_; }
  // The reference is someone else's now: of a pte, say.
  FrameNo Release() { return std::exchange(n_, kNoFrame); }
  void Drop() {
    if (n_ != kNoFrame) ReleasePage(mm_, Release());
  }

 private:
  MemoryManager& mm_;
  FrameNo n_;
};

}  // namespace pagestorm::mm
