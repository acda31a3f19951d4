// A log-linear histogram of non-negative integers with three significant digits.
//
// Bucket width is at most 1/1024 of the value, so a percentile is off by at most 0.1 %. Values are
// counted exactly up to 2047. One writer; Merge() sums histograms of several writers at rest.
// Source of the rules: spec workloads-and-reports 8.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace pagestorm {

class Histogram {
 public:
  void Record(std::int64_t value, std::int64_t times = 1) {
    const auto v = static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    const std::size_t bucket = BucketOf(v);
    if (bucket >= counts_.size()) counts_.resize(bucket + 1, 0);
    counts_[bucket] += times;
    count_ += times;
    sum_ += value * times;
    max_ = std::max(max_, value);
    min_ = count_ == times ? value : std::min(min_, value);
  }
  void Merge(const Histogram& other) {
    if (other.count_ == 0) return;
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size(), 0);
    for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
    min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    count_ += other.count_;
    sum_ += other.sum_;
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t sum() const { return sum_; }
  [[nodiscard]] std::int64_t max() const { return max_; }
  [[nodiscard]] std::int64_t min() const { return min_; }
  [[nodiscard]] std::int64_t mean() const { return count_ == 0 ? 0 : sum_ / count_; }
  // The smallest recorded value with at least `per_100k` / 100'000 of all values at or below it (as
  // the top of its bucket, never above max()); 0 if empty. Percentile(99'900) is p99.9.
  [[nodiscard]] std::int64_t Percentile(std::int64_t per_100k) const {
    if (count_ == 0) return 0;
    const std::int64_t rank = std::max<std::int64_t>(1, (count_ * per_100k + 99'999) / 100'000);
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return std::min(static_cast<std::int64_t>(TopOf(i)), max_);
    }
    return max_;
  }

 private:
  static constexpr int kSubBits = 10;  // 2^10 buckets an octave
  static constexpr std::uint64_t kLinear = std::uint64_t{2} << kSubBits;

  static std::size_t BucketOf(std::uint64_t v) {
    if (v < kLinear) return v;
    const int shift =
        static_cast<int>(std::bit_width(v)) - kSubBits - 1;  // v >> shift lies in [2^10, 2^11)
    return static_cast<std::size_t>(shift) * (kLinear / 2) + (v >> shift);
  }
  static std::uint64_t TopOf(std::size_t bucket) {
    if (bucket < kLinear) return bucket;
    const std::size_t shift = bucket / (kLinear / 2) - 1;
    const std::uint64_t step = bucket - shift * (kLinear / 2);
    return ((step + 1) << shift) - 1;
  }

  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t max_ = 0;
  std::int64_t min_ = 0;
};

}  // namespace pagestorm
