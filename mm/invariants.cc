// MemoryManager::CheckInvariants: no frame is lost, and the counters agree with the lists.
#include <array>

#include "absl/strings/str_cat.h"
#include "mm/buddy.h"
#include "mm/lru.h"
#include "mm/memcg.h"
#include "mm/memory_manager.h"
#include "mm/page_cache.h"
#include "mm/swap.h"

namespace pagestorm::mm {
namespace {

constexpr std::size_t kStates = static_cast<std::size_t>(FrameState::kAbandoned) + 1;
using StateCounts = std::array<std::int64_t, kStates>;

std::int64_t Of(const StateCounts& counts, FrameState state) {
  return counts[static_cast<std::size_t>(state)];
}

StateCounts CountStates(const MemoryManager& mm, const Zone& zone) {
  StateCounts counts{};
  for (auto n = static_cast<FrameNo>(zone.start.n); n < zone.end; ++n) {
    if (mm.frames[n].zone() != zone.ordinal) return {};  // its state cannot be trusted either
    ++counts[static_cast<std::size_t>(mm.frames[n].state())];
  }
  return counts;
}

std::string Differ(const char* what, std::int64_t frames, const char* other, std::int64_t n) {
  return frames == n ? std::string() : absl::StrCat(frames, " frames ", what, ", ", other, " ", n);
}

std::string CheckPcps(const MemoryManager& mm, const Zone& zone, std::int64_t in_state) {
  std::int64_t listed = 0;
  for (const auto& pcp : zone.pcp) {
    std::int64_t walked = 0;
    const FrameList& list = pcp->list();
    for (FrameNo n = list.head(); n != kNoFrame && walked <= list.size(); n = mm.frames[n].next) {
      if (mm.frames[n].state() != FrameState::kPcp)
        return absl::StrCat("frame ", n, " is on a pcp");
      ++walked;
    }
    if (walked != list.size()) return "a per-CPU list is broken";
    listed += walked;
  }
  return Differ("in per-CPU state", in_state, "per-CPU lists hold", listed);
}

std::string CheckLru(MemoryManager& mm, Zone& zone, std::int64_t in_state) {
  if (zone.lru == nullptr) return Differ("on an LRU", in_state, "lists hold", 0);
  std::int64_t counted = 0;
  for (const ZoneStat stat : {ZoneStat::kNrInactive, ZoneStat::kNrActive, ZoneStat::kNrInactiveFile,
                              ZoneStat::kNrActiveFile, ZoneStat::kNrUnevictable}) {
    counted += mm.vmstat->Exact(zone.ordinal, stat);
  }
  std::string wrong = Differ("in LRU state", in_state, "the LRU counters say", counted);
  return wrong.empty() ? zone.lru->CheckInvariants() : wrong;
}

std::string CheckZone(MemoryManager& mm, Zone& zone, bool expect_idle) {
  const StateCounts counts = CountStates(mm, zone);
  std::int64_t all = 0;
  for (const std::int64_t n : counts) all += n;
  std::string wrong = Differ("carry the zone's number", all, "it spans", zone.spanned.n);
  if (wrong.empty()) {
    wrong = Differ("absent", Of(counts, FrameState::kAbsent), "should be",
                   zone.spanned.n - zone.present.n);
  }
  if (wrong.empty()) wrong = CheckBuddy(zone);
  if (wrong.empty()) {
    wrong = Differ("in buddy state", Of(counts, FrameState::kBuddy), "nr_free_pages says",
                   mm.vmstat->Exact(zone.ordinal, ZoneStat::kNrFreePages));
  }
  if (wrong.empty()) wrong = CheckPcps(mm, zone, Of(counts, FrameState::kPcp));
  if (wrong.empty()) wrong = CheckLru(mm, zone, Of(counts, FrameState::kLru));
  if (!expect_idle || !wrong.empty()) return wrong;
  wrong = Differ("isolated", Of(counts, FrameState::kIsolated), "at rest allowed are", 0);
  if (wrong.empty()) {
    wrong = Differ("claimed", Of(counts, FrameState::kClaimed) + Of(counts, FrameState::kAbandoned),
                   "at rest allowed are", 0);
  }
  if (wrong.empty()) {
    wrong = Differ("in pagevecs", Of(counts, FrameState::kPagevec), "at rest allowed are", 0);
  }
  if (wrong.empty()) {
    wrong =
        Differ("by count under writeback", mm.vmstat->Exact(zone.ordinal, ZoneStat::kNrWriteback),
               "at rest allowed are", 0);
  }
  return wrong;
}

}  // namespace

std::string MemoryManager::CheckInvariants(bool expect_idle) {
  for (const auto& zone : zones) {
    const std::string wrong = CheckZone(*this, *zone, expect_idle);
    if (!wrong.empty())
      return absl::StrCat("node ", zone->node.n, " zone ", zone->name, ": ", wrong);
  }
  std::string wrong = page_cache == nullptr ? std::string() : page_cache->CheckInvariants();
  if (wrong.empty() && swap != nullptr) wrong = swap->CheckInvariants();
  if (wrong.empty() && cgroups != nullptr) wrong = cgroups->CheckInvariants();
  return wrong;
}

}  // namespace pagestorm::mm
