#include "mm/entry_ring.h"

#include <algorithm>
#include <bit>

namespace pagestorm::mm {
namespace {

constexpr int kLapShift = 56;
constexpr int kSequenceShift = 32;

EntryRing::Entry Decode(std::uint64_t slot) {
  return {
      .frame = static_cast<FrameNo>(slot & UINT32_MAX),
      .sequence = static_cast<std::uint32_t>(slot >> kSequenceShift) & EntryRing::kSequenceMask};
}

}  // namespace

std::uint64_t EntryRing::CapacityFor(std::int64_t live_max, std::size_t cpus) {
  return std::bit_ceil(static_cast<std::uint64_t>(2 * live_max) + (cpus + 2) * kBatch);
}

std::size_t EntryRing::BytesFor(std::int64_t live_max, std::size_t cpus) {
  return CapacityFor(live_max, cpus) * sizeof(std::uint64_t);
}

EntryRing::EntryRing(Engine& engine, std::int64_t live_max, Ns look_ns)
    : mask_(CapacityFor(live_max, engine.cpu_count()) - 1),
      bits_(std::countr_one(mask_)),
      limit_(capacity() - static_cast<std::int64_t>(engine.cpu_count() * kBatch)),
      look_ns_(look_ns),
      slots_(static_cast<std::size_t>(mask_ + 1)),
      head_line_(engine),
      tail_line_(engine) {
  PS_CHECK(limit_ >= 2 * live_max);
}

void EntryRing::Push(std::span<const Entry> entries) {
  PS_DCHECK(entries.size() <= kBatch);
  if (entries.empty()) return;
  head_line_.Own();
  std::uint64_t position = head_.fetch_add(entries.size(), std::memory_order_relaxed);
  PS_CHECK(position + entries.size() - tail_.load(std::memory_order_acquire) <= mask_ + 1,
           "an LRU ring overflows");
  for (const Entry& entry : entries) {
    Charge(look_ns_);
    const std::uint64_t slot = LapOf(position) << kLapShift |
                               std::uint64_t{entry.sequence} << kSequenceShift | entry.frame;
    slots_[position & mask_].store(slot, std::memory_order_release);
    ++position;
  }
}

// Slots are read before they are taken: once the tail has moved, a producer may write them again.
// If it has not moved until the compare-and-swap, nobody has.
std::size_t EntryRing::Pop(std::span<Entry> out) {
  for (;;) {
    std::uint64_t tail = tail_.load(std::memory_order_acquire);
    const std::size_t most = std::min(out.size(), kBatch);
    std::size_t count = 0;
    for (; count < most; ++count) {
      const std::uint64_t position = tail + count;
      const std::uint64_t slot = slots_[position & mask_].load(std::memory_order_acquire);
      if (slot >> kLapShift != LapOf(position)) break;  // not published
      out[count] = Decode(slot);
    }
    if (count == 0) {
      if (tail_.load(std::memory_order_acquire) == tail) return 0;
      continue;
    }
    Charge(static_cast<std::int64_t>(count) * look_ns_);
    tail_line_.Own();
    if (tail_.compare_exchange_strong(tail, tail + count, std::memory_order_acq_rel)) return count;
  }
}

EntryRing::Entry EntryRing::At(std::int64_t i) const {
  const std::uint64_t position =
      tail_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(i);
  return Decode(slots_[position & mask_].load(std::memory_order_relaxed));
}

}  // namespace pagestorm::mm
