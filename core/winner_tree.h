// Which of up to 1024 contexts has the smallest time? A tournament tree over packed keys.
//
// A key is time << 20 | tie << 10 | context: comparing keys compares times, then seeded ties, then
// contexts, in one branch-free minimum. 44 bits of nanoseconds are 4.8 hours of emulated time;
// later times count as kTimeMax.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/check.h"

namespace pagestorm {

class WinnerTree {
 public:
  static constexpr std::uint64_t kIdle = UINT64_MAX;  // a context that takes no part
  static constexpr std::int64_t kTimeMax = (std::int64_t{1} << 44) - 2;  // no key is kIdle

  explicit WinnerTree(std::size_t contexts)
      : leaves_(std::bit_ceil(std::max<std::size_t>(contexts, 2))), tree_(2 * leaves_, kIdle) {
    PS_CHECK(contexts <= 1024);
  }

  static std::uint64_t Key(std::int64_t time, std::uint64_t tie, std::size_t context) {
    return (static_cast<std::uint64_t>(std::min(time, kTimeMax)) << 20) | ((tie & 1023U) << 10) |
           context;
  }
  static std::int64_t Time(std::uint64_t key) {
    return key == kIdle ? INT64_MAX : static_cast<std::int64_t>(key >> 20);
  }
  static std::size_t Context(std::uint64_t key) { return key & 1023U; }

  void Set(std::size_t context, std::uint64_t key) {
    std::size_t i = leaves_ + context;
    std::uint64_t* const tree = tree_.data();
    tree[i] = key;
    while (i > 1) {
      const std::uint64_t sibling = tree[i ^ 1];
      key = sibling < key ? sibling : key;
      i >>= 1;
      tree[i] = key;
    }
  }
  // Set(winner, kIdle) and Set(context, key) in one climb: the two chains of minima overlap in
  // time.
  void Replace(std::size_t winner, std::size_t context, std::uint64_t key) {
    std::uint64_t* const tree = tree_.data();
    std::uint64_t idle = kIdle;
    std::size_t i = leaves_ + winner;
    std::size_t j = leaves_ + context;
    tree[i] = idle;
    tree[j] = key;
    while (i > 1) {
      // Where the paths meet, each is the other's sibling; above, both compute the same.
      const std::uint64_t beside_i = tree[i ^ 1];
      const std::uint64_t beside_j = tree[j ^ 1];
      idle = beside_i < idle ? beside_i : idle;
      key = beside_j < key ? beside_j : key;
      i >>= 1;
      j >>= 1;
      tree[i] = idle;
      tree[j] = key;
    }
  }
  [[nodiscard]] std::uint64_t Get(std::size_t context) const { return tree_[leaves_ + context]; }
  // The smallest key; kIdle if no context takes part.
  [[nodiscard]] std::uint64_t top() const { return tree_[1]; }

 private:
  std::size_t leaves_;
  std::vector<std::uint64_t> tree_;
};

}  // namespace pagestorm
