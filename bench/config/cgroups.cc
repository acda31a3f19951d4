#include "bench/config/cgroups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/config/run_config.h"
#include "mm/memcg.h"

namespace pagestorm::bench {
namespace {

// KiB keep what a scale divides off.
Pages LimitOf(const RunConfig& config, std::int64_t kib) {
  if (kib >= CgroupSettings::kNoLimitMib * 1024) return mm::kNoLimit;
  return PagesFromBytes(kib / config.machine.scale * 1024, config.machine.page_shift);
}

absl::Status BelowAPage(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": a limit of less than a page of the machine"));
}

absl::StatusOr<std::vector<mm::MemCgroupSpec>> Equal(const RunConfig& config) {
  const CgroupSettings& settings = config.cgroup;
  std::vector<mm::MemCgroupSpec> specs;
  if (settings.parent_limit_mib > 0) {
    specs.push_back(
        {.name = "all", .parent = -1, .limit = LimitOf(config, settings.parent_limit_mib * 1024)});
    if (specs.back().limit.n < 1) return BelowAPage("cgroup.parent_limit_mib");
  }
  const int parent = static_cast<int>(specs.size()) - 1;
  const bool divided = settings.total_limit_mib > 0;
  const std::int64_t kib =
      divided ? settings.total_limit_mib * 1024 / settings.count : settings.limit_mib * 1024;
  const Pages limit = LimitOf(config, kib);
  if (limit.n < 1) return BelowAPage(divided ? "cgroup.total_limit_mib" : "cgroup.limit_mib");
  for (std::int64_t i = 0; i < settings.count; ++i) {
    specs.push_back({.name = absl::StrCat("g", i), .parent = parent, .limit = limit});
  }
  return specs;
}

absl::StatusOr<std::vector<mm::MemCgroupSpec>> Listed(const RunConfig& config) {
  std::vector<mm::MemCgroupSpec> specs;
  for (const CgroupSpec& group : config.cgroup.groups) {
    const auto wrong = [&group](const auto&... text) {
      return absl::InvalidArgumentError(
          absl::StrCat("cgroup.groups: \"", group.name, "\": ", text...));
    };
    const auto found = std::ranges::find(specs, group.parent, &mm::MemCgroupSpec::name);
    if (!group.parent.empty() && found == specs.end()) {
      return wrong("parent = \"", group.parent, "\": allowed: the name of a group before it");
    }
    if (std::ranges::find(specs, group.name, &mm::MemCgroupSpec::name) != specs.end()) {
      return wrong("there are two of that name");
    }
    const int parent =
        group.parent.empty() ? -1 : static_cast<int>(std::distance(specs.begin(), found));
    specs.push_back(
        {.name = group.name, .parent = parent, .limit = LimitOf(config, group.limit_mib * 1024)});
    if (specs.back().limit.n < 1) return wrong("a limit of less than a page of the machine");
  }
  return specs;
}

}  // namespace

absl::StatusOr<std::vector<mm::MemCgroupSpec>> CgroupsOf(const RunConfig& config) {
  const CgroupSettings& settings = config.cgroup;
  if (settings.count > 0 && !settings.groups.empty()) {
    return absl::InvalidArgumentError("cgroup.count contradicts cgroup.groups: allowed: one");
  }
  if (settings.total_limit_mib > 0 && settings.limit_mib != CgroupSettings::kNoLimitMib) {
    return absl::InvalidArgumentError(
        "cgroup.total_limit_mib contradicts cgroup.limit_mib: allowed: one");
  }
  if (settings.count == 0 && (settings.total_limit_mib > 0 || settings.parent_limit_mib > 0 ||
                              settings.limit_mib != CgroupSettings::kNoLimitMib)) {
    return absl::InvalidArgumentError("cgroup.count = 0: a limit without a group");
  }
  auto specs = settings.count > 0 ? Equal(config) : Listed(config);
  if (!specs.ok()) return specs.status();
  const absl::Status status = mm::MemCgroups::Check(*specs);
  if (!status.ok()) return status;
  return specs;
}

}  // namespace pagestorm::bench
