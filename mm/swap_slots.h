// Swap slots: use counts of all swap devices, and the search for a free one.
//
// A slot is used by its ptes and by the swap cache, one count each, 16 bits. Slots are handed out
// in clusters of 256 so that what is swapped out together lies together: the next cluster is
// searched for from the lowest free slot, with the lock dropped and a yield every 256 probes;
// without such a run, the first free slot is taken. Devices of higher priority are filled first,
// equal ones in turn. A device's slot 0 is its header. Locks: swap_lock (kSwap); counts may be read
// without it.  Source: spec throttle-2.6.26 2.22.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/spin_lock.h"

namespace pagestorm::mm {

using SwapSlot = std::uint32_t;

inline constexpr std::uint32_t kSwapCluster = 256;
inline constexpr std::uint32_t kSwapLatencyLimit = 256;  // probes between yields
inline constexpr std::uint16_t kSwapCountMax = 0xfffe;

class SwapSlots {
 public:
  struct Device {
    std::int64_t slots = 0;  // usable ones
    int priority = -1;       // higher is used first
  };
  // op_ns: cost of one slot operation, and of one run of kSwapLatencyLimit probes.
  SwapSlots(Engine& engine, std::span<const Device> devices, Ns op_ns);

  // A free slot, its count now 1; nullopt: all are in use. May yield; throws Cancelled at shutdown.
  [[nodiscard]] std::optional<SwapSlot> Alloc();
  // One user more. False: nobody uses the slot (any more).
  [[nodiscard]] bool Duplicate(SwapSlot slot);
  // One user less. Returns how many are left.
  std::uint16_t Free(SwapSlot slot);
  // Users now; racy without the lock.
  [[nodiscard]] std::uint16_t Count(SwapSlot slot) const {
    return counts_[slot].load(std::memory_order_relaxed);
  }
  // Read-ahead: the used slots around `slot` without a gap, within its aligned window of 2^cluster.
  struct Run {
    SwapSlot first = 0;
    std::uint32_t slots = 0;
  };
  [[nodiscard]] Run UsedRun(SwapSlot slot, int cluster);

  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::int64_t free() const { return free_.load(std::memory_order_relaxed); }
  // Slots below this number exist; headers included.
  [[nodiscard]] SwapSlot end() const { return end_; }
  [[nodiscard]] SpinLock& lock() { return lock_; }
  // At rest: the bounds and counts of every device agree. Empty, or what is wrong.
  [[nodiscard]] std::string CheckInvariants() const;

 private:
  // Offsets count from the device's header.
  struct Area {
    SwapSlot base = 0;
    std::uint32_t size = 0;  // slots with the header
    int priority = 0;
    std::uint32_t lowest = 1;  // no free slot below; size: none at all
    std::uint32_t highest = 0;
    std::uint32_t next = 1;  // where the cluster goes on
    std::uint32_t cluster_left = 0;
    std::uint32_t in_use = 0;
  };
  class Unlocked;

  [[nodiscard]] std::optional<SwapSlot> AllocIn(Area& area);
  [[nodiscard]] bool StartCluster(Area& area);
  [[nodiscard]] std::uint32_t ProbeFrom(const Area& area, std::uint32_t offset) const;
  void Take(Area& area, std::uint32_t offset);
  void TurnBehind(std::size_t device);
  [[nodiscard]] bool Used(const Area& area, std::uint32_t offset) const {
    return Count(area.base + offset) != 0;
  }
  [[nodiscard]] const Area& AreaOf(SwapSlot slot) const;
  [[nodiscard]] Area& AreaOf(SwapSlot slot) {
    return const_cast<Area&>(static_cast<const SwapSlots*>(this)->AreaOf(slot));
  }
  void Yield(std::uint32_t& probes) const;

  const Ns op_ns_;
  SpinLock lock_;                   // guards what is declared down to the next blank line
  std::vector<Area> areas_;         // by base
  std::vector<std::size_t> order_;  // areas by priority; rotated among equals
  std::unique_ptr<std::atomic<std::uint16_t>[]> counts_;

  SwapSlot end_ = 0;
  std::int64_t total_ = 0;
  std::atomic<std::int64_t> free_{0};  // nr_swap_pages
};

}  // namespace pagestorm::mm
