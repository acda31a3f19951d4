// One address space: its areas, page tables, counters and kernel memory. Private to the files that
// implement faults, fork, exit and reverse mapping.
//
// Locks: mmap_sem (sleeping) over the list of areas: read by faults, for their whole reclaim,
// written by mapping, unmapping and fork. pt_lock, a host lock and a leaf, stands for the pte
// locks: it makes an access atomic against an unmapping, and guards the list of areas too, since
// reverse mapping comes without mmap_sem.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/raw_lock.h"
#include "core/sleep_lock.h"
#include "mm/address_space.h"
#include "mm/anon_vma.h"
#include "mm/kernel_memory.h"
#include "mm/pte.h"

namespace pagestorm::mm {

// A range of anonymous pages, with a pte each.
struct Area {
  Area(MmStruct& owner, std::uint32_t first_page, std::uint32_t page_count);

  [[nodiscard]] bool Contains(std::uint32_t page) const {
    return page >= first && page - first < pages;
  }
  [[nodiscard]] Pte Get(std::uint32_t page) const {
    return {ptes[page - first].load(std::memory_order_relaxed)};
  }
  // Under space.pt_lock, or before the area is known to anyone.
  void Set(std::uint32_t page, Pte pte) {
    ptes[page - first].store(pte.word, std::memory_order_relaxed);
  }

  MmStruct& space;
  const std::uint32_t first;
  const std::uint32_t pages;
  std::uint32_t mapped;  // pages not munmap()ed; mmap_sem
  // Set once, at the first anonymous page; pt_lock to write.
  std::atomic<AnonVma*> anon_vma{nullptr};
  std::atomic<std::uint32_t> member{0};  // its number in there
  std::unique_ptr<std::atomic<std::uint64_t>[]> ptes;
};

struct MemCgroup;

struct MmStruct {
  MmStruct(Engine& engine, SpaceId number)
      : id(number),
        mmap_sem(engine, "mmap_sem", static_cast<std::int64_t>(number)),
        pt_lock(engine.kind()) {}
  MmStruct(const MmStruct&) = delete;
  MmStruct& operator=(const MmStruct&) = delete;

  // nullptr: no area there. Under mmap_sem or pt_lock.
  [[nodiscard]] Area* AreaAt(std::uint32_t page) const;

  const SpaceId id;
  RwSem mmap_sem;
  std::atomic<std::int32_t> mmap_sem_holders{0};  // what rwsem_is_locked() sees
  RawLock pt_lock;
  std::vector<std::unique_ptr<Area>> areas;  // ascending
  std::uint32_t next_page = 1;               // where the next area begins
  KernelPages kernel;
  std::atomic<int> users{1};          // those who will call AddressSpaces::Destroy()
  std::atomic<bool> oom_skip{false};  // reaped, or given up on
  // Whom its pages are charged to from now on; nullptr: the root's. Written by its only task, or
  // before there is one.
  std::atomic<MemCgroup*> cgroup{nullptr};

  std::atomic<std::int64_t> total_vm{0};
  std::atomic<std::int64_t> rss{0};
  std::atomic<std::int64_t> swapped{0};  // swap ptes
  std::atomic<std::int64_t> minor_faults{0};
  std::atomic<std::int64_t> major_faults{0};

  // Swap token (mm/swap_token.h), under its lock.
  std::int64_t fault_stamp = 0;
  std::int64_t last_interval = 0;
  std::int64_t token_priority = 0;
};

class MmapReadGuard {
 public:
  explicit MmapReadGuard(MmStruct& space) : space_(space) {
    space.mmap_sem.lock_shared();
    space.mmap_sem_holders.fetch_add(1, std::memory_order_relaxed);
  }
  ~MmapReadGuard() {
    space_.mmap_sem_holders.fetch_sub(1, std::memory_order_relaxed);
    space_.mmap_sem.unlock_shared();
  }
  MmapReadGuard(const MmapReadGuard&) = delete;
  MmapReadGuard& operator=(const MmapReadGuard&) = delete;

 private:
  MmStruct& space_;
};

class MmapWriteGuard {
 public:
  explicit MmapWriteGuard(MmStruct& space) : space_(space) {
    space.mmap_sem.lock();
    space.mmap_sem_holders.fetch_add(1, std::memory_order_relaxed);
  }
  ~MmapWriteGuard() {
    space_.mmap_sem_holders.fetch_sub(1, std::memory_order_relaxed);
    space_.mmap_sem.unlock();
  }
  MmapWriteGuard(const MmapWriteGuard&) = delete;
  MmapWriteGuard& operator=(const MmapWriteGuard&) = delete;

 private:
  MmStruct& space_;
};

}  // namespace pagestorm::mm
