#include "numa/memory_map.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace pagestorm::numa {
namespace {

constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

constexpr ZoneLayout kX86_64Layout{
    .arch = Arch::kX86_64,
    .count = 4,
    .kinds = {ZoneKind::kDma, ZoneKind::kDma32, ZoneKind::kNormal, ZoneKind::kMovable},
    .end_bytes = {16 * kMiB, 4 * kGiB, kNoEnd, kNoEnd}};

constexpr ZoneLayout kIa64Layout{
    .arch = Arch::kIa64,
    .count = 3,
    .kinds = {ZoneKind::kDma, ZoneKind::kNormal, ZoneKind::kMovable, ZoneKind::kMovable},
    .end_bytes = {4 * kGiB, kNoEnd, kNoEnd, kNoEnd}};

absl::Status BadMap(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("memory map: ", what));
}

absl::Status Validate(const MemoryMapOptions& options) {
  const int shift = options.page_shift.n;
  if (shift != 12 && shift != 14 && shift != 16) {
    return BadMap(absl::StrCat("page_shift = ", shift, ", allowed are 12, 14 and 16"));
  }
  if (options.node_alignment.n < 1) return BadMap("node_alignment must be at least 1 page");
  std::uint64_t end = 0;
  for (const Hole& hole : options.holes) {
    if (hole.pages.n < 1) return BadMap("a hole has at least one page");
    if (hole.start.n < end) return BadMap("holes must be in ascending order and not overlap");
    end = (hole.start + hole.pages).n;
    if (end > static_cast<std::uint64_t>(kMaxFrames))
      return BadMap("a hole ends beyond 2^32 frames");
  }
  for (const NodeMemory& node : options.nodes) {
    if (node.bytes < 0 || node.movable_bytes < 0 || node.movable_bytes > node.bytes) {
      return BadMap(absl::StrCat("node ", node.id.n, ": ", node.bytes, " bytes with ",
                                 node.movable_bytes, " movable"));
    }
  }
  return absl::OkStatus();
}

Pfn AlignUp(Pfn pfn, Pages alignment) {
  const auto step = static_cast<std::uint64_t>(alignment.n);
  return Pfn{(pfn.n + step - 1) / step * step};
}

// Where `count` pages of RAM come to lie from `from` on: first and last frame plus one.
struct Placement {
  Pfn start;
  Pfn end;
};

Placement Place(Pfn from, Pages count, const std::vector<Hole>& holes) {
  Pfn at = from;
  Placement placed{from, from};
  bool started = false;
  const auto take = [&](Pages pages) {
    if (pages.n <= 0) return;
    if (!started) placed.start = at;
    started = true;
    at = at + pages;
    placed.end = at;
    count -= pages;
  };
  for (const Hole& hole : holes) {
    const Pfn hole_end = hole.start + hole.pages;
    if (hole_end <= at) continue;
    if (hole.start > at) take(std::min(count, hole.start - at));
    if (count.n == 0) break;
    if (hole.kind == Hole::Kind::kLost) count -= std::min(count, hole_end - at);
    at = hole_end;
  }
  take(count);
  return placed;
}

Pages AbsentIn(Pfn start, Pfn end, const std::vector<Hole>& holes) {
  Pages absent;
  for (const Hole& hole : holes) {
    const Pfn from = std::max(start, hole.start);
    const Pfn to = std::min(end, hole.start + hole.pages);
    if (from < to) absent += to - from;
  }
  return absent;
}

NodeSpan MakeNode(const NodeMemory& memory, const MemoryMapOptions& options, Placement placed) {
  const ZoneLayout& layout = LayoutOf(options.arch);
  NodeSpan node{
      .id = memory.id, .start = placed.start, .spanned = placed.end - placed.start, .zones = {}};
  const Pages movable = PagesFromBytes(memory.movable_bytes, options.page_shift);
  Pfn movable_start = placed.end;
  if (movable.n > 0) {
    // Linux aligns the boundary to the highest buddy order.
    const std::uint64_t boundary = placed.end.n - static_cast<std::uint64_t>(movable.n);
    movable_start =
        std::clamp(AlignUp(Pfn{boundary}, options.node_alignment), placed.start, placed.end);
  }
  Pfn zone_low{0};
  for (int zone = 0; zone < layout.count; ++zone) {
    ZoneSpan span{
        .zone = zone, .name = layout.Name(zone), .start = {}, .spanned = {}, .absent = {}};
    const bool is_movable = zone == layout.MovableIndex();
    const Pfn zone_high{layout.end_bytes[static_cast<std::size_t>(zone)] >> options.page_shift.n};
    const Pfn start = is_movable ? movable_start : std::max(placed.start, zone_low);
    const Pfn end = is_movable ? placed.end : std::min(movable_start, zone_high);
    if (start < end) {
      span.start = start;
      span.spanned = end - start;
      span.absent = AbsentIn(start, end, options.holes);
    }
    node.zones.push_back(span);
    zone_low = zone_high;
  }
  return node;
}

}  // namespace

