#include "bench/emulator/wiring.h"

#include <algorithm>

#include "core/fifo_scheduler.h"
#include "core/rng.h"
#include "numa/latency_model.h"
#include "numa/machine_spec.h"
#include "sched/cfs.h"

namespace pagestorm::bench {
namespace {

// The CPU that stands for a service CPU where the latency model needs a real one.
CpuId Stand(const numa::Topology& topology, const CpuSpec& spec, std::size_t position) {
  if (position < topology.cpu_count()) return {static_cast<std::int32_t>(position)};
  const numa::Node& node = topology.NodeAt(spec.node);
  return node.has_cpus() ? node.cpus.front() : kNoCpu;
}

std::vector<std::int32_t> TransferMatrix(const numa::Topology& topology,
                                         const std::vector<CpuSpec>& cpus,
                                         const numa::LatencyModel& latency,
                                         const numa::LatencyParams& params) {
  const std::size_t n = cpus.size();
  std::vector<std::int32_t> matrix(n * n, 0);
  for (std::size_t a = 0; a < n; ++a) {
    const CpuId from = Stand(topology, cpus[a], a);
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const CpuId to = Stand(topology, cpus[b], b);
      // A service CPU shares no cache with those of its node; with a CPU-less node, nothing better
      // is known than a transfer within a package.
      const bool known = from != kNoCpu && to != kNoCpu && from != to;
      const Ns cost = known ? latency.TransferCost(from, to) : params.transfer_same_package;
      matrix[a * n + b] = static_cast<std::int32_t>(cost.n);
    }
  }
  return matrix;
}

std::size_t ServiceCpus(const RunConfig& config, const numa::Topology& topology) {
  return config.engine.kind == EngineKind::kVirtual ? 1 : topology.node_count();
}

// What the kernel takes of each node: the machine file's share, shifted by this boot's luck.
std::vector<Pages> BootReserves(const RunConfig& config, const numa::Topology& topology) {
  Rng luck = Seeds(config.seed).Stream("boot reserve");
  const std::int64_t per_mille = config.machine.nuisance.free_ram_per_mille;
  std::vector<Pages> reserves;
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    const std::int64_t pages = topology.nodes[i].memory_bytes >> config.machine.page_shift.n;
    const std::int64_t share = pages * per_mille / 1000;
    // At least the share is taken, so that luck can give some of it back.
    const std::int64_t base = std::max(numa::BootReserve(config.machine, i).n, share);
    const std::int64_t shift = share == 0 ? 0 : luck.Between(-share, share);
    reserves.push_back({base + shift});
  }
  return reserves;
}

mm::MmCosts CostsOf(const RunConfig& config, const numa::Topology& topology) {
  mm::MmCosts costs = config.costs;
  const numa::LatencyModel latency(topology, config.machine.latency);
  const std::int64_t bytes = std::int64_t{1} << config.machine.page_shift.n;
  const NodeId node = topology.cpus.front().node;
  if (costs.page_zero_ns == 0) costs.page_zero_ns = latency.ZeroPage(node, node, bytes).n;
  if (costs.page_copy_ns == 0) costs.page_copy_ns = latency.CopyPage(node, node, node, bytes).n;
  return costs;
}

}  // namespace

EngineConfig EngineConfigOf(const RunConfig& config, const numa::Topology& topology) {
  EngineConfig engine;
  const bool is_host = config.machine.topology_source == "host";
  for (const numa::Cpu& cpu : topology.cpus) {
    engine.cpus.push_back(
        {.node = cpu.node, .kind = CpuKind::kOnline, .host_cpu = is_host ? cpu.os_index : -1});
  }
  for (std::size_t i = 0; i < ServiceCpus(config, topology); ++i) {
    engine.cpus.push_back({.node = topology.nodes[i].id, .kind = CpuKind::kService});
  }
  engine.seed = config.seed;
  engine.costs = config.engine_costs;
  engine.costs.fork_ns = 0;  // Process::Fork charges the kernel's cost
  const numa::LatencyModel latency(topology, config.machine.latency);
  engine.transfer_ns = TransferMatrix(topology, engine.cpus, latency, config.machine.latency);
  engine.sync_in_cs = config.engine.sync_in_cs;
  engine.slack = {config.engine.slack_ns};
  engine.scale = config.engine.time_scale;
  engine.strict = config.engine.strict;
  engine.bind = config.engine.bind;
  engine.stall_after = config.engine.stall_after_s * kSecond;
  if (config.engine.time_limit_s > 0) engine.time_limit = config.engine.time_limit_s * kSecond;
  return engine;
}

absl::StatusOr<mm::MmConfig> MmConfigOf(const RunConfig& config, const numa::Topology& topology) {
  auto map = numa::EffectiveMemoryMap(config.machine);
  if (!map.ok()) return map.status();
  mm::MmConfig mm;
  mm.map = *std::move(map);
  mm.distance = topology.distances;
  mm.boot_reserved = BootReserves(config, topology);
  mm.policy = config.policy;
  mm.costs = CostsOf(config, topology);
  mm.stamps = config.stamps;
  mm.slab_reclaimable_pages = config.machine.slab_reclaimable_pages / config.machine.scale;
  mm.page_cache_pages = config.machine.page_cache_pages / config.machine.scale;
  mm.swap = numa::SwapPages(config.machine);
  const numa::DiskSpec& disk = config.machine.disk;
  mm.disk.positioning_ns = disk.positioning.n;
  mm.disk.bytes_per_second = disk.transfer_mb_per_s * 1'000'000;
  mm.disk.nr_requests = disk.nr_requests;
  mm.disk.max_request_bytes = std::int64_t{disk.max_request_kib} * 1024;
  auto cgroups = CgroupsOf(config);
  if (!cgroups.ok()) return cgroups.status();
  mm.cgroups = *std::move(cgroups);
  mm.device_cpus.set(topology.cpu_count());
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    mm.node_has_cpus.push_back(topology.nodes[i].has_cpus());
    CpuMask mask;
    const bool apart = !config.machine.kswapd_shares_cpus || !topology.nodes[i].has_cpus();
    if (config.engine.kind == EngineKind::kThreads && apart) mask.set(topology.cpu_count() + i);
    mm.kswapd_cpus.push_back(mask);
  }
  return mm;
}

std::unique_ptr<Scheduler> SchedulerOf(const RunConfig& config, const numa::Topology& topology) {
  if (config.scheduler == SchedulerKind::kFifo) {
    return std::make_unique<FifoScheduler>(config.engine.kind, Ns{config.fifo_slice_ns});
  }
  // Online CPUs only: the scheduler adds the engine's service CPUs itself.
  return std::make_unique<sched::CfsScheduler>(config.engine.kind, config.sched,
                                               sched::CpuTopology::From(topology));
}

}  // namespace pagestorm::bench
