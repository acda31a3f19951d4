#include "bench/workloads/workload.h"

#include "bench/workloads/filestorm.h"
#include "bench/workloads/hackbench.h"
#include "bench/workloads/lruscan.h"
#include "bench/workloads/press.h"
#include "bench/workloads/soak.h"

namespace pagestorm::bench {
namespace {

// Sorted by name. A new workload adds its line here and its file to CMakeLists.txt.
const std::map<std::string, WorkloadFactory, std::less<>>& Factories() {
  static const std::map<std::string, WorkloadFactory, std::less<>> factories{
      {"filestorm", MakeFilestorm}, {"hackbench", MakeHackbench}, {"lruscan", MakeLruscan},
      {"press", MakePress},         {"soak", MakeSoak},
  };
  return factories;
}

}  // namespace

void FailIfLost(WorkloadReport& report, std::int64_t pages_lost) {
  if (pages_lost == 0) return;
  report.ok = false;
  report.failure = std::to_string(pages_lost) + " pages came back with another content";
}

std::unique_ptr<Workload> MakeWorkload(std::string_view name) {
  const auto found = Factories().find(name);
  return found == Factories().end() ? nullptr : found->second();
}

std::vector<std::string> KnownWorkloads() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : Factories()) names.push_back(name);
  return names;
}

}  // namespace pagestorm::bench
