#include "mm/swap_slots.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace pagestorm::mm {

SwapSlots::SwapSlots(Engine& engine, std::span<const Device> devices, Ns op_ns)
    : op_ns_(op_ns), lock_(engine, LockRank::kSwap, "swap_lock") {
  for (const Device& device : devices) {
    if (device.slots <= 0) continue;
    PS_CHECK(device.slots < UINT32_MAX - 1 - end_);
    Area area;
    area.base = end_;
    area.size = static_cast<std::uint32_t>(device.slots) + 1;
    area.priority = device.priority;
    area.highest = area.size - 1;
    areas_.push_back(area);
    end_ += area.size;
    total_ += device.slots;
  }
  counts_ = std::make_unique<std::atomic<std::uint16_t>[]>(end_);
  free_.store(total_, std::memory_order_relaxed);
  order_.resize(areas_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, [this](std::size_t a, std::size_t b) {
    return areas_[a].priority > areas_[b].priority;
  });
}

// Drops swap_lock for a scope, also when that is left by Cancelled.
class SwapSlots::Unlocked {
 public:
  // The analysis knows no scope that releases: the caller holds the lock before and after.
  explicit Unlocked(SpinLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS : lock_(lock) { lock_.unlock(); }
  ~Unlocked() ABSL_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  SpinLock& lock_;
};

std::optional<SwapSlot> SwapSlots::Alloc() {
  SpinGuard guard(lock_);
  if (free_.load(std::memory_order_relaxed) <= 0) return std::nullopt;
  Charge(op_ns_);
  // The slot is promised before it is found: the search drops the lock.
  free_.fetch_sub(1, std::memory_order_relaxed);
  struct Promise {
    std::atomic<std::int64_t>& free;
    bool kept = false;
    ~Promise() {
      if (!kept) free.fetch_add(1, std::memory_order_relaxed);
    }
  } promise{free_};
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::size_t device = order_[i];
    const std::optional<SwapSlot> slot = AllocIn(areas_[device]);
    if (!slot) continue;
    promise.kept = true;
    TurnBehind(device);
    return slot;
  }
  return std::nullopt;
}

// The next allocation starts behind `device`, among those of equal priority.
void SwapSlots::TurnBehind(std::size_t device) {
  const auto equal = [this, device](std::size_t other) {
    return areas_[other].priority == areas_[device].priority;
  };
  const auto first = std::find_if(order_.begin(), order_.end(), equal);
  const auto last = std::find_if_not(first, order_.end(), equal);
  std::rotate(first, std::find(first, last, device) + 1, last);
}

std::optional<SwapSlot> SwapSlots::AllocIn(Area& area) {
  std::uint32_t offset = area.lowest;
  if (area.cluster_left > 0) {
    --area.cluster_left;
    offset = area.next;
  } else {
    area.cluster_left = kSwapCluster - 1;
    if (StartCluster(area)) offset = area.next;
  }
  for (;;) {
    if (area.in_use == area.size - 1) return std::nullopt;
    if (offset > area.highest || offset < area.lowest) offset = area.lowest;
    if (!Used(area, offset)) {
      Take(area, offset);
      return area.base + offset;
    }
    // Found used, by someone else while the lock was dropped perhaps: look on, and verify again.
    Unlocked unlocked(lock_);
    offset = ProbeFrom(area, offset + 1);
  }
}

void SwapSlots::Yield(std::uint32_t& probes) const {
  if (++probes % kSwapLatencyLimit != 0) return;
  Charge(op_ns_);
  CondResched();
}

// Points area.next at a run of kSwapCluster free slots. False: there is none.
bool SwapSlots::StartCluster(Area& area) {
  if (area.size - 1 - area.in_use < kSwapCluster) return false;
  std::uint32_t run = 0;
  std::uint32_t offset = area.lowest;
  const std::uint32_t highest = area.highest;
  {
    Unlocked unlocked(lock_);
    for (std::uint32_t probes = 0; offset <= highest && run < kSwapCluster; ++offset) {
      run = Used(area, offset) ? 0 : run + 1;
      Yield(probes);
    }
  }
  if (run < kSwapCluster) return false;
  area.next = offset - kSwapCluster;
  return true;
}

