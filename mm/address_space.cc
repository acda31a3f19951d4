#include "mm/address_space.h"

#include <mutex>
#include <utility>
#include <vector>

#include "core/check.h"
#include "mm/fault.h"
#include "mm/fork.h"
#include "mm/mm_struct.h"
#include "mm/pagevec.h"
#include "mm/rmap.h"
#include "mm/swap.h"
#include "mm/zap.h"

namespace pagestorm::mm {
namespace {

class AnonymousSpaces final : public AddressSpaces {
 public:
  explicit AnonymousSpaces(MemoryManager& mm) : mm_(mm), faults_(mm), mu_(mm.engine.kind()) {}

  MmStruct* Create(const Kernel& kernel, int node) override;
  MmStruct* Fork(MmStruct& parent, const Kernel& kernel, int node) override;
  void Destroy(MmStruct* space) override;
  void Pin(MmStruct& space) override { space.users.fetch_add(1, std::memory_order_relaxed); }
  bool Reap(MmStruct& space) override;
  void SkipForOom(MmStruct& space) override {
    space.oom_skip.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] bool SkippedForOom(const MmStruct& space) const override {
    return space.oom_skip.load(std::memory_order_relaxed);
  }
  std::uint32_t MapAnon(MmStruct& space, std::int64_t pages) override;
  void Unmap(MmStruct& space, std::uint32_t first, std::int64_t pages) override;
  AccessResult Write(MmStruct& space, std::uint32_t page, std::uint64_t stamp) override {
    return faults_.Do(space, page, Faults::Access::kWrite, &stamp);
  }
  AccessResult Read(MmStruct& space, std::uint32_t page, std::uint64_t* stamp) override {
    return faults_.Do(space, page, Faults::Access::kRead, stamp);
  }
  [[nodiscard]] Usage UsageOf(const MmStruct& space) const override;
  [[nodiscard]] FaultCounts FaultsOf(const MmStruct& space) const override;
  [[nodiscard]] std::size_t live() const override;
  [[nodiscard]] std::uint64_t PeekStamp(const MmStruct& space, std::uint32_t page) const override;

 private:
  MmStruct& Register();
  // Empties the ptes, those of unmapped pages apart.
  void ZapPtes(Area& area, Pte replacement);
  void ZapArea(Area& area);
  void RemoveArea(MmStruct& space, Area& area);

