#include "bench/reproductions/figures.h"

#include <numeric>

#include "bench/stats/describe.h"

namespace pagestorm::bench::reproductions {
namespace {

std::vector<std::size_t> All(std::size_t count) {
  std::vector<std::size_t> seeds(count);
  std::iota(seeds.begin(), seeds.end(), std::size_t{0});
  return seeds;
}

}  // namespace

MeasuredFigures::MeasuredFigures(const TableRuns& runs)
    : MeasuredFigures(runs, All(runs.seeds())) {}

std::vector<double> MeasuredFigures::Values(Cell cell, std::size_t metric) const {
  std::vector<double> values;
  for (const std::size_t seed : seeds_) {
    const RunOutcome& run = runs_.At(cell, seed);
    if (run.end == RunOutcome::End::kFinished) values.push_back(run.values[metric]);
  }
  return values;
}

std::optional<double> MeasuredFigures::Mean(Cell cell, std::size_t metric) const {
  const std::vector<double> values = Values(cell, metric);
  if (values.empty()) return std::nullopt;
  return stats::Mean(values);
}

std::optional<double> MeasuredFigures::Variation(Cell cell, std::size_t metric) const {
  const std::vector<double> values = Values(cell, metric);
  if (values.size() < 2) return std::nullopt;
  const double mean = stats::Mean(values);
  if (mean <= 0) return std::nullopt;
  return stats::SampleStddev(values) / mean;
}

OomCount MeasuredFigures::Ooms(Cell cell) const {
  OomCount count;
  for (const std::size_t seed : seeds_) {
    const RunOutcome::End end = runs_.At(cell, seed).end;
    const bool oom = end == RunOutcome::End::kOom;
    if (oom || end == RunOutcome::End::kFinished) ++count.runs;
    if (oom) ++count.kills;
  }
  return count;
}

}  // namespace pagestorm::bench::reproductions
