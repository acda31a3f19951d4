#include "mm/buddy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include "mm/memory_manager.h"
#include "mm/vmstat.h"

namespace pagestorm::mm {
namespace {

constexpr std::size_t At(MigrateType type) { return static_cast<std::size_t>(type); }
constexpr FrameNo Size(int order) { return FrameNo{1} << order; }
FreeArea& AreaOf(Zone& zone, int order) { return zone.free_area[static_cast<std::size_t>(order)]; }

// Where a type looks for blocks when its own lists have none, in this order; RESERVE comes after
// all.
std::array<MigrateType, 2> FallbacksOf(MigrateType type) {
  using enum MigrateType;
  switch (type) {
    case kUnmovable:
      return {kReclaimable, kMovable};
    case kReclaimable:
      return {kUnmovable, kMovable};
    default:
      return {kReclaimable, kUnmovable};
  }
}

bool IsFreeHead(const PageFrame& frame, const Zone& zone) {
  const std::uint32_t flags = frame.flags.load(std::memory_order_acquire);
  return (flags & kFrameStateMask) == static_cast<std::uint32_t>(FrameState::kBuddy) &&
         (flags & kPageHead) != 0 && (flags >> kZoneShift) == zone.ordinal;
}

void SetHead(PageFrame& frame, bool head) {
  const std::uint32_t rest =
      frame.flags.load(std::memory_order_relaxed) & ~std::uint32_t{kPageHead};
  frame.flags.store(head ? rest | kPageHead : rest, std::memory_order_release);
}

// A free block's `priv`: a frame must say which list it is on, because neighbours that merge or
// move do not know, and its pageblock's type may have changed since.
std::uint32_t Tag(int order, MigrateType type) {
  return static_cast<std::uint32_t>(order) | static_cast<std::uint32_t>(type) << 8;
}
int OrderOf(const PageFrame& head) { return static_cast<int>(head.priv & 0xff); }
std::size_t TypeOf(const PageFrame& head) { return head.priv >> 8; }

void Link(Zone& zone, FrameNo n, int order, MigrateType type) {
  PageFrame& head = zone.mm.frames[n];
  SetHead(head, true);
  head.priv = Tag(order, type);
  AreaOf(zone, order).list[At(type)].PushHead(zone.mm.frames, n);
  AreaOf(zone, order).nr_free += 1;
}

int Unlink(Zone& zone, FrameNo n) {
  PageFrame& head = zone.mm.frames[n];
  PS_DCHECK(IsFreeHead(head, zone));
  const int order = OrderOf(head);
  AreaOf(zone, order).list[TypeOf(head)].Remove(zone.mm.frames, n);
  AreaOf(zone, order).nr_free -= 1;
  SetHead(head, false);
  head.priv = 0;
  return order;
}

void CountFree(Zone& zone, std::int64_t pages) {
  zone.mm.vmstat->Add(zone.ordinal, ZoneStat::kNrFreePages, pages);
}

// The part of n's pageblock that lies in the zone.
struct BlockRange {
  FrameNo begin, end;
};
BlockRange PageblockOf(const Zone& zone, FrameNo n) {
  const FrameNo size = Size(zone.pageblock_order);
  const FrameNo begin = n & ~(size - 1);
  return {std::max(begin, zone.first), std::min(begin + size, zone.end)};
}

// Moves all free blocks of n's pageblock to the lists of `to`. Returns the pages moved, which is
// more than the pageblock holds if a larger block begins in it.
std::int64_t MoveFreeBlocks(Zone& zone, FrameNo n, MigrateType to, BuddyWork& work) {
  const BlockRange range = PageblockOf(zone, n);
  std::int64_t moved = 0;
  for (FrameNo at = range.begin; at < range.end;) {
    if (!IsFreeHead(zone.mm.frames[at], zone)) {
      ++at;
      continue;
    }
    const int order = Unlink(zone, at);
    Link(zone, at, order, to);
    ++work.steps;
    moved += std::int64_t{1} << order;
    at += Size(order);
  }
  return moved;
}

// Halves a block that is on no list until `order` is left at its start; upper halves go to `type`.
void Expand(Zone& zone, FrameNo n, int from, int order, MigrateType type, BuddyWork& work) {
  while (from > order) {
    --from;
    ++work.steps;
    Link(zone, n + Size(from), from, type);
  }
}

FrameNo TakeSmallest(Zone& zone, int order, MigrateType type, BuddyWork& work) {
  for (int at = order; at <= kMaxOrder; ++at) {
    const FrameNo n = AreaOf(zone, at).list[At(type)].head();
    if (n == kNoFrame) continue;
    Unlink(zone, n);
    Expand(zone, n, at, order, type, work);
    return n;
  }
  return kNoFrame;
}

// Takes from another type's largest block: whoever pollutes a pageblock should own what is left of
// it.
FrameNo StealFrom(Zone& zone, FrameNo n, int order, MigrateType type, MigrateType victim,
                  BuddyWork& work) {
  const int found = OrderOf(zone.mm.frames[n]);
  MigrateType rest = victim;
  if (found >= zone.pageblock_order / 2 || type == MigrateType::kReclaimable) {
    const std::int64_t moved = MoveFreeBlocks(zone, n, type, work);
    if (moved >= std::int64_t{1} << (zone.pageblock_order - 1)) zone.BlockType(n) = type;
    rest = type;
  }
  Unlink(zone, n);
  if (found == zone.pageblock_order) zone.BlockType(n) = type;
  Expand(zone, n, found, order, rest, work);
  return n;
}

FrameNo TakeFallback(Zone& zone, int order, MigrateType type, BuddyWork& work) {
  for (int at = kMaxOrder; at >= order; --at) {
    for (const MigrateType victim : FallbacksOf(type)) {
      const FrameNo n = AreaOf(zone, at).list[At(victim)].head();
      if (n != kNoFrame) return StealFrom(zone, n, order, type, victim, work);
    }
  }
  return TakeSmallest(zone, order, MigrateType::kReserve, work);
}

void SetupReserve(Zone& zone) {
  std::int64_t wanted = ReserveBlocks(zone.watermark.min, zone.pageblock_order);
  if (!zone.grouped) return;
  BuddyWork work;
  const FrameNo size = Size(zone.pageblock_order);
  // A pageblock that starts with absent frames will never be free as a whole, so it is not worth
  // reserving.
  const FrameNo begin = (zone.first + size - 1) & ~(size - 1);
  for (FrameNo n = begin; n < zone.end; n += size) {
    const MigrateType type = zone.BlockType(n);
    const bool reserved = type == MigrateType::kReserve;
    if (!reserved && type != MigrateType::kMovable) continue;
    const bool reserve = wanted > 0;
    if (reserve) --wanted;
    if (reserve == reserved) continue;
    const MigrateType now = reserve ? MigrateType::kReserve : MigrateType::kMovable;
    zone.BlockType(n) = now;
    MoveFreeBlocks(zone, n, now, work);
  }
}

// The largest block that may start at `n` in a zone that ends at `end`.
int NaturalOrder(FrameNo n, FrameNo end) {
  const int aligned = n == 0 ? kMaxOrder : std::min(kMaxOrder, std::countr_zero(n));
  return std::min(aligned, static_cast<int>(std::bit_width(end - n)) - 1);
}

}  // namespace

FrameNo TakeBlockLocked(Zone& zone, int order, MigrateType type, FrameState to, BuddyWork& work) {
  if (!zone.grouped) type = MigrateType::kUnmovable;
  FrameNo n = TakeSmallest(zone, order, type, work);
  if (n == kNoFrame && zone.grouped) n = TakeFallback(zone, order, type, work);
  if (n == kNoFrame) return kNoFrame;
  ++work.steps;
  for (FrameNo i = n; i < n + Size(order); ++i) zone.mm.frames[i].ResetState(to);
  CountFree(zone, -(std::int64_t{1} << order));
  return n;
}

void PutBlockLocked(Zone& zone, FrameNo n, int order, BuddyWork& work) {
  PS_CHECK(order >= 0 && order <= kMaxOrder && (n & (Size(order) - 1)) == 0);
  PS_CHECK(n >= zone.first && n + Size(order) <= zone.end);
  for (FrameNo i = n; i < n + Size(order); ++i) {
    PageFrame& frame = zone.mm.frames[i];
    frame.ResetState(FrameState::kBuddy);
    frame.priv = 0;
  }
  CountFree(zone, std::int64_t{1} << order);
  ++work.steps;
  const MigrateType type = zone.BlockType(n);
  for (; order < kMaxOrder; ++order) {
    const FrameNo buddy = n ^ Size(order);
    if (buddy < zone.first || buddy + Size(order) > zone.end) break;
    const PageFrame& head = zone.mm.frames[buddy];
    if (!IsFreeHead(head, zone) || OrderOf(head) != order) break;
    Unlink(zone, buddy);
    ++work.steps;
    n = std::min(n, buddy);
  }
  Link(zone, n, order, type);
}

void NoteBuddyFree(Zone& zone) {
  // Looked at first: both are nearly always clear, and a store would take the line from its
  // readers.
  if (zone.Has(kZoneAllUnreclaimable)) {
    zone.flags.fetch_and(~std::uint32_t{kZoneAllUnreclaimable}, std::memory_order_relaxed);
  }
  if (zone.pages_scanned.load(std::memory_order_relaxed) != 0) {
    zone.pages_scanned.store(0, std::memory_order_relaxed);
  }
}

void SetupReserveLocked(Zone& zone) { SetupReserve(zone); }
void SetupReserveAtBoot(Zone& zone) { SetupReserve(zone); }

void InitFrames(Zone& zone, FrameNo begin, FrameNo end) {
  const auto zone_bits = static_cast<std::uint32_t>(zone.ordinal) << kZoneShift;
  const auto free_bits = zone_bits | static_cast<std::uint32_t>(FrameState::kBuddy);
  for (FrameNo n = begin; n < end; ++n) {
    PageFrame* frame = new (&zone.mm.frames[n]) PageFrame;
    frame->flags.store(n < zone.first ? zone_bits : free_bits, std::memory_order_relaxed);
  }
}

void LinkFreeBlocks(Zone& zone) {
  const MigrateType type = zone.grouped ? MigrateType::kMovable : MigrateType::kUnmovable;
  for (FrameNo n = zone.first; n < zone.end;) {
    const int order = NaturalOrder(n, zone.end);
    Link(zone, n, order, type);
    n += Size(order);
  }
  zone.mm.vmstat->AddGlobal(zone.ordinal, ZoneStat::kNrFreePages, zone.present.n);
}

std::string CheckBuddy(Zone& zone) {
  std::int64_t listed = 0;
  const FrameTable& frames = zone.mm.frames;
  const auto where = [&zone](FrameNo n) {
    return "node " + std::to_string(zone.node.n) + " zone " + zone.name + " frame " +
           std::to_string(n) + ": ";
  };
  for (int order = 0; order <= kMaxOrder; ++order) {
    std::int64_t blocks = 0;
    for (std::size_t type = 0; type < kMigrateTypes; ++type) {
      FrameNo previous = kNoFrame;
      const FrameList& list = AreaOf(zone, order).list[type];
      for (FrameNo n = list.head(); n != kNoFrame; previous = n, n = frames[n].next) {
        if (++blocks > AreaOf(zone, order).nr_free) return where(n) + "more blocks than nr_free";
        if (frames[n].prev != previous) return where(n) + "broken link";
        if (!IsFreeHead(frames[n], zone)) return where(n) + "listed, but not free";
        if (frames[n].priv != Tag(order, static_cast<MigrateType>(type))) {
          return where(n) + "on the wrong list";
        }
        if ((n & (Size(order) - 1)) != 0) return where(n) + "misaligned";
        const FrameNo buddy = n ^ Size(order);
        if (order < kMaxOrder && buddy >= zone.first && buddy + Size(order) <= zone.end &&
            IsFreeHead(frames[buddy], zone) && OrderOf(frames[buddy]) == order) {
          return where(n) + "its buddy is free too";
        }
        for (FrameNo i = n; i < n + Size(order); ++i) {
          if (frames[i].state() != FrameState::kBuddy || frames[i].Test(kPageHead) != (i == n)) {
            return where(i) + "inconsistent within its block";
          }
        }
      }
    }
    if (blocks != AreaOf(zone, order).nr_free) return where(0) + "fewer blocks than nr_free";
    listed += blocks << order;
  }
  const std::int64_t counted = zone.mm.vmstat->Exact(zone.ordinal, ZoneStat::kNrFreePages);
  if (listed != counted) {
    return where(0) + std::to_string(listed) + " pages on free lists, nr_free_pages says " +
           std::to_string(counted);
  }
  return {};
}

}  // namespace pagestorm::mm
