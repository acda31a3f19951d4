// The memory cgroups of a run: from the short form (so many of one limit) or the list of groups to
// what mm/ boots with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mm/memory_manager.h"

namespace pagestorm::bench {

struct RunConfig;

// One group of the list. MiB are those of the machine before machine.scale.
struct CgroupSpec {
  std::string name;
  std::string parent;  // an earlier one's name; empty: the root
  std::int64_t limit_mib = 1;

  friend bool operator==(const CgroupSpec&, const CgroupSpec&) = default;
};

// count > 0: g0, g1, ... of one limit, below one group "all" if that has a limit. Else the list.
struct CgroupSettings {
  static constexpr std::int64_t kNoLimitMib = std::int64_t{1} << 32;

  std::int64_t count = 0;
  std::int64_t limit_mib = kNoLimitMib;  // of each
  std::int64_t total_limit_mib = 0;      // 0: limit_mib holds; else divided among them equally
  std::int64_t parent_limit_mib = 0;     // 0: there is no group "all"
  std::vector<CgroupSpec> groups{};
};

// In pages of the machine, scaled; empty: no cgroups. InvalidArgument with one line: a limit below
// a page, a parent that is not there or comes later, two forms at once.
[[nodiscard]] absl::StatusOr<std::vector<mm::MemCgroupSpec>> CgroupsOf(const RunConfig& config);

}  // namespace pagestorm::bench