  MemoryManager& mm_;
  Faults faults_;
  mutable RawLock mu_;                             // guards what is declared below
  std::vector<std::unique_ptr<MmStruct>> spaces_;  // by id - 1
  std::vector<SpaceId> free_ids_;
};

// Destroys a space that was not handed out after all.
struct Unwanted {
  AddressSpaces& spaces;
  MmStruct* space;
  ~Unwanted() {
    if (space != nullptr) spaces.Destroy(space);
  }
};

MmStruct& AnonymousSpaces::Register() {
  std::lock_guard guard(mu_);
  if (free_ids_.empty()) {
    spaces_.emplace_back();
    free_ids_.push_back(static_cast<SpaceId>(spaces_.size()));
  }
  const SpaceId id = free_ids_.back();
  free_ids_.pop_back();
  spaces_[id - 1] = std::make_unique<MmStruct>(mm_.engine, id);
  return *spaces_[id - 1];
}

MmStruct* AnonymousSpaces::Create(const Kernel& kernel, int node) {
  MmStruct& space = Register();
  Unwanted unwanted{*this, &space};
  if (!space.kernel.Alloc(mm_, kernel, node)) return nullptr;
  return std::exchange(unwanted.space, nullptr);
}

MmStruct* AnonymousSpaces::Fork(MmStruct& parent, const Kernel& kernel, int node) {
  Charge({mm_.costs.fork_ns});
  MmStruct* child = Create(kernel, node);
  if (child == nullptr) return nullptr;
  Unwanted unwanted{*this, child};
  child->cgroup.store(parent.cgroup.load(std::memory_order_acquire), std::memory_order_release);
  MmapWriteGuard guard(parent);
  CopyAreas(mm_, parent, *child);
  return std::exchange(unwanted.space, nullptr);
}

void AnonymousSpaces::Destroy(MmStruct* space) {
  if (space->users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  mm_.swap->token().Release(*space);
  Charge({mm_.costs.exit_ns});
  // A page in a pagevec would outlive its space until that is flushed.
  mm_.pagevecs->DrainLocal();
  for (const auto& area : space->areas) ZapArea(*area);
  space->areas.clear();
  space->kernel.Free();
  PS_CHECK(space->rss.load() == 0 && space->swapped.load() == 0);
  std::unique_ptr<MmStruct> dead;
  std::lock_guard guard(mu_);
  dead = std::move(spaces_[space->id - 1]);
  free_ids_.push_back(space->id);
}

void AnonymousSpaces::ZapPtes(Area& area, Pte replacement) {
  ZapBatch batch(mm_);
  for (std::uint32_t page = area.first; page < area.first + area.pages; ++page) {
    if (!area.Get(page).Has(Pte::kUnmapped)) batch.Zap(area, page, replacement);
  }
}

bool AnonymousSpaces::Reap(MmStruct& space) {
  if (!space.mmap_sem.try_lock_shared()) return false;
  space.mmap_sem_holders.fetch_add(1, std::memory_order_relaxed);
  mm_.pagevecs->DrainLocal();
  for (const auto& area : space.areas) ZapPtes(*area, {});
  space.mmap_sem_holders.fetch_sub(1, std::memory_order_relaxed);
  space.mmap_sem.unlock_shared();
  return true;
}

void AnonymousSpaces::ZapArea(Area& area) {
  ZapPtes(area, {Pte::kUnmapped});
  if (AnonVma* list = area.anon_vma.load(std::memory_order_acquire)) {
    mm_.rmap->anon_vmas().Leave(*list, area);
  }
}

std::uint32_t AnonymousSpaces::MapAnon(MmStruct& space, std::int64_t pages) {
  PS_CHECK(pages >= 1 && pages < UINT32_MAX / 2);
  Charge({mm_.costs.syscall_ns});
  MmapWriteGuard guard(space);
  const std::uint32_t first = space.next_page;
  const auto count = static_cast<std::uint32_t>(pages);
  PS_CHECK(count < UINT32_MAX - first - 1, "an address space has no addresses left");
  auto area = std::make_unique<Area>(space, first, count);
  {
    std::lock_guard tables(space.pt_lock);
    space.areas.push_back(std::move(area));
  }
  space.next_page = first + count + 1;
  space.total_vm.fetch_add(pages, std::memory_order_relaxed);
  return first;
}

void AnonymousSpaces::Unmap(MmStruct& space, std::uint32_t first, std::int64_t pages) {
  Charge({mm_.costs.syscall_ns});
  MmapWriteGuard guard(space);
  Area* area = space.AreaAt(first);
  PS_CHECK(area != nullptr && pages >= 1 && pages <= area->pages - (first - area->first));
  std::uint32_t unmapped = 0;
  {
    ZapBatch batch(mm_);
    for (std::uint32_t page = first; page < first + static_cast<std::uint32_t>(pages); ++page) {
      if (area->Get(page).Has(Pte::kUnmapped)) continue;
      batch.Zap(*area, page, {Pte::kUnmapped});
      ++unmapped;
    }
  }
  area->mapped -= unmapped;
  space.total_vm.fetch_sub(unmapped, std::memory_order_relaxed);
  if (area->mapped == 0) RemoveArea(space, *area);
}

void AnonymousSpaces::RemoveArea(MmStruct& space, Area& area) {
  if (AnonVma* list = area.anon_vma.load(std::memory_order_acquire)) {
    mm_.rmap->anon_vmas().Leave(*list, area);
  }
  std::unique_ptr<Area> dead;
  std::lock_guard tables(space.pt_lock);
  for (auto it = space.areas.begin(); it != space.areas.end(); ++it) {
    if (it->get() != &area) continue;
    dead = std::move(*it);
    space.areas.erase(it);
    return;
  }
}

AddressSpaces::Usage AnonymousSpaces::UsageOf(const MmStruct& space) const {
  return {.total_vm = space.total_vm.load(std::memory_order_relaxed),
          .rss = space.rss.load(std::memory_order_relaxed),
          .swap = space.swapped.load(std::memory_order_relaxed)};
}

AddressSpaces::FaultCounts AnonymousSpaces::FaultsOf(const MmStruct& space) const {
  return {.minor = space.minor_faults.load(std::memory_order_relaxed),
          .major = space.major_faults.load(std::memory_order_relaxed)};
}

std::size_t AnonymousSpaces::live() const {
  std::lock_guard guard(mu_);
  return spaces_.size() - free_ids_.size();
}

std::uint64_t AnonymousSpaces::PeekStamp(const MmStruct& space, std::uint32_t page) const {
  const Area* area = space.AreaAt(page);
  PS_CHECK(area != nullptr);
  const Pte pte = area->Get(page);
  if (pte.present()) return mm_.frames.Stamp(pte.frame());
  return pte.swapped() ? mm_.swap->PeekStamp(pte.slot()) : 0;
}

}  // namespace

std::unique_ptr<AddressSpaces> MakeAddressSpaces(MemoryManager& mm) {
  return std::make_unique<AnonymousSpaces>(mm);
}

}  // namespace pagestorm::mm
