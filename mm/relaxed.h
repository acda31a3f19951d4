// Numbers that anybody reads at a glance: one that a lock's holder writes, and maxima.
//
// Reads and writes are relaxed: no reader may conclude anything about other memory from the value.
// The kernel does the same with plain variables (nr_free, watermarks); here the race is spelled
// out.
#pragma once

#include <atomic>

namespace pagestorm::mm {

template <class T>
class Relaxed {
 public:
  constexpr Relaxed() = default;
  constexpr Relaxed(T value) : value_(value) {}  // NOLINT: stands for a T
  Relaxed(const Relaxed& other) : value_(other.get()) {}
  Relaxed& operator=(const Relaxed& other) { return *this = other.get(); }
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  // For one writer at a time (its lock's holder, or the CPU that owns the number).
  Relaxed& operator+=(T change) { return *this = static_cast<T>(get() + change); }
  Relaxed& operator-=(T change) { return *this = static_cast<T>(get() - change); }

  [[nodiscard]] T get() const { return value_.load(std::memory_order_relaxed); }
  operator T() const { return get(); }  // NOLINT: stands for a T

 private:
  std::atomic<T> value_{};
};

// Raises a maximum that several tasks may raise at the same time.
template <class T>
void RaiseTo(std::atomic<T>& maximum, T value,
             std::memory_order order = std::memory_order_relaxed) {
  T seen = maximum.load(order);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, order)) {
  }
}

}  // namespace pagestorm::mm
