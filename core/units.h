// Units and identifiers: what a bare integer would leave to guessing.
//
// A Quantity counts something (nanoseconds, pages) and adds up; an Index names something (a node, a
// frame) and does not. Both are aggregates around one member `n`: `Ns{20'000}`, `NodeId{1}`.
// Mixing two units does not compile. Emulated time (Ns) and host time (HostNs) never mix.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>

namespace pagestorm {

// A signed 64-bit count of one unit. Overflow is the caller's error: 2^63 ns are 292 years.
template <class Unit>
struct Quantity {
  std::int64_t n = 0;

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.n + b.n}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.n - b.n}; }
  friend constexpr Quantity operator-(Quantity a) { return {-a.n}; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t k) { return {a.n * k}; }
  friend constexpr Quantity operator*(std::int64_t k, Quantity a) { return {a.n * k}; }
  friend constexpr Quantity operator/(Quantity a, std::int64_t k) { return {a.n / k}; }
  friend constexpr std::int64_t operator/(Quantity a, Quantity b) { return a.n / b.n; }
  constexpr Quantity& operator+=(Quantity b) { return n += b.n, *this; }
  constexpr Quantity& operator-=(Quantity b) { return n -= b.n, *this; }
};

using Ns = Quantity<struct EmulatedNanoseconds>;  // time inside the emulated machine
using HostNs = Quantity<struct HostNanoseconds>;  // time measured on the host
using Pages = Quantity<struct BasePages>;         // base pages of the machine (4, 16 or 64 KiB)

inline constexpr Ns kMicrosecond{1'000};
inline constexpr Ns kMillisecond{1'000'000};
inline constexpr Ns kSecond{1'000'000'000};

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;  // bytes
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// A counter with one writer that others may glance at: exact for its writer, at most stale for
// them.
class OwnedCounter {
 public:
  constexpr OwnedCounter() = default;
  constexpr OwnedCounter(std::int64_t value) : value_(value) {}  // NOLINT: used like an integer
  OwnedCounter(const OwnedCounter& other) : value_(other.get()) {}
  OwnedCounter& operator=(const OwnedCounter& other) { return *this = other.get(); }
  OwnedCounter& operator=(std::int64_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  // A load and a store, not a locked addition.
  OwnedCounter& operator+=(std::int64_t more) { return *this = get() + more; }
  OwnedCounter& operator++() { return *this += 1; }
  OwnedCounter& operator--() { return *this += -1; }
  [[nodiscard]] std::int64_t get() const { return value_.load(std::memory_order_relaxed); }
  operator std::int64_t() const { return get(); }  // NOLINT: used like an integer

 private:
  std::atomic<std::int64_t> value_{0};
};

// A name in the shape of a number. Ordered, so that containers of them iterate reproducibly.
template <class Tag, class Rep>
struct Index {
  Rep n = 0;

  friend constexpr auto operator<=>(Index, Index) = default;
};

using NodeId = Index<struct NodeTag, std::int32_t>;  // a NUMA node; numbers may have holes
using CpuId = Index<struct CpuTag, std::int32_t>;    // an emulated CPU, dense from 0
using TaskId =
    Index<struct TaskTag, std::int32_t>;          // a task, from 1 in order of creation (its pid)
using Pfn = Index<struct PfnTag, std::uint64_t>;  // a page frame number of the machine

inline constexpr NodeId kNoNode{-1};
inline constexpr CpuId kNoCpu{-1};

constexpr Pfn operator+(Pfn first, Pages count) {
  return {first.n + static_cast<std::uint64_t>(count.n)};
}
constexpr Pages operator-(Pfn a, Pfn b) {
  return {static_cast<std::int64_t>(a.n) - static_cast<std::int64_t>(b.n)};
}

// log2 of the page size in bytes: 12, 14 or 16.
struct PageShift {
  int n = 12;
  friend constexpr auto operator<=>(PageShift, PageShift) = default;
};
constexpr std::int64_t ToBytes(Pages count, PageShift shift) { return count.n << shift.n; }
constexpr std::int64_t ToKiB(Pages count, PageShift shift) { return count.n << (shift.n - 10); }
constexpr Pages PagesFromBytes(std::int64_t bytes, PageShift shift) {  // rounds down
  return {bytes >> shift.n};
}

}  // namespace pagestorm

template <class Tag, class Rep>
struct std::hash<pagestorm::Index<Tag, Rep>> {
  std::size_t operator()(pagestorm::Index<Tag, Rep> id) const { return std::hash<Rep>{}(id.n); }
};