// The first free slot from `offset` on, else the device's lowest; a guess, made without the lock.
std::uint32_t SwapSlots::ProbeFrom(const Area& area, std::uint32_t offset) const {
  for (std::uint32_t probes = 0; offset < area.size; ++offset) {
    if (!Used(area, offset)) return offset;
    Yield(probes);
  }
  return 0;  // below every `lowest`
}

void SwapSlots::Take(Area& area, std::uint32_t offset) {
  counts_[area.base + offset].store(1, std::memory_order_relaxed);
  if (offset == area.lowest) ++area.lowest;
  if (offset == area.highest) --area.highest;
  area.next = offset + 1;
  if (++area.in_use == area.size - 1) {
    area.lowest = area.size;
    area.highest = 0;
  }
}

bool SwapSlots::Duplicate(SwapSlot slot) {
  PS_CHECK(slot < end_);
  SpinGuard guard(lock_);
  const std::uint16_t count = Count(slot);
  if (count == 0) return false;
  PS_CHECK(count < kSwapCountMax, "a swap slot has too many users");
  counts_[slot].store(static_cast<std::uint16_t>(count + 1), std::memory_order_relaxed);
  return true;
}

std::uint16_t SwapSlots::Free(SwapSlot slot) {
  PS_CHECK(slot < end_);
  SpinGuard guard(lock_);
  Charge(op_ns_);
  const std::uint16_t count = Count(slot);
  PS_CHECK(count > 0, "a swap slot is freed that nobody uses");
  const auto left = static_cast<std::uint16_t>(count - 1);
  counts_[slot].store(left, std::memory_order_relaxed);
  if (left > 0) return left;
  Area& area = AreaOf(slot);
  const std::uint32_t offset = slot - area.base;
  area.lowest = std::min(area.lowest, offset);
  area.highest = std::max(area.highest, offset);
  --area.in_use;
  free_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

SwapSlots::Run SwapSlots::UsedRun(SwapSlot slot, int cluster) {
  if (cluster <= 0) return {};
  SpinGuard guard(lock_);
  const Area& area = AreaOf(slot);
  const std::uint32_t offset = slot - area.base;
  const std::uint32_t window = 1U << cluster;
  const std::uint32_t start = std::max(1U, offset & ~(window - 1));
  const std::uint32_t end = std::min(area.size, (offset & ~(window - 1)) + window);
  if (!Used(area, offset)) return {};
  std::uint32_t first = offset;
  while (first > start && Used(area, first - 1)) --first;
  std::uint32_t last = offset + 1;
  while (last < end && Used(area, last)) ++last;
  return {area.base + first, last - first};
}

const SwapSlots::Area& SwapSlots::AreaOf(SwapSlot slot) const {
  auto after = std::ranges::upper_bound(areas_, slot, {}, &Area::base);
  PS_CHECK(after != areas_.begin());
  return *std::prev(after);
}

std::string SwapSlots::CheckInvariants() const {
  std::int64_t used_in_all = 0;
  for (const Area& area : areas_) {
    std::uint32_t used = 0;
    for (std::uint32_t offset = 1; offset < area.size; ++offset) {
      if (Used(area, offset)) {
        ++used;
      } else if (offset < area.lowest || offset > area.highest) {
        return "swap: free slot " + std::to_string(offset) + " lies outside the bounds " +
               std::to_string(area.lowest) + ".." + std::to_string(area.highest);
      }
    }
    if (Used(area, 0)) return "swap: a header is in use";
    if (used != area.in_use) {
      return "swap: " + std::to_string(used) + " slots in use, counted " +
             std::to_string(area.in_use);
    }
    used_in_all += used;
  }
  if (used_in_all + free() != total_) {
    return "swap: " + std::to_string(used_in_all) + " used + " + std::to_string(free()) +
           " free != " + std::to_string(total_);
  }
  return {};
}

}  // namespace pagestorm::mm
