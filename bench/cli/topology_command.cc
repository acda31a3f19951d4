// `pagestorm topology`: what a machine is, before anything runs on it.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/cli/commands.h"
#include "bench/experiments/run.h"
#include "fmt/format.h"
#include "numa/machine_spec.h"

namespace pagestorm::bench {
namespace {

// A machine's name or file, a topology file, or a synthetic description (it has a colon).
absl::StatusOr<RunConfig> LoadMachine(const std::string& what, const CommandContext& context) {
  RunConfig config;
  absl::Status status;
  if (absl::StrContains(what, ":") && !absl::StrContains(what, "/")) {
    config.machine.name = "synthetic";
    config.machine.topology_source = what;
  } else {
    status = ApplyMachineFile(config, what, MakeLoadContext(context.roots));
  }
  if (status.ok()) status = LoadMachineTopology(config);
  if (status.ok()) status = numa::Validate(config.machine);
  if (!status.ok()) return status;
  return config;
}

std::string CpuList(const std::vector<CpuId>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1].n == cpus[last].n + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", cpus[i].n);
    if (last > i) absl::StrAppend(&text, "-", cpus[last].n);
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

void PrintNodes(const numa::Topology& topology, const numa::MemoryMap& map) {
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    const numa::Node& node = topology.nodes[i];
    fmt::print("node {}: {} MiB, CPUs {}{}{}\n", node.id.n, node.memory_bytes >> 20,
               CpuList(node.cpus), node.subtype.empty() ? "" : ", ", node.subtype);
    for (const numa::ZoneSpan& zone : map.nodes[i].zones) {
      if (zone.spanned.n == 0) continue;
      fmt::print("  zone {:<8} pfn {:>10} .. {:<10} {:>10} pages, {} absent\n", zone.name,
                 zone.start.n, zone.start.n + static_cast<std::uint64_t>(zone.spanned.n) - 1,
                 zone.spanned.n, zone.absent.n);
    }
  }
}

void PrintDistances(const numa::Topology& topology) {
  fmt::print("node distances:\nnode ");
  for (const numa::Node& node : topology.nodes) fmt::print("{:>4}", node.id.n);
  fmt::print("\n");
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    fmt::print("{:>4}:", topology.nodes[i].id.n);
    for (std::size_t j = 0; j < topology.node_count(); ++j) {
      fmt::print("{:>4}", topology.distances[i * topology.node_count() + j]);
    }
    fmt::print("\n");
  }
}

}  // namespace

int TopologyCommand(const Args& args, const CommandContext& context) {
  const auto config = LoadMachine(args.topology, context);
  if (!config.ok()) return BadInput(config.status());
  const numa::Topology topology = numa::EffectiveTopology(config->machine);
  const auto map = numa::EffectiveMemoryMap(config->machine);
  if (!map.ok()) return BadInput(map.status());
  fmt::print("machine {}: {}\n", config->machine.name, topology.Summary());
  fmt::print("arch {}, pages of {} bytes, swap {} MiB\n", numa::ArchName(config->machine.arch),
             1 << config->machine.page_shift.n,
             numa::SwapPages(config->machine).n * (1 << config->machine.page_shift.n) >> 20);
  PrintNodes(topology, *map);
  PrintDistances(topology);
  for (const std::string& note : topology.notes) fmt::print("note: {}\n", note);
  return 0;
}

}  // namespace pagestorm::bench
