// kswapd: the task of a node that reclaims in the background until every zone has its high
// watermark. Source: spec throttle-2.6.26 2.21, 1.9.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/wait_queue.h"
#include "mm/memory_manager.h"
#include "mm/reclaim.h"

namespace pagestorm::mm {

class Kswapd {
 public:
  // `node` has memory and outlives this.
  Kswapd(MemoryManager& mm, PgData& node);

  // Spawns the task: on the CPUs that MmConfig::kswapd_cpus names, else on the node's online CPUs,
  // else on any.
  void Start();
  // wakeup_kswapd for one zone of this node; `order` of the failed request. From any task; cheap if
  // the zone is above its low mark.
  void Wake(Zone& zone, int order);
  // Wakes it if it sleeps, whatever its zones have.
  void WakeIfAsleep();

  // One balance_pgdat: returns once every zone of the node is above its high mark for `order`;
  // sleeps in reclaim. By the kswapd task, which has PF_MEMALLOC, PF_SWAPWRITE and PF_KSWAPD. Pages
  // reclaimed.
  std::int64_t RunOnce(int order);
  // The task's life: sleep until woken, balance.
  [[noreturn]] void Run();

  [[nodiscard]] bool sleeping() const { return sleeping_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t runs() const { return runs_.load(std::memory_order_relaxed); }

 private:
  struct Pass;
  // Position in node_.zones of the highest zone that lacks pages; -1: none.
  int HighestShortZone(int priority, int order, ScanControl& sc);
  // One zone of the node, by position, with `end` the highest short one.
  void BalanceZone(int position, int end, int priority, Pass& pass);
  // Priorities 12..0; pass.all_ok tells whether all zones were fine at the end.
  void DescendPriorities(Pass& pass);
  // What a pass that does something changes, zones together: pages taken from lists, and what each
  // scan accumulator has gathered.
  struct ScanState {
    std::int64_t pages_scanned = 0;
    absl::InlinedVector<std::int64_t, 16> gathered{};
  };
  [[nodiscard]] ScanState Look() const;
  [[nodiscard]] std::vector<std::atomic<std::int64_t>*> Accumulators() const;
  // Charges and counts passes that would change nothing, twice as many as last time: `passes`; or
  // only gather as the last one did, as many as fill no accumulator. `cost`: of one.
  void SkipIdlePasses(Ns cost, const ScanState& before, const ScanState& after,
                      std::int64_t& passes);

  MemoryManager& mm_;
  PgData& node_;
  WaitQueue queue_;
  const std::vector<std::atomic<std::int64_t>*> accumulators_;  // four for each zone of the node
  std::atomic<int> max_order_{0};
  std::atomic<std::uint64_t> wakes_{0};
  std::atomic<bool> sleeping_{false};
  std::atomic<std::int64_t> runs_{0};
};

}  // namespace pagestorm::mm
