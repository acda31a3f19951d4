// An atomic whose read-modify-writes cost a load and a store while nothing in the process could
// interleave.
//
// Only the threads engine runs the code of one machine on several host threads. While no such
// engine lives, everything that touches a machine runs on one host thread, and the bus-locked
// operations of std::atomic (5 ns each, a dozen a page fault) buy nothing. Machines of the virtual
// engine on other host threads do not matter: they have memory of their own. With a threads engine
// anywhere in the process all operations are the real ones, for every machine.
//
// For state of an emulated machine only, never for what host threads share otherwise (a queue of
// runs, a progress display). Interface and memory orders are std::atomic's.
#pragma once

#include <atomic>

namespace pagestorm {

// How many threads engines live: raised before the first of their threads starts, lowered after the
// last has ended.
inline constinit std::atomic<int> live_threads_engines{0};
inline bool HostThreadsInterleave() {
  return live_threads_engines.load(std::memory_order_relaxed) != 0;
}

template <class T>
class HostAtomic {
 public:
  constexpr HostAtomic() = default;
  constexpr HostAtomic(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): as std
  HostAtomic(const HostAtomic&) = delete;
  HostAtomic& operator=(const HostAtomic&) = delete;

  using Order = std::memory_order;
  T load(Order order = Order::seq_cst) const { return value_.load(order); }
  void store(T value, Order order = Order::seq_cst) { value_.store(value, order); }
  operator T() const { return load(); }  // NOLINT(google-explicit-constructor): as std

  T fetch_add(T n, Order order = Order::seq_cst) {
    if (HostThreadsInterleave()) [[unlikely]]
      return value_.fetch_add(n, order);
    return Replace([n](T old) { return static_cast<T>(old + n); });
  }
  T fetch_sub(T n, Order order = Order::seq_cst) {
    if (HostThreadsInterleave()) [[unlikely]]
      return value_.fetch_sub(n, order);
    return Replace([n](T old) { return static_cast<T>(old - n); });
  }
  T fetch_or(T bits, Order order = Order::seq_cst) {
    if (HostThreadsInterleave()) [[unlikely]]
      return value_.fetch_or(bits, order);
    return Replace([bits](T old) { return static_cast<T>(old | bits); });
  }
  T fetch_and(T bits, Order order = Order::seq_cst) {
    if (HostThreadsInterleave()) [[unlikely]]
      return value_.fetch_and(bits, order);
    return Replace([bits](T old) { return static_cast<T>(old & bits); });
  }
  T fetch_xor(T bits, Order order = Order::seq_cst) {
    if (HostThreadsInterleave()) [[unlikely]]
      return value_.fetch_xor(bits, order);
    return Replace([bits](T old) { return static_cast<T>(old ^ bits); });
  }
  T exchange(T value, Order order = Order::seq_cst) {
    if (HostThreadsInterleave()) [[unlikely]]
      return value_.exchange(value, order);
    return Replace([value](T) { return value; });
  }
  bool compare_exchange_strong(T& expected, T desired, Order order = Order::seq_cst) {
    if (HostThreadsInterleave()) [[unlikely]]
      return value_.compare_exchange_strong(expected, desired, order);
    const T old = value_.load(Order::relaxed);
    if (old == expected) {
      value_.store(desired, Order::relaxed);
      return true;
    }
    expected = old;
    return false;
  }
  bool compare_exchange_weak(T& expected, T desired, Order order = Order::seq_cst) {
    return compare_exchange_strong(expected, desired, order);
  }
  // `failure` is never stronger than `success`: the latter serves for both.
  bool compare_exchange_strong(T& expected, T desired, Order success, Order /*failure*/) {
    return compare_exchange_strong(expected, desired, success);
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order /*failure*/) {
    return compare_exchange_strong(expected, desired, success);
  }

 private:
  template <class F>
  T Replace(F next) {
    const T old = value_.load(Order::relaxed);
    value_.store(next(old), Order::relaxed);
    return old;
  }

  std::atomic<T> value_{};
};

}  // namespace pagestorm
