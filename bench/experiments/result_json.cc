#include "bench/experiments/result_json.h"

#include <nlohmann/json.hpp>

#include "bench/config/knobs.h"
#include "bench/experiments/counters_json.h"
#include "bench/version.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kBool:
      return value.boolean;
    case Value::Kind::kInt:
      return value.integer;
    case Value::Kind::kReal:
      return value.real;
    case Value::Kind::kText:
      return value.text;
    case Value::Kind::kList: {
      Json list = Json::array();
      for (const Value& element : value.list) list.push_back(ToJson(element));
      return list;
    }
    case Value::Kind::kTable: {
      Json table = Json::object();
      for (const Member& member : value.members) table[member.key] = ToJson(member.value);
      return table;
    }
  }
  return nullptr;
}

// Every knob but the topology's source, which says where a file lay and not what was run.
Json ConfigJson(const RunConfig& config) {
  Json json = Json::object();
  for (const Knob& knob : KnobsOf(config)) {
    if (knob.name != "machine.topology") json[knob.name] = ToJson(knob.get(config));
  }
  Json sysctls = Json::array();
  for (const SysctlWrite& write : config.sysctls) {
    sysctls.push_back({{"at_ns", write.at_ns}, {"name", write.name}, {"value", write.value}});
  }
  json["sysctl"] = std::move(sysctls);
  return json;
}

Json WorkloadJson(const RunRecord& record) {
  Json json;
  json["name"] = record.config.workload;
  json["ok"] = record.workload.ok;
  json["failure"] = record.workload.failure;
  json["numbers"] = CountersJson(record.workload.numbers);
  json["out"] = record.workload.out;
  return json;
}

Json MachineJson(const RunRecord& record) {
  Json json;
  json["name"] = record.config.machine.name;
  json["scale"] = record.config.machine.scale;
  json["page_bytes"] = std::int64_t{1} << record.config.machine.page_shift.n;
  json["cpus"] = record.topology.cpu_count();
  json["nodes"] = record.topology.node_count();
  json["memory_bytes"] = record.topology.TotalMemoryBytes();
  return json;
}

Json LockJson(const std::string& lock_class, const ZoneRecord& zone, const LockStats& stats) {
  return {{"class", lock_class},
          {"node", zone.node},
          {"zone", zone.name},
          {"acquisitions", stats.acquisitions},
          {"contentions", stats.contentions},
          {"wait_ns", stats.wait_ns},
          {"wait_ns_max", stats.wait_ns_max},
          {"hold_ns", stats.hold_ns},
          {"hold_ns_max", stats.hold_ns_max}};
}

Json LocksJson(const RunRecord& record) {
  Json json = Json::array();
  for (const ZoneRecord& zone : record.zones) {
    json.push_back(LockJson("zone->lock", zone, zone.lock));
    json.push_back(LockJson("zone->lru_lock", zone, zone.lru_lock));
    if (zone.lru_line.acquisitions > 0) {
      json.push_back(LockJson("zone->lru lines", zone, zone.lru_line));
    }
    if (record.cgroups.empty()) continue;
    const bool own = record.config.policy.memcg.lru == mm::MemcgLru::kPerCgroup;
    json.push_back(LockJson(own ? "lruvec->lru_lock" : "mem_cgroup_per_zone.lru_lock", zone,
                            zone.cgroup_lock));
  }
  return json;
}

Json ZonesJson(const RunRecord& record) {
  Json json = Json::array();
  for (const ZoneRecord& zone : record.zones) {
    json.push_back({{"node", zone.node},
                    {"zone", zone.name},
                    {"present", zone.present},
                    {"spanned", zone.spanned},
                    {"free", zone.free},
                    {"min", zone.min},
                    {"low", zone.low},
                    {"high", zone.high}});
  }
  return json;
}

Json ReclaimJson(const RunRecord& record) {
  return {{"reclaimers_max", record.peaks.reclaimers_max},
          {"isolated_pages_max", record.peaks.isolated_max},
          {"isolated_share_at_max_permille", record.peaks.isolated_share_at_max_permille},
          {"isolated_share_max_permille", record.peaks.isolated_share_max_permille},
          {"shrinker_cpu_ns", record.peaks.shrinker_cpu_ns},
          {"lru_lock_wait_ns", record.lru_wait_in_reclaim_ns()},
          {"lru_lock_wait_share_ppm", record.lru_wait_share_ppm()}};
}

Json GateJson(const RunRecord& record) {
  return {{"tickets_max", record.gate.tickets},
          {"waiters_max", record.gate.waiters},
          {"cut_offs", record.gate.cut_offs},
          {"checks", record.gate.checks},
          {"numbers", CountersJson(record.gate_numbers)}};
}

Json OomJson(const RunRecord& record) {
  Json json;
  json["kills"] = record.oom_kills;
  json["snapshots"] = Json::array();
  for (const mm::OomKiller::Snapshot& oom : record.ooms) {
    json["snapshots"].push_back({{"time_ns", oom.time_ns},
                                 {"victim", oom.victim},
                                 {"isolated_pages", oom.isolated},
                                 {"lru_pages", oom.lru},
                                 {"free_pages", oom.free},
                                 {"reclaimers", oom.reclaimers}});
  }
  return json;
}

