// A kernel, as far as memory management goes: typed toggles that a booted machine is wired with
// once.
//
// configs/kernels/*.toml fills this in (keys are the member names with dots: throttle.limit). The
// mechanism asks these values, or policy objects made from them; it never asks for a kernel's name
// or version. Defaults are plain 2.6.26.  Source: spec throttle-2.6.26 1.5, 2.28, 3.1.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "core/units.h"

namespace pagestorm::mm {

enum class ThrottleScope : std::uint8_t { kOff, kGlobal, kZone, kNode };
enum class ThrottleWake : std::uint8_t { kAll, kOneAsPosted, kOneStrictFifo, kOneStrictLifo };
enum class ThrottleLimitRule : std::uint8_t { kFixed, kTwicePerNode, kCpusQuarterPlusOne };
enum class ThrottleCutoff : std::uint8_t { kOff, kWallHz, kWallHz10, kPgfree };
enum class BetweenPriorityCheck : std::uint8_t { kOff, kV2, kV3 };
// Which zone index the cut-off's watermark check protects against: that of the list's first zone
// (v1), the highest there is (v2, v3), or that of the request (v4 on).
enum class CutoffClass : std::uint8_t { kFirstZone, kHighest, kRequest };
// v4's memory of the last check: forgotten on every call (as posted: no effect), or kept a zone.
enum class LastChecked : std::uint8_t { kPerCall, kPerZone };
enum class PgfreeReader : std::uint8_t { kUnlocked, kHotplugReadLocked, kDisabled };

// The gate in front of zone reclaim. gate names the policy object: "none", one of
// mm/builtin_gates.h, a user's own, or several joined by "+". The members after gate_knobs are
// those of the gate "throttle".
struct ThrottlePolicy {
  std::string gate = "none";
  // Knobs of registered gates, by "<gate>.<knob>", where they differ from the gate's default.
  std::map<std::string, std::int64_t, std::less<>> gate_knobs{};
  ThrottleScope scope = ThrottleScope::kZone;
  std::int64_t limit = 3;  // no minimum, no maximum: 0 hangs every gated task, negative disables
  ThrottleLimitRule limit_rule = ThrottleLimitRule::kFixed;
  ThrottleWake wake = ThrottleWake::kOneAsPosted;
  bool recursion_guard = true;
  bool gfp_exempt = true;
  ThrottleCutoff cutoff = ThrottleCutoff::kPgfree;
  std::int64_t cutoff_mult = 4;
  std::int64_t cutoff_mark_mult = 1;
  CutoffClass cutoff_class = CutoffClass::kRequest;
  LastChecked v4_last_checked = LastChecked::kPerCall;  // of wall-clock cut-offs
  BetweenPriorityCheck between_priority_check = BetweenPriorityCheck::kOff;
  bool may_cut_off_gate = true;
  bool memcg_cutoff = false;
  bool gate_kswapd = true;
  bool gate_zone_reclaim = true;
  bool gate_memcg = true;
  PgfreeReader pgfree_reader = PgfreeReader::kHotplugReadLocked;
  bool kswapd_reset_nr_reclaimed = false;
  std::string sysctl =
      "max_nr_task_per_zone";  // name of the limit's file in /proc/sys/vm; empty: none
};

// How a zone keeps its pages by age (mm/lru.h, docs/lru.md). No kernel had another than kLocked.
enum class LruDesign : std::uint8_t { kLocked, kRing, kClock };

struct ReclaimPolicy {
  bool split_lru = false;
  // Split LRU: a visit adds one page to every list's quota, as 2.6.26 does with its one pair of
  // lists; not so when the split was merged (ADR 0012).
  bool split_quota_plus_one = false;
  std::int64_t swappiness = 60;
  std::int64_t page_cluster = 3;
  bool laptop_mode = false;
  std::int64_t nap_min_io_pages =
      0;  // nap 2.11f only if more pages than this are under I/O (-mm: 32)
  std::int64_t bail_out_pages =
      0;  // > 0: leave the zone shrinker once so many were reclaimed (2.6.29)
  bool slab_counts_as_progress = true;  // SLAB feeds the task's reclaim counter, SLUB does not
  bool reclaim_mapped = true;           // the distress formula; false: always deactivate
  bool prev_priority = true;
  bool all_unreclaimable = true;
  bool vm_writeout_throttle = true;  // throttle_vm_writeout
  // Ablations (reproducing.md): what makes the false OOM emerge, taken away one at a time.
  bool isolated_visible = false;          // isolated pages stay counted and found on the LRU
  bool submission_blocks = true;          // a full request queue makes the writer sleep
  bool resched_while_isolating = true;    // cond_resched between the pages of an isolated batch
  bool nap_when_nothing_scanned = false;  // nap below priority 10 whatever was scanned
  bool drain_pcp_before_oom = false;      // before the last-chance walk
};

// How far low and high stand above a zone's min.
enum class WatermarkSteps : std::uint8_t {
  kQuarterHalf,  // min/4 and min/2: until 4.5
  kScaleFactor,  // max(min/4, size * scale_factor / 10000) and twice that: since 4.6
};
struct WatermarkPolicy {
  WatermarkSteps steps = WatermarkSteps::kQuarterHalf;
  std::int64_t scale_factor = 10;            // watermark_scale_factor, 1..1000
  std::int64_t min_free_kbytes_cap = 65536;  // of the computed default
  bool huge_pages = false;                   // transparent huge pages raise the default
};

// When an allocation tries again after reclaim and when it calls the OOM killer (mm/alloc_retry.h).
enum class AllocRetry : std::uint8_t {
  kUntilNoProgress,  // 2.6.26: after any progress
  kSixteenRounds,    // 4.7: while reclaim could still lift a zone above its min mark
};

struct AllocPolicy {
  WatermarkPolicy watermark;
  AllocRetry retry = AllocRetry::kUntilNoProgress;
  std::int64_t min_free_kbytes = 0;  // 0: computed
  std::array<std::int64_t, 3> lowmem_reserve_ratio{256, 256, 32};
  std::int64_t percpu_pagelist_fraction = 0;    // 0: off; else >= 8
  std::string numa_zonelist_order = "default";  // first letter decides: d, n, z
  std::int64_t zone_reclaim_mode = -1;          // -1: by distance
  std::int64_t min_unmapped_ratio = 1;
  std::int64_t min_slab_ratio = 5;
  std::int64_t struct_page_bytes = 56;
  int pageblock_order = 9;
  bool oom_lock = true;
};

struct DirtyPolicy {
  std::int64_t dirty_background_ratio = 5;
  std::int64_t dirty_ratio = 10;
};

// How far the right to call the OOM killer reaches: the zones of the request, or the machine (4.7).
enum class OomLock : std::uint8_t { kZones, kMachine };

struct OomPolicy {
  OomLock lock = OomLock::kZones;
  bool reaper = false;  // 4.6: a kernel thread frees the victim's memory
  int panic_on_oom = 0;
  bool oom_kill_allocating_task = false;
  bool oom_dump_tasks = false;
};

// Which lists pages of memory cgroups are on (mm/memcg.h).
enum class MemcgLru : std::uint8_t {
  kZone,       // 2.6.26: the zone's, and the group's beside it
  kPerCgroup,  // 5.11: one LRU for each zone and group, each with a lock of its own
};
struct MemcgPolicy {
  MemcgLru lru = MemcgLru::kZone;
};

struct MmPolicy {
  std::string name = "2.6.26";  // for reports only; no decision reads it
  std::int64_t hz = 250;
  LruDesign lru = LruDesign::kLocked;
  ThrottlePolicy throttle;
  ReclaimPolicy reclaim;
  AllocPolicy alloc;
  DirtyPolicy dirty;
  OomPolicy oom;
  MemcgPolicy memcg;

