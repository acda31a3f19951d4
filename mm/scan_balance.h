// How much of which LRU list a visit to a zone scans, and what becomes of active pages: the
// scan-balance policy of a kernel, chosen at boot.
//   classic (2.6.26): one active and one inactive list; the distress formula decides about mapped
//   pages. split (2.6.28): anonymous and file pages apart, pressed in proportion to what their
//   scans find in use.
// Source: spec throttle-2.6.26 2.12, 2.16, 2.17.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "mm/reclaim.h"

namespace pagestorm::mm {

// Adds `step` to a shared accumulator without a lock, so that concurrent additions may be lost, and
// takes what has gathered once it is a batch: returned and reset, or 0.
[[nodiscard]] std::int64_t TakeScanQuota(std::atomic<std::int64_t>& accumulator, std::int64_t step,
                                         std::int64_t batch);

class ScanBalance {
 public:
  virtual ~ScanBalance() = default;

  // Scans what the priority asks for. Returns pages reclaimed. The gate has let the caller in.
  virtual std::int64_t Scan(Reclaimer& reclaimer, int priority, Zone& zone, ScanControl& sc) = 0;
  // kswapd looks at every zone in turn: keeps enough anonymous pages inactive.
  virtual void AgeActive(Reclaimer&, Zone&, ScanControl&, int /*priority*/) {}
  // Before a batch of active pages is judged: whether mapped ones may be deactivated.
  virtual bool ReclaimMapped(const Zone& zone, const ScanControl& sc, int priority) = 0;
  // Whether an isolated page of the active list stays active.
  virtual bool StaysActive(FrameNo n, PageOwners& owners, Zone& zone, const ScanControl& sc,
                           bool reclaim_mapped) = 0;
  // Of the pages of one list so many were scanned; so many were found in use and stay active.
  virtual void NoteScanned(Zone&, const ScanControl&, LruList, std::int64_t /*scanned*/) {}
  virtual void NoteRotated(Zone&, const ScanControl&, LruList, std::int64_t /*rotated*/) {}
};

std::unique_ptr<ScanBalance> MakeScanBalance(MemoryManager& mm);

// Percentages of anonymous and file pages in a split-LRU scan.
struct ScanRatioInputs {
  std::int64_t free_swap = 0;
  std::int64_t file = 0;  // pages on both file lists
  std::int64_t free = 0;
  std::int64_t pages_high = 0;
  std::int64_t swappiness = 60;
  std::array<std::int64_t, 2> scanned{};  // anon, file
  std::array<std::int64_t, 2> rotated{};
};
struct ScanRatio {
  std::int64_t anon = 0;
  std::int64_t file = 0;
};
[[nodiscard]] ScanRatio ComputeScanRatio(const ScanRatioInputs& in);

}  // namespace pagestorm::mm
