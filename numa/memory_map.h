// Physical memory of a machine: which page frame numbers each node and each of its zones spans.
//
// Nodes lie one after the other in the order given, from page frame 0. Zones cut every node at
// physical addresses that the architecture fixes:
//   x86-64: 0 DMA below 16 MiB, 1 DMA32 below 4 GiB, 2 Normal, 3 Movable
//   ia64:   0 DMA below 4 GiB, 1 Normal, 2 Movable
// Movable is empty unless asked for. Source: spec throttle-2.6.26 2.1, kswapd-4.11 1.1; memory
// holes as in the model map of kswapd-4.11 1.11.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/units.h"

namespace pagestorm::numa {

enum class Arch { kX86_64, kIa64 };
[[nodiscard]] std::string_view ArchName(Arch arch);     // "x86_64", "ia64"
absl::StatusOr<Arch> ParseArch(std::string_view text);  // InvalidArgument: one line

enum class ZoneKind { kDma, kDma32, kNormal, kMovable };

inline constexpr int kMaxZones = 4;
inline constexpr std::int64_t kMaxFrames = std::int64_t{1} << 32;  // of a machine

// The zones of an architecture. A zone index is a position in `kinds`; a higher index is a zone
// that fewer kinds of requests may use.
struct ZoneLayout {
  Arch arch = Arch::kX86_64;
  int count = 0;  // MAX_NR_ZONES
  std::array<ZoneKind, kMaxZones> kinds{};
  std::array<std::uint64_t, kMaxZones> end_bytes{};  // exclusive; Normal and Movable: none (max)

  [[nodiscard]] std::optional<int> IndexOf(ZoneKind kind) const;  // nullopt: ia64 has no DMA32
  [[nodiscard]] int NormalIndex() const;                          // requests without a zone flag
  [[nodiscard]] int MovableIndex() const { return count - 1; }
  [[nodiscard]] std::string_view Name(int zone) const;  // as /proc prints it: "DMA32"
};
[[nodiscard]] const ZoneLayout& LayoutOf(Arch arch);

// A range of addresses without usable RAM. kRelocated: the RAM continues above it (the PCI window
// below 4 GiB). kLost: RAM was there and is not usable (page 0, the BIOS area at 640 KiB).
struct Hole {
  enum class Kind { kRelocated, kLost };
  Pfn start;
  Pages pages;
  Kind kind = Kind::kRelocated;
};

struct NodeMemory {
  NodeId id;
  std::int64_t bytes = 0;          // rounded down to whole pages; 0: a memory-less node
  std::int64_t movable_bytes = 0;  // of these, the top part that becomes ZONE_MOVABLE
};

struct MemoryMapOptions {
  Arch arch = Arch::kX86_64;
  PageShift page_shift;
  std::vector<NodeMemory> nodes;
  std::vector<Hole> holes{};  // ascending, disjoint
  // Each node starts at a multiple of this many frames, so that no buddy block of the highest
  // order (2^10 pages in every kernel emulated) lies in two nodes; the gap belongs to no node.
  // Zone boundaries inside a node are where the architecture has them: with 64 KiB pages the DMA
  // zone of x86-64 has 256 frames, so a buddy must compare zones before it merges.
  Pages node_alignment{1024};
};

struct ZoneSpan {
  int zone = 0;  // index into ZoneLayout
  std::string_view name;
  Pfn start;      // 0 when nothing is spanned
  Pages spanned;  // with holes
  Pages absent;   // in holes

  [[nodiscard]] Pages Existing() const { return spanned - absent; }
  [[nodiscard]] bool Contains(Pfn pfn) const {
    return pfn >= start && pfn.n - start.n < static_cast<std::uint64_t>(spanned.n);
  }
};

struct NodeSpan {
  NodeId id;
  Pfn start;
  Pages spanned;
  std::vector<ZoneSpan> zones;  // ZoneLayout::count of them, empty ones included
};

struct MemoryMap {
  Arch arch = Arch::kX86_64;
  PageShift page_shift;
  std::vector<NodeSpan> nodes;  // as given
  Pfn end;                      // first frame behind all memory

  [[nodiscard]] Pages TotalSpanned() const;
  [[nodiscard]] Pages TotalExisting() const;
};

// InvalidArgument with one line: page shift other than 12, 14, 16; holes out of order or
// overlapping; negative sizes; more than 2^32 frames in all (frames are linked by 32-bit numbers).
absl::StatusOr<MemoryMap> BuildMemoryMap(const MemoryMapOptions& options);

// ---- what is left of a zone when its own struct pages are paid for (2.6.26) ----

struct PresentRule {
  std::int64_t struct_page_bytes = 56;  // x86-64 without memory cgroups
  Pages dma_reserve;                    // taken from zone 0, where it fits
};

struct PresentPages {
  Pages memmap;             // ceil(spanned * struct_page_bytes / page size)
  Pages present;            // spanned - holes - memmap - dma_reserve
  bool memmap_fits = true;  // false: memmap is larger than the zone and was not subtracted
};

// Source: spec throttle-2.6.26 2.1.
[[nodiscard]] PresentPages ComputePresent(const ZoneSpan& zone, PageShift page_shift,
                                          const PresentRule& rule);

}  // namespace pagestorm::numa