  [[nodiscard]] Ns Jiffy() const { return {kSecond.n / hz}; }
  // InvalidArgument with one line: key, value, what is allowed; contradicting toggles name both.
  [[nodiscard]] absl::Status Validate() const;
};

// Modelled costs of memory management, ns of CPU time. configs/machines/*.toml gives them, with
// source and confidence; docs/model.md lists them.
struct MmCosts {
  std::int64_t page_zero_ns = 1000;  // clear one base page (overridden by page size)
  std::int64_t page_copy_ns = 1500;
  std::int64_t fault_ns = 900;  // enter and leave a page fault
  std::int64_t syscall_ns = 300;
  std::int64_t pcp_op_ns = 40;      // take from or put on a per-CPU list
  std::int64_t buddy_op_ns = 120;   // one split or merge step under zone.lock
  std::int64_t lru_op_ns = 60;      // move one page under lru_lock
  std::int64_t lru_look_ns = 5;     // lock-free LRUs: look at an entry or frame in sequence
  std::int64_t watermark_ns = 30;   // one watermark check
  std::int64_t page_list_ns = 400;  // the decision table for one page, without rmap and I/O
  std::int64_t rmap_vma_ns =
      50;  // one VMA visited in an anon_vma walk; the chain is charged, not walked
  std::int64_t pte_ns = 60;            // look at or change one pte
  std::int64_t swap_slot_ns = 200;     // find or free one slot
  std::int64_t submit_io_ns = 2500;    // build and queue one request
  std::int64_t complete_io_ns = 1500;  // completion of one page
  std::int64_t fork_ns = 60'000;       // fork without its copies
  std::int64_t fork_pte_ns = 30;       // copy one pte
  std::int64_t exit_ns = 30'000;
  std::int64_t slab_object_ns = 150;  // free one slab object
};

}  // namespace pagestorm::mm
