// Putting a whole machine together: every part of MemoryManager, and the daemons that keep it
// going.
#include "absl/strings/str_cat.h"
#include "mm/address_space.h"
#include "mm/block_device.h"
#include "mm/kswapd.h"
#include "mm/lru.h"
#include "mm/memcg.h"
#include "mm/memory_manager.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/page_cache.h"
#include "mm/page_lock.h"
#include "mm/pagevec.h"
#include "mm/reclaim.h"
#include "mm/rmap.h"
#include "mm/slab.h"
#include "mm/swap.h"
#include "mm/throttle.h"
#include "mm/writeback.h"

namespace pagestorm::mm {
namespace {

// Once a second on every CPU, as the kernel's per-CPU workers do it; they start one jiffy apart.
void FoldCounters(MemoryManager& mm, CpuId cpu) {
  SleepForHousekeeping(mm.policy.Jiffy() * cpu.n);
  for (;;) {
    SleepForHousekeeping(kSecond);
    mm.allocator->TickCpu();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryManager>> MemoryManager::Boot(Engine& engine,
                                                                   MmConfig config) {
  auto mm = BootForTest(engine, std::move(config));
  if (!mm.ok()) return mm.status();
  (*mm)->BuildParts();
  return mm;
}

void MemoryManager::BuildParts() {
  page_locks = std::make_unique<PageLocks>(engine, frames);
  if (!config.cgroups.empty()) cgroups = std::make_unique<MemCgroups>(*this);
  for (const auto& zone : zones) zone->lru = MakeLru(*this, *zone);
  pagevecs = std::make_unique<Pagevecs>(*this);
  slab = std::make_unique<SlabCaches>(*this);
  dmesg = std::make_unique<Dmesg>(engine);
  reclaimer = std::make_unique<Reclaimer>(*this);
  writeback = std::make_unique<Writeback>(*this);
  gate = MakeGate(policy.throttle.gate, *this);
  disk = MakeDisk(*this);
  swap = std::make_unique<Swap>(*this);
  page_cache = std::make_unique<PageCache>(*this);
  rmap = MakeRmap(*this);
  spaces = MakeAddressSpaces(*this);
  oom = MakeOomKiller(*this);
  for (const auto& node : nodes) {
    if (!node->zones.empty()) node->kswapd = std::make_unique<Kswapd>(*this, *node);
  }
  engine.AddStallReporter([this] { return gate->Describe() + disk->Describe(); });
}

void MemoryManager::StartDaemons() {
  for (const auto& node : nodes) {
    if (node->kswapd != nullptr) node->kswapd->Start();
  }
  if (disk != nullptr) {
    engine.Spawn({.name = "disk", .allowed = config.device_cpus, .daemon = true},
                 [this] { disk->Run(); });
  }
  oom->StartDaemons();
  for (std::size_t i = 0; i < engine.online_cpus(); ++i) {
    const CpuId cpu{static_cast<int>(i)};
    CpuMask only;
    only.set(i);
    engine.Spawn({.name = absl::StrCat("events/", cpu.n), .allowed = only, .daemon = true},
                 [this, cpu] { FoldCounters(*this, cpu); });
  }
}

}  // namespace pagestorm::mm
