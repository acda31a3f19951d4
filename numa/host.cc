#include "numa/host.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace pagestorm::numa {
namespace {

int AllowedCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The number in a file that holds nothing else; nullopt for "max" or no such file.
std::optional<std::int64_t> NumberIn(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value && value >= 0) return value;
  return std::nullopt;
}

// Bytes of one line of /proc/meminfo.
std::optional<std::int64_t> MeminfoBytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kib = 0;
  std::string rest;
  while (file >> name >> kib) {
    std::getline(file, rest);
    if (name == key) return kib * 1024;
  }
  return std::nullopt;
}

void ApplyCgroup(const char* limit_path, const char* usage_path, HostFacts& facts) {
  const std::optional<std::int64_t> limit = NumberIn(limit_path);
  if (!limit || *limit >= facts.memory_total_bytes) return;
  const std::int64_t used = NumberIn(usage_path).value_or(0);
  facts.memory_total_bytes = *limit;
  facts.memory_available_bytes =
      std::min(facts.memory_available_bytes, std::max<std::int64_t>(0, *limit - used));
}

}  // namespace

HostFacts ReadHostFacts() {
  HostFacts facts;
  facts.cores = AllowedCores();
  facts.memory_total_bytes = MeminfoBytes("MemTotal:").value_or(0);
  facts.memory_available_bytes = MeminfoBytes("MemAvailable:").value_or(0);
  ApplyCgroup("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", facts);
  ApplyCgroup("/sys/fs/cgroup/memory/memory.limit_in_bytes",
              "/sys/fs/cgroup/memory/memory.usage_in_bytes", facts);
  return facts;
}

}  // namespace pagestorm::numa
