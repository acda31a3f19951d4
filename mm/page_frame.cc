#include "mm/page_frame.h"

#include <sys/mman.h>

namespace pagestorm::mm {
namespace {

// Zeroed memory that costs the host nothing until it is touched; nullptr: refused.
void* MapZeroed(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Advice only: 250 ns a miss instead of 370 in a large machine.
  static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
  return memory;
}

}  // namespace

FrameTable::~FrameTable() {
  if (hot_ != nullptr) munmap(hot_, end_ * sizeof(PageFrame));
  if (cold_ != nullptr) munmap(cold_, end_ * sizeof(PageFrameCold));
  if (groups_ != nullptr) munmap(groups_, end_ * sizeof(PageCgroup));
}

bool FrameTable::Map(FrameNo end, Extras extras) {
  PS_CHECK(hot_ == nullptr && cold_ == nullptr, "mapped twice");
  PS_CHECK(end > 0 && end < kNoFrame);
  end_ = end;
  hot_ = static_cast<PageFrame*>(MapZeroed(end * sizeof(PageFrame)));
  if (extras.stamps) cold_ = static_cast<PageFrameCold*>(MapZeroed(end * sizeof(PageFrameCold)));
  if (extras.groups) groups_ = static_cast<PageCgroup*>(MapZeroed(end * sizeof(PageCgroup)));
  return hot_ != nullptr && (!extras.stamps || cold_ != nullptr) &&
         (!extras.groups || groups_ != nullptr);
}

}  // namespace pagestorm::mm
