// fork: the child's areas and ptes, copy-on-write.
#pragma once

#include "mm/memory_manager.h"
#include "mm/mm_struct.h"

namespace pagestorm::mm {

// Gives an empty child the areas and pages of its parent: every area joins its parent's anon_vma;
// both lose the right to write. May yield; throws Cancelled at shutdown, leaving a child that can
// be destroyed. The caller holds the parent's mmap_sem for writing.  Source: spec
// throttle-2.6.26 3.4.
void CopyAreas(MemoryManager& mm, MmStruct& parent, MmStruct& child);

}  // namespace pagestorm::mm
