// One sample in a few numbers. Sums run in the order given, so that a result is the same bits
// wherever it is computed.
#pragma once

#include <vector>

namespace pagestorm::stats {

using Sample = std::vector<double>;

// Of a sample that is not empty.
[[nodiscard]] double Mean(const Sample& sample);
[[nodiscard]] double Min(const Sample& sample);
[[nodiscard]] double Max(const Sample& sample);

// Of the sample as a whole population: divided by n. Not of an empty one.
[[nodiscard]] double PopulationStddev(const Sample& sample);
// Of a population of which this is a sample: divided by n - 1. Needs 2 values.
[[nodiscard]] double SampleStddev(const Sample& sample);
[[nodiscard]] double SampleVariance(const Sample& sample);

// The smallest value that at least a share q of the sample does not exceed: no interpolation.
//   q: in [0, 1]; 0.5 gives the lower of two middle values.
[[nodiscard]] double Quantile(const Sample& sample, double q);
// The middle value, or the mean of the two.
[[nodiscard]] double Median(const Sample& sample);

[[nodiscard]] Sample Sorted(Sample sample);

}  // namespace pagestorm::stats