std::string_view ArchName(Arch arch) { return arch == Arch::kX86_64 ? "x86_64" : "ia64"; }

absl::StatusOr<Arch> ParseArch(std::string_view text) {
  if (text == "x86_64") return Arch::kX86_64;
  if (text == "ia64") return Arch::kIa64;
  return absl::InvalidArgumentError(
      absl::StrCat("arch = \"", std::string(text), "\", allowed are \"x86_64\" and \"ia64\""));
}

const ZoneLayout& LayoutOf(Arch arch) {
  return arch == Arch::kX86_64 ? kX86_64Layout : kIa64Layout;
}

std::optional<int> ZoneLayout::IndexOf(ZoneKind kind) const {
  for (int zone = 0; zone < count; ++zone) {
    if (kinds[static_cast<std::size_t>(zone)] == kind) return zone;
  }
  return std::nullopt;
}

int ZoneLayout::NormalIndex() const {
  const std::optional<int> index = IndexOf(ZoneKind::kNormal);
  PS_CHECK(index.has_value(), "every architecture has a Normal zone");
  return *index;
}

std::string_view ZoneLayout::Name(int zone) const {
  PS_CHECK(zone >= 0);
  PS_CHECK(zone < count);
  switch (kinds[static_cast<std::size_t>(zone)]) {
    case ZoneKind::kDma:
      return "DMA";
    case ZoneKind::kDma32:
      return "DMA32";
    case ZoneKind::kNormal:
      return "Normal";
    case ZoneKind::kMovable:
      return "Movable";
  }
  return "";
}

Pages MemoryMap::TotalSpanned() const {
  Pages total;
  for (const NodeSpan& node : nodes) {
    for (const ZoneSpan& zone : node.zones) total += zone.spanned;
  }
  return total;
}

Pages MemoryMap::TotalExisting() const {
  Pages total;
  for (const NodeSpan& node : nodes) {
    for (const ZoneSpan& zone : node.zones) total += zone.Existing();
  }
  return total;
}

absl::StatusOr<MemoryMap> BuildMemoryMap(const MemoryMapOptions& options) {
  if (absl::Status status = Validate(options); !status.ok()) return status;
  MemoryMap map{.arch = options.arch, .page_shift = options.page_shift, .nodes = {}, .end = {}};
  for (const NodeMemory& memory : options.nodes) {
    const Pages pages = PagesFromBytes(memory.bytes, options.page_shift);
    if (pages.n > kMaxFrames) {
      return BadMap(absl::StrCat("node ", memory.id.n, ": more than 2^32 frames"));
    }
    if (pages.n == 0) {
      map.nodes.push_back(MakeNode({.id = memory.id}, options, {map.end, map.end}));
      continue;
    }
    const Placement placed = Place(AlignUp(map.end, options.node_alignment), pages, options.holes);
    if (placed.end.n > static_cast<std::uint64_t>(kMaxFrames)) {
      return BadMap(absl::StrCat("node ", memory.id.n, " ends beyond 2^32 frames"));
    }
    map.nodes.push_back(MakeNode(memory, options, placed));
    map.end = std::max(map.end, placed.end);
  }
  return map;
}

PresentPages ComputePresent(const ZoneSpan& zone, PageShift page_shift, const PresentRule& rule) {
  const std::int64_t page_bytes = std::int64_t{1} << page_shift.n;
  PresentPages result;
  result.memmap = Pages{(zone.spanned.n * rule.struct_page_bytes + page_bytes - 1) / page_bytes};
  result.present = zone.Existing();
  result.memmap_fits = result.present >= result.memmap;
  if (result.memmap_fits) result.present -= result.memmap;
  if (zone.zone == 0 && result.present > rule.dma_reserve) result.present -= rule.dma_reserve;
  return result;
}

}  // namespace pagestorm::numa
