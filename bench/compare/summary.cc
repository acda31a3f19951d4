#include "bench/compare/summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

#include "bench/stats/distributions.h"

namespace pagestorm::bench {
namespace {

using stats::Sample;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double MainMean(const Sample& sample, Better better, Compat compat) {
  return better == Better::kHigher ? Hmean(sample, compat) : Amean(sample);
}

// Half the width of what these reports take for the interval of a mean: a standard deviation's, not
// a standard error's.
double HalfWidth(const Sample& sample, Better better) {
  constexpr Compat kNow = Compat::kCurrent;
  if (sample.size() < 2) return kNone;
  const double deviation =
      better == Better::kHigher ? HarmonicStddev(sample, kNow) : Stddev(sample, kNow);
  return stats::NormalCritical(0.95) * deviation;
}

// Which columns' means differ from the baseline's by more than both halves that face each other.
std::vector<bool> Significant(const Operation& operation, Compat compat) {
  std::vector<bool> marks(operation.samples.size(), false);
  if (compat != Compat::kCurrent) return marks;
  const Sample& baseline = operation.samples.front();
  for (std::size_t i = 1; i < marks.size(); ++i) {
    const Sample& sample = operation.samples[i];
    const double difference =
        MainMean(sample, operation.better, compat) - MainMean(baseline, operation.better, compat);
    marks[i] = std::abs(difference) >
               HalfWidth(baseline, operation.better) + HalfWidth(sample, operation.better);
  }
  return marks;
}

using Statistic = std::function<double(const Operation&, const Sample&)>;

struct Named {
  std::string (*name)(Better);
  Statistic of;
  bool spread = false;  // lower is better, whatever is measured
  bool main = false;
};

std::string MeanName(Better better) { return better == Better::kHigher ? "Hmean" : "Amean"; }

std::vector<Named> Statistics(Compat compat, bool only_main) {
  const Named mean{MeanName,
                   [compat](const Operation& operation, const Sample& sample) {
                     return MainMean(sample, operation.better, compat);
                   },
                   false, true};
  if (only_main) return {mean};
  std::vector<Named> all{
      {[](Better) -> std::string { return "Min"; },
       [](const Operation&, const Sample& s) { return s.empty() ? kNone : stats::Min(s); }},
      mean,
      {[](Better) -> std::string { return "Stddev"; },
       [compat](const Operation&, const Sample& s) { return Stddev(s, compat); }, true},
      {[](Better) -> std::string { return "CoeffVar"; },
       [compat](const Operation&, const Sample& s) { return CoeffVar(s, compat); }, true},
      {[](Better) -> std::string { return "Max"; },
       [](const Operation&, const Sample& s) { return s.empty() ? kNone : stats::Max(s); }},
  };
  if (compat == Compat::kCurrent) {
    all.push_back({[](Better better) { return "B" + MeanName(better) + ".95"; },
                   [compat](const Operation& operation, const Sample& sample) {
                     return MainMean(BestOf(sample, 95, operation.better), operation.better,
                                     compat);
                   }});
  }
  return all;
}

bool AnyHasTwo(const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    for (const Sample& sample : operation.samples) {
      if (sample.size() >= 2) return true;
    }
  }
  return false;
}

Row MakeRow(const Operation& operation, const Named& statistic, Compat compat) {
  Row row;
  row.statistic = statistic.name(operation.better);
  row.operation = operation.name;
  for (const Sample& sample : operation.samples)
    row.values.push_back(statistic.of(operation, sample));
  row.better = statistic.spread ? Better::kLower : operation.better;
  row.decimals = compat == Compat::kCurrent ? operation.decimals : 2;
  if (statistic.main) row.significant = Significant(operation, compat);
  return row;
}

}  // namespace

double Amean(const Sample& sample) { return sample.empty() ? kNone : stats::Mean(sample); }

double Hmean(const Sample& sample, Compat compat) {
  if (sample.empty()) return kNone;
  double sum = 0;
  for (const double value : sample) {
    if (value <= 0) return compat == Compat::kCurrent ? kNone : -1;
    sum += 1 / value;
  }
  return static_cast<double>(sample.size()) / sum;
}

double Stddev(const Sample& sample, Compat compat) {
  if (sample.empty()) return kNone;
  if (compat != Compat::kCurrent) return stats::PopulationStddev(sample);
  return sample.size() < 2 ? kNone : stats::SampleStddev(sample);
}

double HarmonicStddev(const Sample& sample, Compat compat) {
  const double mean = Hmean(sample, compat);
  if (std::isnan(mean) || mean <= 0) return kNone;
  double sum = 0;
  for (const double value : sample) {
    const double away = 1 / value - 1 / mean;
    sum += away * away;
  }
  return std::sqrt(sum * mean * mean * mean * mean / static_cast<double>(sample.size()));
}

double CoeffVar(const Sample& sample, Compat compat) {
  return 100 * Stddev(sample, compat) / Amean(sample);
}

Sample BestOf(Sample sample, int percent, Better better) {
  if (sample.empty()) return sample;
  std::sort(sample.begin(), sample.end());
  if (better == Better::kHigher) std::reverse(sample.begin(), sample.end());
  const std::size_t kept = sample.size() * static_cast<std::size_t>(percent) / 100;
  sample.resize(std::max<std::size_t>(1, kept));
  return sample;
}

double Pctile(Sample sample, int percent, Better better) {
  return sample.empty() ? kNone : BestOf(std::move(sample), percent, better).back();
}

std::vector<Row> SummaryRows(const std::vector<Operation>& operations, Compat compat) {
  std::vector<Row> rows;
  for (const Named& statistic : Statistics(compat, !AnyHasTwo(operations))) {
    for (const Operation& operation : operations) {
      rows.push_back(MakeRow(operation, statistic, compat));
    }
  }
  return rows;
}

}  // namespace pagestorm::bench
