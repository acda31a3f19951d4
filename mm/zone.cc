#include "mm/zone.h"

#include "mm/lru.h"
#include "mm/memory_manager.h"

namespace pagestorm::mm {

Zone::Zone(MemoryManager& manager, std::size_t position_in_machine, int position_of_node,
           const numa::ZoneSpan& span, Pages absent, bool group)
    : mm(manager),
      ordinal(position_in_machine),
      node_position(position_of_node),
      node(manager.config.map.nodes[static_cast<std::size_t>(position_of_node)].id),
      index(span.zone),
      kind(static_cast<int>(manager.layout().kinds[static_cast<std::size_t>(span.zone)])),
      name(span.name),
      start(span.start),
      spanned(span.spanned),
      present(span.spanned - absent),
      first(static_cast<FrameNo>((span.start + absent).n)),
      end(static_cast<FrameNo>((span.start + span.spanned).n)),
      pageblock_order(manager.policy.alloc.pageblock_order),
      grouped(group),
      lock(manager.engine, LockRank::kZone, "zone->lock"),
      pageblock(((end - 1) >> pageblock_order) - (span.start.n >> pageblock_order) + 1),
      lru_lock(manager.engine, LockRank::kLru, "zone->lru_lock") {
  PS_CHECK(present.n > 0, "an empty zone is not built");
  for (auto& type : pageblock) type = grouped ? MigrateType::kMovable : MigrateType::kUnmovable;
  const PcpSize size =
      ComputePcpSize(present, mm.page_shift(), mm.policy.alloc.percpu_pagelist_fraction);
  for (std::size_t cpu = 0; cpu < mm.engine.online_cpus(); ++cpu) {
    pcp.push_back(std::make_unique<Pcp>(mm.engine.kind(), size));
  }
  inactive_ratio = InactiveRatio(present, mm.page_shift());
}

Zone::~Zone() = default;

}  // namespace pagestorm::mm
