// What the emulated kernel shows of its memory cgroups: a directory a group, files of 2.6.26.
// Source: ADR 0032.
#include "absl/strings/str_format.h"
#include "mm/memcg.h"

namespace pagestorm::mm {
namespace {

std::string Number(std::int64_t n) { return absl::StrFormat("%d\n", n); }

std::string Stat(MemoryManager& mm, MemCgroup& group) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  std::int64_t active = 0;
  std::int64_t inactive = 0;
  for (const auto& zone : mm.zones) {
    for (int i = 0; i < kLruLists; ++i) {
      const auto list = static_cast<LruList>(i);
      if (list == LruList::kUnevictable) continue;
      (IsActive(list) ? active : inactive) += mm.cgroups->ListSize(group, *zone, list);
    }
  }
  const auto bytes = [&mm](std::int64_t pages) { return ToBytes({pages}, mm.page_shift()); };
  return absl::StrFormat("cache %d\nrss %d\nactive %d\ninactive %d\n",
                         bytes(group.cache.load(kRelaxed)), bytes(group.anon.load(kRelaxed)),
                         bytes(active), bytes(inactive));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> CgroupFiles(MemoryManager& mm) {
  std::vector<std::pair<std::string, std::string>> files;
  if (mm.cgroups == nullptr) return files;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  for (MemCgroup& group : mm.cgroups->all()) {
    if (group.parent == nullptr) continue;
    const std::string directory = "cgroup" + group.path + "/memory.";
    const auto bytes = [&mm](std::int64_t pages) { return ToBytes({pages}, mm.page_shift()); };
    files.emplace_back(directory + "failcnt", Number(group.failcnt.load(kRelaxed)));
    files.emplace_back(directory + "limit_in_bytes",
                       Number(group.limit == kNoLimit ? INT64_MAX : bytes(group.limit.n)));
    files.emplace_back(directory + "max_usage_in_bytes",
                       Number(bytes(group.max_usage.load(kRelaxed))));
    files.emplace_back(directory + "stat", Stat(mm, group));
    files.emplace_back(directory + "usage_in_bytes", Number(bytes(group.usage.load(kRelaxed))));
  }
  return files;
}

}  // namespace pagestorm::mm
