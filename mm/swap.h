// Swap: swap-out and swap-in over slots, cache and disk, with read-ahead and the swap token.
// A slot keeps the content stamp of the page written to it.
//
// A frame in the cache is changed under its page lock. "Only user" below means: no pte refers to
// the slot and nobody but the cache and the caller has a reference. Source: spec
// throttle-2.6.26 2.22.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mm/block_device.h"
#include "mm/memory_manager.h"
#include "mm/swap_cache.h"
#include "mm/swap_slots.h"
#include "mm/swap_token.h"

namespace pagestorm::mm {

struct MmStruct;
enum class ChargeAs : std::uint8_t;

class Swap {
 public:
  explicit Swap(MemoryManager& mm);
  ~Swap();

  // --- reclaim ---

  // add_to_swap: gives a locked anonymous frame a slot and enters it in the cache; marks it dirty.
  // False: no slot. May yield; throws Cancelled at shutdown.
  [[nodiscard]] bool AddToSwap(FrameNo n);
  // Starts writing a locked swap-cache frame whose dirty bit was cleared. If the cache is its only
  // user, gives up the slot instead (the frame is then dirty, still locked, in no cache) and
  // returns false. Else sets writeback, counts PSWPOUT, unlocks, submits (may sleep for a request)
  // and returns true. Throws Cancelled at shutdown: unlocked, and not under writeback.
  [[nodiscard]] bool WritePage(FrameNo n);
  // remove_mapping: takes a locked, clean, unmapped frame without other user out of the cache; the
  // caller has the last reference then.
  [[nodiscard]] bool RemoveForReclaim(FrameNo n);
  // remove_exclusive_swap_page: gives up a locked frame's slot if the cache is its only user; the
  // frame is dirty then.
  bool TryToFreeSlot(FrameNo n);
  // Priority 0 and zone_reclaim: nobody has the token.
  void DropToken() { token_.Drop(); }

  // --- faults, fork, exit ---

  // Swap-in fault: the frame with the slot's content, locked, with a reference; reads ahead.
  // nullopt: no memory, or the slot is not in use any more. major: it was not in the cache.
  [[nodiscard]] std::optional<FrameNo> SwapIn(SwapSlot slot, MmStruct& space, bool& major);
  // Use counts by ptes. FreeAndForget also takes the cached frame out if it has become useless.
  void Duplicate(SwapSlot slot);
  void Free(SwapSlot slot) { slots_.Free(slot); }
  void FreeAndForget(SwapSlot slot);
  // free_swap_cache: the caller has unmapped the frame and still has that reference; the slot goes
  // with the last user.
  void ForgetUnmapped(FrameNo n);
  // can_share_swap_page: the caller's pte is the only user of a locked frame and its slot.
  [[nodiscard]] bool OnlyUser(FrameNo n) const;

  // vm_swap_full: more than half used.
  [[nodiscard]] bool Full() const { return 2 * slots_.free() < slots_.total(); }
  [[nodiscard]] std::int64_t free_slots() const { return slots_.free(); }
  [[nodiscard]] std::int64_t total_slots() const { return slots_.total(); }
  struct CacheStats {
    std::int64_t add = 0, del = 0, find_success = 0, find_total = 0, pages = 0;
  };
  [[nodiscard]] CacheStats cache_stats() const;
  [[nodiscard]] SwapToken& token() { return token_; }
  [[nodiscard]] SwapSlots& slots() { return slots_; }
  // The content of a slot, wherever it is; at rest.
  [[nodiscard]] std::uint64_t PeekStamp(SwapSlot slot) const;
  // At rest. Empty, or what is wrong.
  [[nodiscard]] std::string CheckInvariants() const;

  // The device has transferred a page. On its task.
  void OnComplete(IoDirection direction, SwapSlot slot, FrameNo n);

 private:
  // Reads the slot into a new frame unless it is cached. The frame, with a reference; it may still
  // be locked for the read. A new one is charged to the group of `space`.
  [[nodiscard]] std::optional<FrameNo> ReadAsync(SwapSlot slot, const MmStruct& space, ChargeAs as);
  void ReadAhead(SwapSlot slot, const MmStruct& space);
  void StartRead(SwapSlot slot, FrameNo n);
  void EndWrite(FrameNo n);

  MemoryManager& mm_;
  SwapSlots slots_;
  SwapCache cache_;
  SwapToken token_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> stamps_;  // by slot; nullptr without stamps
  std::atomic<std::int64_t> find_success_{0};
  std::atomic<std::int64_t> find_total_{0};
};

}  // namespace pagestorm::mm
