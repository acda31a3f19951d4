#include "bench/sweep/statistics.h"

#include <algorithm>

#include "bench/stats/interval.h"
#include "fmt/format.h"

namespace pagestorm::bench {

std::optional<Spread> SpreadOf(std::vector<std::int64_t> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());  // sums round the same whatever came first
  stats::Sample sample;
  for (const std::int64_t value : values) sample.push_back(static_cast<double>(value));
  Spread spread;
  spread.n = values.size();
  spread.min = values.front();
  spread.max = values.back();
  spread.median = stats::Median(sample);
  spread.mean = stats::Mean(sample);
  if (const auto interval = stats::MeanInterval(sample)) {
    spread.ci95 = (interval->high - interval->low) / 2;
  }
  return spread;
}

std::string Decimal(double value) {
  std::string text = fmt::format("{:.3f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace pagestorm::bench
