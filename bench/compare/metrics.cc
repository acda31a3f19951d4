#include "bench/compare/metrics.h"

#include "absl/strings/match.h"

namespace pagestorm::bench {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMicrosecond = 1000;

Metric Time(const std::string& name, const std::string& number) {
  return {.name = name, .number = number, .unit = "s", .scale = kSecond, .decimals = 4};
}

Metric Latency(const std::string& name, const std::string& number) {
  return {.name = name, .number = number, .unit = "us", .scale = kMicrosecond};
}

Metric Rate(const std::string& name, const std::string& number, const std::string& unit,
            const std::string& elapsed = "") {
  return {.name = name,
          .number = number,
          .unit = unit,
          .better = Better::kHigher,
          .per_second = elapsed};
}

// hackbench's time is printed with 4 decimals: spec workloads-and-reports 1.3.
std::vector<Metric> Hackbench() {
  Metric elapsed = Time("elapsed", "time_ns");
  Metric fork = Time("fork", "fork_ns");
  elapsed.factor = fork.factor = "groups";
  return {elapsed, fork};
}

std::vector<Metric> Press() {
  return {Rate("pages-written", "pages_per_second", "pages/s"), Time("elapsed", "elapsed_ns"),
          Latency("p50-access", "access_ns_p50"), Latency("p99-access", "access_ns_p99"),
          Latency("max-access", "access_ns_max")};
}

std::vector<Metric> Filestorm() {
  const std::string elapsed = "elapsed_ns";
  return {Rate("pages-read", "pages_read", "pages/s", elapsed),
          Rate("pages-written", "pages_written", "pages/s", elapsed),
          Rate("hot-touches", "hot_touches", "pages/s", elapsed),
          Latency("p99-read", "read_ns_p99"),
          Latency("p99-write", "write_ns_p99"),
          Latency("p99-hot", "hot_ns_p99"),
          Latency("max-read", "read_ns_max"),
          Latency("max-write", "write_ns_max"),
          Latency("max-hot", "hot_ns_max")};
}

// It runs for a time that is set, and does what it can.
std::vector<Metric> Soak() {
  return {Rate("writes", "writes", "writes"), Rate("reads", "reads", "reads"),
          Rate("forks", "forks", "forks"), Rate("blocks", "blocks", "blocks")};
}

// By the names alone.
std::vector<Metric> Guess(const WorkloadNumbers& numbers) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : numbers) {
    if (absl::EndsWith(name, "_per_second")) {
      metrics.push_back(Rate(name, name, "1/s"));
    } else if (absl::StrContains(name, "_ns_")) {
      metrics.push_back(Latency(name, name));
    } else if (absl::EndsWith(name, "_ns")) {
      metrics.push_back(Time(name, name));
    }
  }
  return metrics;
}

}  // namespace

std::vector<Metric> MetricsOf(std::string_view workload, const WorkloadNumbers& numbers) {
  if (workload == "hackbench") return Hackbench();
  if (workload == "press") return Press();
  if (workload == "filestorm") return Filestorm();
  if (workload == "soak") return Soak();
  return Guess(numbers);
}

std::optional<double> ValueOf(const Metric& metric, const WorkloadNumbers& numbers) {
  const auto found = numbers.find(metric.number);
  if (found == numbers.end() || found->second < 0) return std::nullopt;
  const double value = static_cast<double>(found->second) / static_cast<double>(metric.scale);
  if (metric.per_second.empty()) return value;
  const auto time = numbers.find(metric.per_second);
  if (time == numbers.end() || time->second <= 0) return std::nullopt;
  return value / (static_cast<double>(time->second) / static_cast<double>(kSecond));
}

}  // namespace pagestorm::bench
