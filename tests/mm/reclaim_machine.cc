#include "tests/mm/reclaim_machine.h"

#include <catch2/catch.hpp>
#include <mutex>

#include "mm/page_alloc.h"
#include "mm/page_lock.h"
#include "mm/pagevec.h"
#include "mm/swap.h"
#include "mm/vmstat.h"
#include "mm/zone.h"
#include "numa/memory_map.h"

namespace pagestorm::mm {
namespace {

constexpr std::uint32_t kFileOwner = 7;

EngineConfig EngineFor(const ReclaimMachineOptions& options) {
  EngineConfig config;
  for (int node = 0; node < options.nodes; ++node) {
    for (int i = 0; i < options.cpus_per_node; ++i) config.cpus.push_back({.node = {node}});
  }
  config.seed = options.seed;
  config.sync_in_cs = options.sync_in_cs;
  config.time_limit = options.time_limit;
  config.bind = false;
  return config;
}

MmConfig MmFor(const ReclaimMachineOptions& options) {
  numa::MemoryMapOptions map;
  map.arch = options.arch;
  for (int node = 0; node < options.nodes; ++node) {
    map.nodes.push_back({.id = {node}, .bytes = options.mib_per_node << 20});
  }
  auto built = numa::BuildMemoryMap(map);
  REQUIRE(built.ok());
  MmConfig config;
  config.map = *built;
  config.policy = options.policy;
  config.costs = options.costs;
  config.swap = {1024};
  config.slab_reclaimable_pages = options.slab_reclaimable_pages;
  config.stamps = false;
  return config;
}

}  // namespace

int FakeOwners::Referenced(FrameNo n, bool) {
  Log("referenced");
  if (look) look();
  const bool bit = mm_.frames[n].TestAndClear(kPageReferenced);
  return (bit ? 1 : 0) + (always_referenced.contains(n) ? 1 : 0);
}

bool FakeOwners::HasMapping(FrameNo n) {
  return mm_.frames[n].Test(kPageSwapCache) || mm_.frames[n].owner == kFileOwner;
}

bool FakeOwners::AddToSwapLocked(FrameNo n) {
  Log("add_to_swap");
  if (swap_full) return false;
  mm_.frames[n].Set(kPageSwapCache | kPageDirty);
  mm_.frames[n].refcount.fetch_add(1);
  return true;
}

UnmapResult FakeOwners::TryToUnmapLocked(FrameNo n) {
  Log("unmap");
  if (unmap != UnmapResult::kSuccess) return unmap;
  PageFrame& frame = mm_.frames[n];
  const std::uint16_t ptes = frame.mapcount.exchange(0);
  frame.refcount.fetch_sub(ptes);
  return UnmapResult::kSuccess;
}

WriteResult FakeOwners::WriteLocked(FrameNo n) {
  Log("write");
  if (write != WriteResult::kSubmitted) return write;
  PageFrame& frame = mm_.frames[n];
  writes.fetch_add(1);
  frame.Set(kPageWriteback);
  mm_.vmstat->Add(frame.zone(), ZoneStat::kNrWriteback, 1);
  mm_.page_locks->Unlock(n);
  under_way_.fetch_add(1);
  {
    std::lock_guard guard(mu_);
    queue_.push_back(n);
  }
  work_.WakeOne();
  if (max_writes > 0) room_.Wait([this] { return under_way_.load() <= max_writes; });
  return WriteResult::kSubmitted;
}

bool FakeOwners::ReleaseBuffersLocked(FrameNo n) {
  Log("release_buffers");
  if (buffers_stick) return false;
  with_buffers.erase(n);
  return true;
}

bool FakeOwners::RemoveMappingLocked(FrameNo n) {
  Log("remove");
  PageFrame& frame = mm_.frames[n];
  std::uint16_t freeable = 2;
  if (frame.Test(kPageDirty)) return false;
  if (!frame.refcount.compare_exchange_strong(freeable, 1)) return false;
  frame.Clear(kPageSwapCache);
  frame.owner = 0;
  removed.fetch_add(1);
  return true;
}

void FakeOwners::RunDevice() {
  for (;;) {
    FrameNo n = kNoFrame;
    work_.Wait([&] {
      std::lock_guard guard(mu_);
      if (queue_.empty()) return false;
      n = queue_.front();
      queue_.pop_front();
      return true;
    });
    SleepFor(io_time);
    PageFrame& frame = mm_.frames[n];
    if (frame.TestAndClear(kPageReclaim)) mm_.pagevecs->RotateReclaimable(n);
    mm_.vmstat->Add(frame.zone(), ZoneStat::kNrWriteback, -1);
    mm_.page_locks->EndWriteback(n);
    under_way_.fetch_sub(1);
    room_.WakeAll();
  }
}

ReclaimMachine::ReclaimMachine(const ReclaimMachineOptions& options)
    : scheduler(options.engine, kMillisecond),
      engine(MakeEngine(options.engine, EngineFor(options), scheduler)) {
  auto booted = MemoryManager::Boot(*engine, MmFor(options));
  INFO(booted.status().message());
  REQUIRE(booted.ok());
  mm = std::move(*booted);
  auto fake = std::make_unique<FakeOwners>(*mm);
  owners = fake.get();
  mm->reclaimer->set_owners(std::move(fake));
}
ReclaimMachine::~ReclaimMachine() = default;

RunResult ReclaimMachine::Run(std::function<void()> body) {
  engine->Spawn({.name = "device", .daemon = true}, [this] { owners->RunDevice(); });
  engine->Spawn({.name = "test"}, std::move(body));
  return engine->Run();
}

Task& ReclaimMachine::Spawn(const std::string& name, std::function<void()> body,
                            std::uint32_t flags) {
  return engine->Spawn({.name = name, .flags = flags}, std::move(body));
}

FrameNo ReclaimMachine::AddPage(Kind kind, bool active, bool mapped) {
  const auto n = mm->allocator->Alloc(GFP_HIGHUSER_MOVABLE);
  if (!n) return kNoFrame;
  PageFrame& frame = mm->frames[*n];
  if (kind == Kind::kAnon) {
    frame.Set(kPageAnon | kPageSwapBacked);
  } else {
    frame.owner = kFileOwner;  // the page cache's reference is the allocation's
    if (kind == Kind::kDirtyFile) frame.Set(kPageDirty);
  }
  if (mapped) frame.mapcount.store(1);
  // An anonymous page has its pte's reference alone, an unmapped one keeps it in the test's hands.
  if (mapped && kind != Kind::kAnon) frame.refcount.fetch_add(1);
  active ? mm->pagevecs->AddActive(*n) : mm->pagevecs->Add(*n);
  return *n;
}

std::vector<FrameNo> ReclaimMachine::AddPages(std::int64_t count, Kind kind, bool active,
                                              bool mapped) {
  std::vector<FrameNo> pages;
  for (std::int64_t i = 0; i < count; ++i) {
    pages.push_back(AddPage(kind, active, mapped));
    if (pages.back() == kNoFrame) break;
  }
  mm->pagevecs->DrainAll();
  Fold();
  return pages;
}

void ReclaimMachine::DropPage(FrameNo n) {
  PageFrame& frame = mm->frames[n];
  const std::uint16_t ptes = frame.mapcount.exchange(0);
  for (std::uint16_t i = 0; i < ptes; ++i) ReleasePage(*mm, n);
}

void ReclaimMachine::Fold() { mm->vmstat->FoldCpu(CurrentCpu().id); }

std::int64_t ReclaimMachine::Stat(ZoneStat stat, std::size_t zone_ordinal) const {
  return mm->vmstat->Exact(zone_ordinal, stat);
}

}  // namespace pagestorm::mm
