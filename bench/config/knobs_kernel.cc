// Knobs of the kernel: mm::MmPolicy and sched::SchedPolicy, by the names the specification gives.
#include "bench/config/knob_kinds.h"
#include "mm/throttle.h"

namespace pagestorm::bench {
namespace {

constexpr KnobScope kKernel = KnobScope::kKernel;

// A knob whose member and last name are the same word.
#define PS_FIELD(path) \
  [](auto& c) -> auto& { return c.path; }

void Bool(std::vector<Knob>& knobs, std::string name, auto field, std::string doc) {
  knobs.push_back(BoolKnob(std::move(name), kKernel, field, std::move(doc)));
}
void Int(std::vector<Knob>& knobs, std::string name, std::int64_t low, std::int64_t high,
         auto field, std::string doc) {
  knobs.push_back(IntKnob(std::move(name), kKernel, low, high, field, std::move(doc)));
}

void AddThrottleChoices(std::vector<Knob>& knobs) {
  using enum mm::ThrottleWake;
  knobs.push_back(EnumKnob<mm::ThrottleScope>(
      "throttle.scope", kKernel,
      {{"off", mm::ThrottleScope::kOff},
       {"global", mm::ThrottleScope::kGlobal},
       {"zone", mm::ThrottleScope::kZone},
       {"node", mm::ThrottleScope::kNode}},
      PS_FIELD(policy.throttle.scope), "what one counter and one queue of the throttle stand for"));
  knobs.push_back(EnumKnob<mm::ThrottleLimitRule>(
      "throttle.limit_rule", kKernel,
      {{"fixed", mm::ThrottleLimitRule::kFixed},
       {"2*nodes", mm::ThrottleLimitRule::kTwicePerNode},
       {"cpus/4+1", mm::ThrottleLimitRule::kCpusQuarterPlusOne}},
      PS_FIELD(policy.throttle.limit_rule), "where the limit comes from; fixed: throttle.limit"));
  knobs.push_back(EnumKnob<mm::ThrottleWake>(
      "throttle.wake", kKernel,
      {{"all", kAll},
       {"one_as_posted", kOneAsPosted},
       {"one_strict_fifo", kOneStrictFifo},
       {"one_strict_lifo", kOneStrictLifo}},
      PS_FIELD(policy.throttle.wake),
      "whom a leaving task wakes; one_as_posted wakes all, as the queue's waiters make it"));
  knobs.push_back(EnumKnob<mm::ThrottleCutoff>(
      "throttle.cutoff", kKernel,
      {{"off", mm::ThrottleCutoff::kOff},
       {"wall(HZ)", mm::ThrottleCutoff::kWallHz},
       {"wall(HZ/10)", mm::ThrottleCutoff::kWallHz10},
       {"pgfree", mm::ThrottleCutoff::kPgfree}},
      PS_FIELD(policy.throttle.cutoff), "what makes an admitted task test whether it may leave"));
  knobs.push_back(EnumKnob<mm::CutoffClass>(
      "throttle.cutoff_class", kKernel,
      {{"first_zone", mm::CutoffClass::kFirstZone},
       {"highest", mm::CutoffClass::kHighest},
       {"request", mm::CutoffClass::kRequest}},
      PS_FIELD(policy.throttle.cutoff_class),
      "the zone index that the cut-off's watermark check protects against"));
  knobs.push_back(EnumKnob<mm::LastChecked>(
      "throttle.v4_last_checked", kKernel,
      {{"per_call", mm::LastChecked::kPerCall}, {"per_zone", mm::LastChecked::kPerZone}},
      PS_FIELD(policy.throttle.v4_last_checked),
      "memory of a wall-clock cut-off's last check: per_call as posted, per_zone as described"));
  knobs.push_back(
      EnumKnob<mm::BetweenPriorityCheck>("throttle.between_priority_check", kKernel,
                                         {{"off", mm::BetweenPriorityCheck::kOff},
                                          {"v2", mm::BetweenPriorityCheck::kV2},
                                          {"v3", mm::BetweenPriorityCheck::kV3}},
                                         PS_FIELD(policy.throttle.between_priority_check),
                                         "the same test between two priorities of direct reclaim"));
  knobs.push_back(EnumKnob<mm::PgfreeReader>(
      "throttle.pgfree_reader", kKernel,
      {{"unlocked", mm::PgfreeReader::kUnlocked},
       {"hotplug_read_locked", mm::PgfreeReader::kHotplugReadLocked},
       {"disabled", mm::PgfreeReader::kDisabled}},
      PS_FIELD(policy.throttle.pgfree_reader), "how the event counter PGFREE is summed"));
}

// May be empty: no file.
Knob SysctlKnob() {
  return {"throttle.sysctl",
          kKernel,
          "a text",
          "name of the limit's file in /proc/sys/vm; empty: there is none",
          [](const RunConfig& c) { return Value::Text(c.policy.throttle.sysctl); },
          [](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kText) return false;
            c.policy.throttle.sysctl = v.text;
            return true;
          }};
}

void AddThrottle(std::vector<Knob>& knobs) {
  knobs.push_back(TextKnob("throttle.gate", kKernel, PS_FIELD(policy.throttle.gate),
                           "names of registered gates (none, throttle, ...), joined by +",
                           "the policy objects in front of zone reclaim"));
  Int(knobs, "throttle.limit", -2'147'483'648, 2'147'483'647, PS_FIELD(policy.throttle.limit),
      "tasks that may reclaim a zone at once; 0 hangs them all, negative: no limit");
  AddThrottleChoices(knobs);
  Bool(knobs, "throttle.recursion_guard", PS_FIELD(policy.throttle.recursion_guard),
       "a task inside reclaim is not stopped again (PF_RECLAIMING)");
  Bool(knobs, "throttle.gfp_exempt", PS_FIELD(policy.throttle.gfp_exempt),
       "requests without both IO and FS pass freely");
  Int(knobs, "throttle.cutoff_mult", 0, 1'000'000, PS_FIELD(policy.throttle.cutoff_mult),
      "pgfree cut-off: pages freed since entry, in units of 2^order + pages_high");
  Int(knobs, "throttle.cutoff_mark_mult", 0, 1'000'000, PS_FIELD(policy.throttle.cutoff_mark_mult),
      "cut-off: the watermark tested, in units of pages_high");
  Bool(knobs, "throttle.may_cut_off_gate", PS_FIELD(policy.throttle.may_cut_off_gate),
       "only callers that allow it can be cut off");
  Bool(knobs, "throttle.memcg_cutoff", PS_FIELD(policy.throttle.memcg_cutoff),
       "the reclaim of a memory group can be cut off too");
  Bool(knobs, "throttle.gate_kswapd", PS_FIELD(policy.throttle.gate_kswapd), "kswapd waits too");
  Bool(knobs, "throttle.gate_zone_reclaim", PS_FIELD(policy.throttle.gate_zone_reclaim),
       "zone_reclaim waits too");
  Bool(knobs, "throttle.gate_memcg", PS_FIELD(policy.throttle.gate_memcg),
       "the reclaim of a memory group waits too");
  Bool(knobs, "throttle.kswapd_reset_nr_reclaimed",
       PS_FIELD(policy.throttle.kswapd_reset_nr_reclaimed),
       "kswapd starts each priority with nothing reclaimed, as before the patch");
  knobs.push_back(SysctlKnob());
}

// throttle.<gate>.<knob>: what each registered gate brings along.
Knob KnobOfGate(const mm::GateType& type, const mm::GateKnob& knob) {
  const std::string key = type.name + "." + knob.name;
  return {"throttle." + key,
          kKernel,
          knob.is_switch ? "true, false" : RangeText(knob.low, knob.high),
          knob.doc,
          [key, knob](const RunConfig& c) {
            const auto set = c.policy.throttle.gate_knobs.find(key);
            const std::int64_t value =
                set == c.policy.throttle.gate_knobs.end() ? knob.value : set->second;
            return knob.is_switch ? Value::Bool(value != 0) : Value::Int(value);
          },
          [key, knob](RunConfig& c, const Value& v) {
            const bool fits = knob.is_switch ? v.kind == Value::Kind::kBool
                                             : v.kind == Value::Kind::kInt &&
                                                   v.integer >= knob.low && v.integer <= knob.high;
            if (!fits) return false;
            c.policy.throttle.gate_knobs[key] = knob.is_switch ? (v.boolean ? 1 : 0) : v.integer;
            return true;
          }};
}

void AddGates(std::vector<Knob>& knobs) {
  for (const mm::GateType* type : mm::KnownGates()) {
    for (const mm::GateKnob& knob : type->knobs) knobs.push_back(KnobOfGate(*type, knob));
  }
}

void AddReclaim(std::vector<Knob>& knobs) {
  knobs.push_back(EnumKnob<mm::LruDesign>("lru", kKernel,
                                          {{"locked", mm::LruDesign::kLocked},
                                           {"ring", mm::LruDesign::kRing},
                                           {"clock", mm::LruDesign::kClock}},
                                          PS_FIELD(policy.lru),
                                          "the LRU: lists under lru_lock, as every kernel has; a "
                                          "generation ring or a clock without a lock"));
  Bool(knobs, "reclaim.split_lru", PS_FIELD(policy.reclaim.split_lru),
       "separate LRU lists for anonymous and file pages (2.6.28)");
  Bool(knobs, "reclaim.split_quota_plus_one", PS_FIELD(policy.reclaim.split_quota_plus_one),
       "split LRU: each visit adds a page to every list's quota, however short the list");
  Int(knobs, "reclaim.swappiness", 0, 100, PS_FIELD(policy.reclaim.swappiness), "vm.swappiness");
  Int(knobs, "reclaim.page_cluster", 0, 10, PS_FIELD(policy.reclaim.page_cluster),
      "vm.page-cluster: log2 of the pages read ahead from swap");
  Bool(knobs, "reclaim.laptop_mode", PS_FIELD(policy.reclaim.laptop_mode), "vm.laptop_mode");
  Int(knobs, "reclaim.nap_min_io_pages", 0, 1'000'000, PS_FIELD(policy.reclaim.nap_min_io_pages),
      "direct reclaim naps only if more pages than this are under I/O");
  Int(knobs, "reclaim.bail_out_pages", 0, 1'000'000, PS_FIELD(policy.reclaim.bail_out_pages),
      "leave the zone shrinker once so many pages were reclaimed; 0: never (2.6.29: 32)");
  Bool(knobs, "reclaim.slab_counts_as_progress", PS_FIELD(policy.reclaim.slab_counts_as_progress),
       "freed slab pages are progress of direct reclaim (SLAB yes, SLUB no)");
  Bool(knobs, "reclaim.reclaim_mapped", PS_FIELD(policy.reclaim.reclaim_mapped),
       "the distress formula decides whether mapped pages are deactivated; false: always");
  Bool(knobs, "reclaim.prev_priority", PS_FIELD(policy.reclaim.prev_priority),
       "a zone remembers how hard the last reclaim was");
  Bool(knobs, "reclaim.all_unreclaimable", PS_FIELD(policy.reclaim.all_unreclaimable),
       "zones without success are marked and skipped");
  Bool(knobs, "reclaim.vm_writeout_throttle", PS_FIELD(policy.reclaim.vm_writeout_throttle),
       "reclaimers wait while too much is under writeback (throttle_vm_writeout)");
  Bool(knobs, "reclaim.isolated_visible", PS_FIELD(policy.reclaim.isolated_visible),
       "ablation: isolated pages stay counted and found on the LRU");
  Bool(knobs, "reclaim.submission_blocks", PS_FIELD(policy.reclaim.submission_blocks),
       "a full request queue makes the writer sleep; false is an ablation");
  Bool(knobs, "reclaim.resched_while_isolating", PS_FIELD(policy.reclaim.resched_while_isolating),
       "a task can be preempted with isolated pages; false is an ablation");
  Bool(knobs, "reclaim.nap_when_nothing_scanned", PS_FIELD(policy.reclaim.nap_when_nothing_scanned),
       "ablation: nap below priority 10 whatever was scanned");
  Bool(knobs, "reclaim.drain_pcp_before_oom", PS_FIELD(policy.reclaim.drain_pcp_before_oom),
       "ablation: empty the per-CPU lists before the last walk");
}

Knob ReserveRatioKnob() {
  return {"alloc.lowmem_reserve_ratio",
          kKernel,
          "a list of 3 integers >= 1",
          "vm.lowmem_reserve_ratio, one a lower zone",
          [](const RunConfig& c) {
            std::vector<Value> list;
            for (const std::int64_t n : c.policy.alloc.lowmem_reserve_ratio) {
              list.push_back(Value::Int(n));
            }
            return Value::List(std::move(list));
          },
          [](RunConfig& c, const Value& v) {
            auto ratio = c.policy.alloc.lowmem_reserve_ratio;
            if (v.kind != Value::Kind::kList || v.list.size() != ratio.size()) return false;
            for (std::size_t i = 0; i < ratio.size(); ++i) {
              if (v.list[i].kind != Value::Kind::kInt || v.list[i].integer < 1) return false;
              ratio[i] = v.list[i].integer;
            }
            c.policy.alloc.lowmem_reserve_ratio = ratio;
            return true;
          }};
}

void AddWatermark(std::vector<Knob>& knobs) {
  knobs.push_back(EnumKnob<mm::WatermarkSteps>(
      "alloc.watermark.steps", kKernel,
      {{"quarter_half", mm::WatermarkSteps::kQuarterHalf},
       {"scale_factor", mm::WatermarkSteps::kScaleFactor}},
      PS_FIELD(policy.alloc.watermark.steps),
      "how far low and high stand above min: min/4 and min/2, or by watermark_scale_factor (4.6)"));
  Int(knobs, "alloc.watermark.scale_factor", 1, 1000, PS_FIELD(policy.alloc.watermark.scale_factor),
      "vm.watermark_scale_factor, in 1/10000 of a zone");
  Int(knobs, "alloc.watermark.min_free_kbytes_cap", 128, 1'000'000'000,
      PS_FIELD(policy.alloc.watermark.min_free_kbytes_cap),
      "most that the computed min_free_kbytes may be");
  Bool(knobs, "alloc.watermark.huge_pages", PS_FIELD(policy.alloc.watermark.huge_pages),
       "transparent huge pages raise the computed min_free_kbytes");
}

void AddAlloc(std::vector<Knob>& knobs) {
  Int(knobs, "alloc.min_free_kbytes", 0, 1'000'000'000, PS_FIELD(policy.alloc.min_free_kbytes),
      "vm.min_free_kbytes; 0: computed from the size of memory");
  knobs.push_back(ReserveRatioKnob());
  Int(knobs, "alloc.percpu_pagelist_fraction", 0, 1'000'000,
      PS_FIELD(policy.alloc.percpu_pagelist_fraction),
      "vm.percpu_pagelist_fraction: 0 off, else at least 8");
  knobs.push_back(TextKnob(
      "alloc.numa_zonelist_order", kKernel, PS_FIELD(policy.alloc.numa_zonelist_order),
      "\"default\", \"node\", \"zone\" (the first letter decides)", "vm.numa_zonelist_order"));
  Int(knobs, "alloc.zone_reclaim_mode", -1, 7, PS_FIELD(policy.alloc.zone_reclaim_mode),
      "vm.zone_reclaim_mode; -1: 1 if a node is far away, else 0");
  Int(knobs, "alloc.min_unmapped_ratio", 0, 100, PS_FIELD(policy.alloc.min_unmapped_ratio),
      "vm.min_unmapped_ratio, percent");
  Int(knobs, "alloc.min_slab_ratio", 0, 100, PS_FIELD(policy.alloc.min_slab_ratio),
      "vm.min_slab_ratio, percent");
  Int(knobs, "alloc.struct_page_bytes", 0, 1024, PS_FIELD(policy.alloc.struct_page_bytes),
      "bytes of the emulated kernel's own page descriptors");
  Int(knobs, "alloc.pageblock_order", 0, 10, PS_FIELD(policy.alloc.pageblock_order),
      "log2 of the pages that share a migrate type");
  knobs.push_back(EnumKnob<mm::AllocRetry>(
      "alloc.retry", kKernel,
      {{"2.6.26", mm::AllocRetry::kUntilNoProgress}, {"4.7", mm::AllocRetry::kSixteenRounds}},
      PS_FIELD(policy.alloc.retry),
      "after reclaim: OOM once it makes no progress, or (4.7) once it could not help any more"));
  Bool(knobs, "alloc.oom_lock", PS_FIELD(policy.alloc.oom_lock),
       "one OOM decision at a time (oom.lock); false: none is kept out");
  AddWatermark(knobs);
}

void AddRest(std::vector<Knob>& knobs) {
  Int(knobs, "dirty.dirty_background_ratio", 0, 100, PS_FIELD(policy.dirty.dirty_background_ratio),
      "vm.dirty_background_ratio, percent");
  Int(knobs, "dirty.dirty_ratio", 0, 100, PS_FIELD(policy.dirty.dirty_ratio),
      "vm.dirty_ratio, percent");
  knobs.push_back(EnumKnob<mm::OomLock>(
      "oom.lock", kKernel, {{"zones", mm::OomLock::kZones}, {"machine", mm::OomLock::kMachine}},
      PS_FIELD(policy.oom.lock),
      "one OOM decision at a time for the zones of a list, or at all (4.7)"));
  Bool(knobs, "oom.reaper", PS_FIELD(policy.oom.reaper),
       "a kernel thread frees the memory of OOM victims (4.6)");
  Int(knobs, "oom.panic_on_oom", 0, 2, PS_FIELD(policy.oom.panic_on_oom), "vm.panic_on_oom");
  Bool(knobs, "oom.oom_kill_allocating_task", PS_FIELD(policy.oom.oom_kill_allocating_task),
       "vm.oom_kill_allocating_task");
  Bool(knobs, "oom.oom_dump_tasks", PS_FIELD(policy.oom.oom_dump_tasks), "vm.oom_dump_tasks");
  knobs.push_back(EnumKnob<mm::MemcgLru>(
      "memcg.lru", kKernel,
      {{"zone", mm::MemcgLru::kZone}, {"per_cgroup", mm::MemcgLru::kPerCgroup}},
      PS_FIELD(policy.memcg.lru),
      "pages of memory cgroups: on the zone's LRU and a list of the group (2.6.26), or on an LRU "
      "of "
      "zone and group with its own lru_lock (5.11)"));
}

void AddSchedTimes(std::vector<Knob>& knobs) {
  knobs.push_back(EnumKnob<SchedulerKind>(
      "sched.class", kKernel, {{"cfs", SchedulerKind::kCfs}, {"fifo", SchedulerKind::kFifo}},
      PS_FIELD(scheduler), "cfs: the fair scheduler; fifo: one queue a CPU and a fixed slice"));
  Int(knobs, "sched.fifo_slice_ns", 1'000, 10'000'000'000, PS_FIELD(fifo_slice_ns),
      "slice of sched.class fifo");
  Int(knobs, "sched.latency_ns", 100'000, 1'000'000'000, PS_FIELD(sched.latency_ns),
      "period in which every task of a CPU runs once, before scaling");
  Int(knobs, "sched.min_granularity_ns", 100'000, 1'000'000'000, PS_FIELD(sched.min_granularity_ns),
      "shortest slice, before scaling");
  Int(knobs, "sched.wakeup_granularity_ns", 0, 1'000'000'000, PS_FIELD(sched.wakeup_granularity_ns),
      "lead a waking task needs to preempt, before scaling");
  knobs.push_back(EnumKnob<sched::Scaling>("sched.scaling", kKernel,
                                           {{"none", sched::Scaling::kNone},
                                            {"log", sched::Scaling::kLog},
                                            {"linear", sched::Scaling::kLinear}},
                                           PS_FIELD(sched.scaling),
                                           "how the three times grow with the number of CPUs"));
  Int(knobs, "sched.scaling_cpus_max", 0, 1'048'576, PS_FIELD(sched.scaling_cpus_max),
      "CPUs beyond do not scale further; 0: no bound");
  Int(knobs, "sched.migration_cost_ns", 0, 1'000'000'000, PS_FIELD(sched.migration_cost_ns),
      "a task that ran less than this ago is cache-hot");
  Int(knobs, "sched.nr_migrate", 1, 1'048'576, PS_FIELD(sched.nr_migrate),
      "queued tasks looked at by one attempt to pull");
  Int(knobs, "sched.tick_ns", 100'000, 1'000'000'000, PS_FIELD(sched.tick_ns), "a timer tick");
}

void AddSched(std::vector<Knob>& knobs) {
  AddSchedTimes(knobs);
  Bool(knobs, "sched.hrtick", PS_FIELD(sched.hrtick), "slices end on time, not at the next tick");
  Bool(knobs, "sched.gentle_fair_sleepers", PS_FIELD(sched.gentle_fair_sleepers),
       "sleeper credit is half a latency instead of a whole one");
  Bool(knobs, "sched.start_debit", PS_FIELD(sched.start_debit), "a new task starts a slice behind");
  Bool(knobs, "sched.wakeup_preemption", PS_FIELD(sched.wakeup_preemption),
       "a waking task can preempt");
  Bool(knobs, "sched.last_buddy", PS_FIELD(sched.last_buddy), "a preempted task comes back first");
  Bool(knobs, "sched.tick_fairness", PS_FIELD(sched.tick_fairness),
       "a tick preempts a task that is far ahead of the leftmost");
  Bool(knobs, "sched.idle_stealing", PS_FIELD(sched.idle_stealing),
       "a CPU that would go idle pulls a task");
  Bool(knobs, "sched.wake_any_idle", PS_FIELD(sched.wake_any_idle),
       "without an idle CPU near, a waking task goes to one far away");
  knobs.push_back(EnumKnob<sched::QueueOrder>(
      "sched.order", kKernel,
      {{"fair", sched::QueueOrder::kFair}, {"fifo", sched::QueueOrder::kFifo}},
      PS_FIELD(sched.order), "fair: smallest vruntime first; fifo is an ablation"));
  knobs.push_back(EnumKnob<sched::PreemptModel>(
      "sched.preempt", kKernel,
      {{"none", sched::PreemptModel::kNone}, {"full", sched::PreemptModel::kFull}},
      PS_FIELD(sched.preempt),
      "none: kernel code gives way at cond_resched only; full is refused"));
}

#undef PS_FIELD

}  // namespace

std::vector<Knob> KernelKnobs() {
  std::vector<Knob> knobs;
  Int(
      knobs, "hz", 24, 10'000, [](auto& c) -> auto& { return c.policy.hz; },
      "timer interrupts a second; a jiffy is 1 s / hz");
  AddThrottle(knobs);
  AddGates(knobs);
  AddReclaim(knobs);
  AddAlloc(knobs);
  AddRest(knobs);
  AddSched(knobs);
  return knobs;
}

}  // namespace pagestorm::bench
