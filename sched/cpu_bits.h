// Sets of CPUs that can be searched a word at a time.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/raw_lock.h"
#include "core/task.h"
#include "core/units.h"

namespace pagestorm::sched {

inline constexpr std::size_t kCpuWords = (kMaxCpus + 63) / 64;

// A plain set: the CPUs of a node, of a cache.
struct CpuBits {
  std::array<std::uint64_t, kCpuWords> words{};

  void Set(CpuId cpu) { words[WordOf(cpu)] |= BitOf(cpu); }
  void Clear(CpuId cpu) { words[WordOf(cpu)] &= ~BitOf(cpu); }
  [[nodiscard]] bool Test(CpuId cpu) const { return (words[WordOf(cpu)] & BitOf(cpu)) != 0; }

  static std::size_t WordOf(CpuId cpu) { return static_cast<std::size_t>(cpu.n) / 64; }
  static std::uint64_t BitOf(CpuId cpu) {
    return std::uint64_t{1} << (static_cast<std::size_t>(cpu.n) % 64);
  }
};

// A set that every CPU changes and reads without a lock: a glance, stale at once. Relaxed
// throughout: whoever acts on a bit looks again under the lock of the run queue.
class SharedCpuBits {
 public:
  explicit SharedCpuBits(EngineKind kind) : real_(kind == EngineKind::kThreads) {}

  void Set(CpuId cpu) { Change(cpu, true); }
  void Clear(CpuId cpu) { Change(cpu, false); }
  void Assign(CpuId cpu, bool in) { Change(cpu, in); }
  [[nodiscard]] bool Test(CpuId cpu) const {
    return (word(CpuBits::WordOf(cpu)) & CpuBits::BitOf(cpu)) != 0;
  }
  [[nodiscard]] std::uint64_t word(std::size_t i) const {
    return words_[i].load(std::memory_order_relaxed);
  }

 private:
  void Change(CpuId cpu, bool in) {
    auto& target = words_[CpuBits::WordOf(cpu)];
    const std::uint64_t bit = CpuBits::BitOf(cpu);
    const std::uint64_t old = target.load(std::memory_order_relaxed);
    if (((old & bit) != 0) == in) return;
    if (!real_) {  // one host thread: no read-modify-write needed
      target.store(old ^ bit, std::memory_order_relaxed);
    } else if (in) {
      target.fetch_or(bit, std::memory_order_relaxed);
    } else {
      target.fetch_and(~bit, std::memory_order_relaxed);
    }
  }

  const bool real_;
  alignas(64) std::array<std::atomic<std::uint64_t>, kCpuWords> words_{};
};

// Calls visit(CpuId) for the CPUs that are in `within` and in `set`, ascending, until it returns
// true. Returns whether it did.
template <class Visit>
bool ForEachCpu(const CpuBits& within, const SharedCpuBits& set, std::size_t words, Visit visit) {
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t bits = within.words[w] == 0 ? 0 : within.words[w] & set.word(w);
    for (; bits != 0; bits &= bits - 1) {
      if (visit(CpuId{static_cast<std::int32_t>(w * 64) + std::countr_zero(bits)})) return true;
    }
  }
  return false;
}

}  // namespace pagestorm::sched
