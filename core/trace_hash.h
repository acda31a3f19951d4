// A running hash over the decisions of a run: equal hashes mean the same run, event by event.
#pragma once

#include <cstdint>

namespace pagestorm {

class TraceHash {
 public:
  void Mix(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15U;
    hash_ ^= hash_ >> 29;
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x6a09e667f3bcc908U;
};

}  // namespace pagestorm