Json CgroupsJson(const RunRecord& record) {
  Json json = Json::array();
  for (const CgroupRecord& group : record.cgroups) {
    json.push_back({{"path", group.path},
                    {"limit_pages", group.limit},
                    {"usage_pages", group.usage},
                    {"max_usage_pages", group.max_usage},
                    {"failcnt", group.failcnt},
                    {"reclaims", group.reclaims},
                    {"fruitless", group.fruitless},
                    {"pages_scanned", group.scanned},
                    {"pages_reclaimed", group.reclaimed},
                    {"kills", group.kills},
                    {"pages_bypassed", group.bypassed}});
  }
  return json;
}

// One array a column: what plotting programs want.
Json SamplesJson(const RunRecord& record) {
  Json json = Json::object();
  const auto column = [&](const char* name, auto member) {
    Json values = Json::array();
    for (const Sample& sample : record.samples) values.push_back(member(sample));
    json[name] = std::move(values);
  };
  column("time_ns", [](const Sample& s) { return s.time.n; });
  column("free_pages", [](const Sample& s) { return s.free; });
  column("inactive_pages", [](const Sample& s) { return s.inactive; });
  column("active_pages", [](const Sample& s) { return s.active; });
  column("writeback_pages", [](const Sample& s) { return s.writeback; });
  column("reclaimers", [](const Sample& s) { return s.reclaimers; });
  column("isolated_pages", [](const Sample& s) { return s.isolated; });
  column("pswpout", [](const Sample& s) { return s.pswpout; });
  column("pswpin", [](const Sample& s) { return s.pswpin; });
  column("pgmajfault", [](const Sample& s) { return s.pgmajfault; });
  column("allocstall", [](const Sample& s) { return s.allocstall; });
  column("oom_kills", [](const Sample& s) { return s.oom_kills; });
  column("free_swap_slots", [](const Sample& s) { return s.free_swap; });
  return json;
}

void AddOutcome(const RunRecord& record, Json& json) {
  const RunResult& run = record.outcome.run;
  json["end"] = RunEndName(run.end);
  json["exit_code"] = static_cast<int>(record.exit_code());
  json["verdict"] = record.verdict();
  json["partial"] = record.partial;
  json["emulated_ns"] = run.emulated.n;
  json["main_end_ns"] = record.outcome.main_end.n;
  json["cpu_ns"] = {{"user", record.outcome.times.user.n},
                    {"system", record.outcome.times.system.n},
                    {"load_system", record.outcome.times.load_system().n},
                    {"idle", record.outcome.times.idle.n}};
  json["engine_events"] = run.events;
  json["trace_hash"] = fmt::format("{:016x}", run.trace_hash);
  json["stall_report"] = run.stall_report;
  json["invariants"] = record.outcome.broken.empty() ? "hold" : record.outcome.broken;
}

}  // namespace

std::string ResultJson(const RunRecord& record) {
  Json json;
  json["schema"] = "pagestorm.run";
  json["schema_version"] = kResultSchema;
  json["pagestorm"] = kVersion;
  json["kernel"] = record.config.policy.name;
  json["engine"] = EngineName(record.config.engine.kind);
  json["seed"] = record.config.seed;
  json["machine"] = MachineJson(record);
  AddOutcome(record, json);
  json["workload"] = WorkloadJson(record);
  json["reclaim"] = ReclaimJson(record);
  json["gate"] = GateJson(record);
  json["oom"] = OomJson(record);
  if (!record.cgroups.empty()) json["cgroups"] = CgroupsJson(record);
  json["counters"] = {{"before", CountersJson(record.before)},
                      {"after", CountersJson(record.after)}};
  json["zones"] = ZonesJson(record);
  json["locks"] = LocksJson(record);
  json["samples"] = SamplesJson(record);
  json["config"] = ConfigJson(record.config);
  return json.dump(2) + "\n";
}

std::string ConfigJsonText(const RunConfig& config) { return ConfigJson(config).dump(2); }

std::string HostJson(const RunRecord& record) {
  Json json;
  json["schema"] = "pagestorm.host";
  json["schema_version"] = kResultSchema;
  json["started"] = record.host.started;
  json["host_name"] = record.host.host_name;
  json["compiler"] = __VERSION__;
  json["host_seconds"] = record.host.seconds;
  json["peak_rss_kib"] = record.host.peak_rss_kib;
  if (record.host.threads) {
    const HostReport& threads = *record.host.threads;
    json["threads"] = {{"elapsed_ns", threads.elapsed.n},
                       {"host_bound_ns", threads.host_bound.n},
                       {"paused_ns", threads.paused.n},
                       {"emulated_cpus", threads.emulated_cpus},
                       {"host_cores", threads.host_cores},
                       {"oversubscribed", threads.oversubscribed},
                       {"bound", threads.bound},
                       {"timers", threads.slip.timers},
                       {"timer_late_ns_max", threads.slip.max.n}};
  }
  return json.dump(2) + "\n";
}

}  // namespace pagestorm::bench
