// Knobs of what the kernel's operations cost on a machine: mm::MmCosts and EngineCosts.
// docs/model.md has the sources.
#include "bench/config/knob_kinds.h"

namespace pagestorm::bench {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;  // one second

void Cost(std::vector<Knob>& knobs, const std::string& name, auto field, std::string doc) {
  knobs.push_back(IntKnob("machine." + name, KnobScope::kMachine, 0, kMost, field,
                          "ns of CPU time: " + std::move(doc)));
}

#define PS_MM(member) \
  [](auto& c) -> auto& { return c.costs.member; }
#define PS_ENGINE(member) \
  [](auto& c) -> auto& { return c.engine_costs.member; }

void AddEngineCosts(std::vector<Knob>& knobs) {
  Cost(knobs, "engine_costs.lock_ns", PS_ENGINE(lock_ns),
       "an uncontended spin lock in this CPU's cache");
  Cost(knobs, "engine_costs.rmw_ns", PS_ENGINE(rmw_ns),
       "an atomic read-modify-write in this CPU's cache, of a lock-free LRU");
  Cost(knobs, "engine_costs.context_switch_ns", PS_ENGINE(context_switch_ns),
       "from one task to another");
  Cost(knobs, "engine_costs.wake_ns", PS_ENGINE(wake_ns), "waking a task, paid by the waker");
  Cost(knobs, "engine_costs.wake_latency_ns", PS_ENGINE(wake_latency_ns),
       "from a wake to an idle CPU's first instruction");
}

void AddMemoryCosts(std::vector<Knob>& knobs) {
  Cost(knobs, "costs.page_zero_ns", PS_MM(page_zero_ns),
       "clearing a page; 0: from latency and bandwidth");
  Cost(knobs, "costs.page_copy_ns", PS_MM(page_copy_ns), "copying a page; 0: likewise");
  Cost(knobs, "costs.fault_ns", PS_MM(fault_ns), "entering and leaving a page fault");
  Cost(knobs, "costs.syscall_ns", PS_MM(syscall_ns), "entering and leaving a system call");
  Cost(knobs, "costs.pcp_op_ns", PS_MM(pcp_op_ns), "a page from or to a per-CPU list");
  Cost(knobs, "costs.buddy_op_ns", PS_MM(buddy_op_ns), "one split or merge under zone->lock");
  Cost(knobs, "costs.lru_op_ns", PS_MM(lru_op_ns), "moving one page under lru_lock");
  Cost(knobs, "costs.lru_look_ns", PS_MM(lru_look_ns),
       "a lock-free LRU's look at an entry or frame in sequence");
  Cost(knobs, "costs.watermark_ns", PS_MM(watermark_ns), "one watermark check");
  Cost(knobs, "costs.page_list_ns", PS_MM(page_list_ns),
       "deciding about one page in reclaim, without rmap and I/O");
  Cost(knobs, "costs.rmap_vma_ns", PS_MM(rmap_vma_ns),
       "one area visited in a reverse-mapping walk");
  Cost(knobs, "costs.pte_ns", PS_MM(pte_ns), "looking at or changing one pte");
}

void AddIoCosts(std::vector<Knob>& knobs) {
  Cost(knobs, "costs.swap_slot_ns", PS_MM(swap_slot_ns), "finding or freeing a swap slot");
  Cost(knobs, "costs.submit_io_ns", PS_MM(submit_io_ns), "building and queueing a request");
  Cost(knobs, "costs.complete_io_ns", PS_MM(complete_io_ns), "completing one page");
  Cost(knobs, "costs.fork_ns", PS_MM(fork_ns), "fork without its copies");
  Cost(knobs, "costs.fork_pte_ns", PS_MM(fork_pte_ns), "copying one pte in fork");
  Cost(knobs, "costs.exit_ns", PS_MM(exit_ns), "exit without freeing memory");
  Cost(knobs, "costs.slab_object_ns", PS_MM(slab_object_ns), "freeing one slab object");
}

#undef PS_MM
#undef PS_ENGINE

}  // namespace

std::vector<Knob> CostKnobs() {
  std::vector<Knob> knobs;
  AddEngineCosts(knobs);
  AddMemoryCosts(knobs);
  AddIoCosts(knobs);
  return knobs;
}

}  // namespace pagestorm::bench
