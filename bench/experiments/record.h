// What one run leaves behind, in memory: plain data, gathered once the machine is at rest.
//
// Everything in it but `host` is emulated and, under the virtual engine, a function of the
// configuration alone. result.json, reports and comparisons are made from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/config/run_config.h"
#include "bench/emulator/emulator.h"
#include "bench/workloads/workload.h"
#include "core/host_report.h"
#include "core/spin_lock.h"
#include "mm/oom.h"
#include "mm/reclaim.h"
#include "mm/throttle.h"

namespace pagestorm::bench {

// Exit codes of every command.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitBadInput = 2,
  kExitStalled = 3,
  kExitInterrupted = 130,
};

using Counters = std::vector<std::pair<std::string, std::int64_t>>;  // in a fixed order

struct TextFile {
  std::string path;  // "proc/vmstat"
  std::string text;
};

struct ZoneRecord {
  int node = 0;
  std::string name;
  std::int64_t present = 0, spanned = 0, free = 0, min = 0, low = 0, high = 0;
  LockStats lock;      // zone->lock
  LockStats lru_lock;  // zone->lru_lock
  LockStats lru_line;  // lines that CPUs share in an LRU without a lock
  // With memory cgroups, those of all groups in the zone: the locks of their lists (lru = zone) or
  // lruvec->lru_lock.
  LockStats cgroup_lock;
};

struct CgroupRecord {
  std::string path;  // "/all/g0"
  // Pages; limit -1: none.
  std::int64_t limit = 0, usage = 0, max_usage = 0;
  std::int64_t failcnt = 0, reclaims = 0, fruitless = 0, scanned = 0, reclaimed = 0, kills = 0,
               bypassed = 0;
};

struct HostRecord {     // the only part that differs between two runs of one configuration
  std::string started;  // "2008-07-19T12:00:00Z"
  std::string host_name;
  double seconds = 0;  // host time of the run, booting included
  std::int64_t peak_rss_kib = 0;
  std::optional<HostReport> threads;
};

struct RunRecord {
  RunConfig config;  // with the workload's "auto" parameters filled in
  MachineOutcome outcome;
  WorkloadReport workload;
  bool partial = false;  // interrupted or cut: the figures are those so far
  Counters before, after;
  std::vector<TextFile> files_before, files_after;
  std::vector<ZoneRecord> zones;
  std::vector<CgroupRecord> cgroups;  // empty: the machine has none
  mm::Reclaimer::Peaks peaks;
  mm::Gate::Peak gate;
  mm::Gate::Numbers gate_numbers;
  std::int64_t oom_kills = 0;
  std::vector<mm::OomKiller::Snapshot> ooms;
  std::vector<Sample> samples;
  std::string dmesg;
  numa::Topology topology;  // as emulated
  HostRecord host;

  // Waiting for zone->lru_lock, or what is there in its place, and for the locks of memory cgroups'
  // lists, by tasks inside the zone shrinker, all zones; and its share of the CPU time they spent
  // there, in millionths: 0 if nobody was there.
  [[nodiscard]] std::int64_t lru_wait_in_reclaim_ns() const;
  [[nodiscard]] std::int64_t lru_wait_share_ppm() const;

  [[nodiscard]] ExitCode exit_code() const;
  // Why the exit code is not 0, one line; empty if it is.
  [[nodiscard]] std::string verdict() const;
};

[[nodiscard]] std::string_view RunEndName(RunEnd end);

}  // namespace pagestorm::bench
