#include "mm/memcg.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "mm/frame_ref.h"
#include "mm/lru_per_cgroup.h"
#include "mm/mm_struct.h"
#include "mm/oom.h"
#include "mm/page_alloc.h"
#include "mm/reclaim.h"
#include "mm/relaxed.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

// Rounds of limit reclaim without success before somebody is killed: the kernel's
// MEM_CGROUP_RECLAIM_RETRIES.
constexpr int kReclaimRounds = 5;
constexpr const char* kNameAllowed = "letters, digits and . _ -, at most 64";

bool Dying(const Task& task) {
  return task.memdie.load(std::memory_order_acquire) ||
         task.fatal_signal.load(std::memory_order_acquire);
}

bool IsName(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::ranges::all_of(name, allowed);
}

std::string PathOf(const MemCgroup& parent, const std::string& name) {
  return parent.parent == nullptr ? "/" + name : parent.path + "/" + name;
}

// Adds one page unless that exceeds the limit.
bool AddOne(MemCgroup& group) {
  std::int64_t usage = group.usage.load(std::memory_order_relaxed);
  do {
    if (usage >= group.limit.n) {
      group.failcnt.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!group.usage.compare_exchange_weak(usage, usage + 1, std::memory_order_relaxed));
  RaiseTo(group.max_usage, usage + 1);
  return true;
}

}  // namespace

CgroupLists::CgroupLists(Engine& engine, MemcgLru policy)
    : lock(engine, policy == MemcgLru::kZone ? LockRank::kMemcgLru : LockRank::kLru,
           policy == MemcgLru::kZone ? "mem_cgroup_per_zone.lru_lock" : "lruvec->lru_lock") {}

MemCgroup::MemCgroup(MemoryManager& mm, int number_of_group, std::string path_of_group,
                     MemCgroup* group_above, Pages most)
    : number(number_of_group), path(std::move(path_of_group)), parent(group_above), limit(most) {
  for (std::size_t i = 0; i < mm.zones.size(); ++i) {
    zones.push_back(std::make_unique<CgroupLists>(mm.engine, mm.policy.memcg.lru));
  }
}

absl::Status MemCgroups::Check(const std::vector<MemCgroupSpec>& specs) {
  if (specs.size() >= kMemCgroupsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(specs.size(), " cgroups: allowed are less than ", kMemCgroupsMax));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const MemCgroupSpec& wanted = specs[i];
    const auto wrong = [&wanted](const auto&... text) {
      return absl::InvalidArgumentError(absl::StrCat("cgroup \"", wanted.name, "\": ", text...));
    };
    if (!IsName(wanted.name)) return wrong("allowed in a name: ", kNameAllowed);
    if (wanted.limit.n < 1) {
      return wrong("a limit of ", wanted.limit.n, " pages: must be at least 1");
    }
    if (wanted.parent < -1 || wanted.parent >= static_cast<int>(i)) {
      return wrong("its parent is not among the groups before it");
    }
    const bool twice = std::any_of(
        specs.begin(), specs.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const MemCgroupSpec& o) { return o.name == wanted.name && o.parent == wanted.parent; });
    if (twice) return wrong("there are two of that name");
  }
  return absl::OkStatus();
}

MemCgroups::MemCgroups(MemoryManager& mm) : mm_(mm), policy_(mm.policy.memcg.lru) {
  groups_.emplace_back(mm, 0, "/", nullptr, kNoLimit);
  for (const MemCgroupSpec& wanted : mm.config.cgroups) {
    MemCgroup& parent = groups_[static_cast<std::size_t>(wanted.parent + 1)];
    groups_.emplace_back(mm, static_cast<int>(groups_.size()), PathOf(parent, wanted.name), &parent,
                         wanted.limit);
  }
  for (MemCgroup& group : groups_) {
    for (MemCgroup* above = &group; above != nullptr; above = above->parent) {
      above->subtree.push_back(&group);
    }
  }
  for (MemCgroup& group : groups_) {
    if (group.subtree.size() == 1) leaves_.push_back(&group);
  }
}

MemCgroups::~MemCgroups() = default;

void MemCgroups::Attach(MmStruct& space, std::int64_t n) {
  Charge({mm_.costs.syscall_ns});
  space.cgroup.store(leaves_[static_cast<std::size_t>(n) % leaves_.size()],
                     std::memory_order_release);
}

MemCgroup* MemCgroups::GroupOf(const MmStruct& space) const {
  MemCgroup* group = space.cgroup.load(std::memory_order_acquire);
  return group == nullptr ? const_cast<MemCgroup*>(&groups_.front()) : group;
}

// --- charges ---

void MemCgroups::Subtract(MemCgroup& group, MemCgroup* end) {
  for (MemCgroup* at = &group; at != end; at = at->parent) {
    at->usage.fetch_sub(1, std::memory_order_relaxed);
  }
}

MemCgroup* MemCgroups::TryAdd(MemCgroup& group) {
  for (MemCgroup* at = &group; at->parent != nullptr; at = at->parent) {
    if (AddOne(*at)) continue;
    Subtract(group, at);
    return at;
  }
  return nullptr;
}

bool MemCgroups::ReclaimRound(MemCgroup& full) {
  full.reclaims.fetch_add(1, std::memory_order_relaxed);
  const std::size_t count = full.subtree.size();
  const std::size_t first = full.next_victim.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    MemCgroup& group = *full.subtree[(first + i) % count];
    if (group.anon.load(std::memory_order_relaxed) + group.cache.load(std::memory_order_relaxed) ==
        0) {
      continue;  // it only stands above others
    }
    const std::int64_t progress = mm_.reclaimer->TryToFreeMemcgPages(group, GFP_HIGHUSER_MOVABLE);
    if (progress > 0 || full.HasRoom()) return true;
  }
  full.fruitless.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool MemCgroups::TryCharge(FrameNo n, const MmStruct* space, ChargeAs as) {
  MemCgroup* group = space == nullptr ? nullptr : space->cgroup.load(std::memory_order_acquire);
  if (group == nullptr) return true;
  int rounds = kReclaimRounds;
  for (;;) {
    // A look at, and a change of, one shared counter a level.
    for (MemCgroup* at = group; at->parent != nullptr; at = at->parent) {
      Charge({mm_.costs.watermark_ns});
    }
    MemCgroup* full = TryAdd(*group);
    if (full == nullptr) break;
    if (Dying(Current())) {
      group->bypassed.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    if (ReclaimRound(*full) || --rounds > 0) continue;
    if (as == ChargeAs::kReadAhead || !mm_.oom->OutOfMemoryIn(*full, GFP_HIGHUSER_MOVABLE)) {
      return false;
    }
    rounds = kReclaimRounds;
  }
  Link(n, *group, as);
  return true;
}

void MemCgroups::Link(FrameNo n, MemCgroup& group, ChargeAs as) {
  PageCgroup& frame = mm_.frames.group(n);
  PS_CHECK(frame.number.load(std::memory_order_relaxed) == 0, "a page is charged twice");
  frame.file = as == ChargeAs::kCache;
  (frame.file ? group.cache : group.anon).fetch_add(1, std::memory_order_relaxed);
  frame.number.store(static_cast<std::uint16_t>(group.number), std::memory_order_relaxed);
  if (owns_lists()) return;
  // As it will be added to the zone's: anonymous pages begin active.
  const bool split = mm_.policy.reclaim.split_lru;
  const LruList list = !frame.file ? LruList::kActiveAnon
                       : split     ? LruList::kInactiveFile
                                   : LruList::kInactiveAnon;
  CgroupLists& lists = group.In(mm_.ZoneOf(n));
  SpinGuard guard(lists.lock);
  Charge({mm_.costs.lru_op_ns});
  PushHeadLocked(lists, n, list);
}

void MemCgroups::UnchargeSlow(FrameNo n) {
  MemCgroup& group = GroupOf(n);
  PageCgroup& frame = mm_.frames.group(n);
  if (!owns_lists()) {
    CgroupLists& lists = group.In(mm_.ZoneOf(n));
    SpinGuard guard(lists.lock);
    Charge({mm_.costs.lru_op_ns});
    RemoveLocked(lists, n);
    frame.number.store(0, std::memory_order_relaxed);
  } else {
    frame.number.store(0, std::memory_order_relaxed);
  }
  (frame.file ? group.cache : group.anon).fetch_sub(1, std::memory_order_relaxed);
  Subtract(group, &groups_.front());
}

// --- the groups' lists ---

void MemCgroups::PushHeadLocked(CgroupLists& lists, FrameNo n, LruList list) {
  CgroupLists::List& to = lists.lists[static_cast<std::size_t>(list)];
  PageCgroup& frame = mm_.frames.group(n);
  frame.prev = kNoFrame;
  frame.next = to.head;
  (to.head != kNoFrame ? mm_.frames.group(to.head).prev : to.tail) = n;
  to.head = n;
  to.size.fetch_add(1, std::memory_order_relaxed);
  frame.list.store(static_cast<std::uint8_t>(static_cast<int>(list) + 1),
                   std::memory_order_relaxed);
}

void MemCgroups::RemoveLocked(CgroupLists& lists, FrameNo n) {
  PageCgroup& frame = mm_.frames.group(n);
  const std::uint8_t list = frame.list.load(std::memory_order_relaxed);
  PS_CHECK(list != 0, "a charged page is on no list of its group");
  CgroupLists::List& from = lists.lists[list - 1U];
  (frame.prev != kNoFrame ? mm_.frames.group(frame.prev).next : from.head) = frame.next;
  (frame.next != kNoFrame ? mm_.frames.group(frame.next).prev : from.tail) = frame.prev;
  from.size.fetch_sub(1, std::memory_order_relaxed);
  frame.list.store(0, std::memory_order_relaxed);
}

void MemCgroups::NoteMoved(std::span<const BatchEntry> entries) {
  if (owns_lists()) return;
  for (const BatchEntry& entry : entries) NoteMoved(entry.frame);
}

void MemCgroups::NoteMoved(FrameNo n) {
  const PageCgroup& frame = mm_.frames.group(n);
  const LruList list = mm_.ZoneOf(n).lru->ListOf(mm_.frames[n]);
  const auto wanted = static_cast<std::uint8_t>(static_cast<int>(list) + 1);
  const std::uint16_t number = frame.number.load(std::memory_order_relaxed);
  if (number == 0 || owns_lists() || frame.list.load(std::memory_order_relaxed) == wanted) return;
  CgroupLists& lists = groups_[number].In(mm_.ZoneOf(n));
  SpinGuard guard(lists.lock);
  // Uncharged meanwhile, it may be anybody's.
  if (frame.number.load(std::memory_order_relaxed) != number ||
      frame.list.load(std::memory_order_relaxed) == 0) {
    return;
  }
  Charge({mm_.costs.lru_op_ns});
  RemoveLocked(lists, n);
  PushHeadLocked(lists, n, list);
}

std::int64_t MemCgroups::ListSize(MemCgroup& group, const Zone& zone, LruList list) {
  return group.In(zone).lists[static_cast<std::size_t>(list)].size.load(std::memory_order_relaxed);
}

Isolated MemCgroups::Isolate(MemCgroup& group, Zone& zone, const Wanted& wanted,
                             BatchEntries& batch) {
  if (!owns_lists()) return IsolateFromList(group, zone, wanted, batch);
  Lru& own = static_cast<PerCgroupLru&>(*zone.lru).Of(group);
  return own.Isolate(wanted.pages, wanted.list, wanted.order, wanted.mode, batch);
}

MemCgroups::Found MemCgroups::LookAtTail(CgroupLists& lists, const Zone& zone,
                                         const Wanted& wanted) {
  Found found;
  SpinGuard guard(lists.lock);
  const CgroupLists::List& from = lists.lists[static_cast<std::size_t>(wanted.list)];
  const std::int64_t size = from.size.load(std::memory_order_relaxed);
  FrameNo n = from.tail;
  for (std::int64_t looked = 0; looked < size && n != kNoFrame; ++looked) {
    if (static_cast<std::int64_t>(found.size()) == wanted.pages) break;
    const FrameNo next = mm_.frames.group(n).prev;
    Charge({mm_.costs.lru_op_ns});
    // On its way to the LRU, on somebody's batch, or being freed: it stays where it is.
    if (mm_.frames[n].state() == FrameState::kLru) {
      const LruList its = zone.lru->ListOf(mm_.frames[n]);
      RemoveLocked(lists, n);
      PushHeadLocked(lists, n, its);
      if (its == wanted.list) found.push_back(n);
    }
    n = next;
  }
  return found;
}

Isolated MemCgroups::IsolateFromList(MemCgroup& group, Zone& zone, const Wanted& wanted,
                                     BatchEntries& batch) {
  const Found found = LookAtTail(group.In(zone), zone, wanted);
  if (found.empty()) return {};
  const std::size_t before = batch.size();
  zone.lru->IsolateThese(found, wanted.list, batch);
  // Freed and taken by another group since it was found: none of our business.
  IsolatedBatch strangers(mm_, zone);
  for (std::size_t i = before; i < batch.size();) {
    if (&GroupOf(batch[i].frame) == &group) {
      ++i;
      continue;
    }
    strangers.entries.push_back(batch[i]);
    batch[i] = batch.back();
    batch.pop_back();
  }
  return {.scanned = static_cast<std::int64_t>(found.size()),
          .taken = static_cast<std::int64_t>(batch.size() - before)};
}

// --- reports and checks ---

LockStats MemCgroups::LockStatsOf(const Zone& zone) {
  LockStats all;
  for (MemCgroup& group : groups_) all += group.In(zone).lock.stats();
  return all;
}

std::string MemCgroups::CheckLists(MemCgroup& group, Zone& zone) const {
  for (const CgroupLists::List& list : group.In(zone).lists) {
    std::int64_t count = 0;
    FrameNo prev = kNoFrame;
    for (FrameNo n = list.head; n != kNoFrame; prev = n, n = mm_.frames.group(n).next) {
      const PageCgroup& frame = mm_.frames.group(n);
      if (frame.prev != prev || frame.number.load() != group.number ||
          mm_.frames[n].zone() != zone.ordinal || ++count > list.size.load()) {
        return absl::StrCat("frame ", n, " does not belong on its list of zone ", zone.ordinal);
      }
    }
    if (count != list.size.load()) {
      return absl::StrCat("a list of zone ", zone.ordinal, " has ", count, " of ", list.size.load(),
                          " frames");
    }
  }
  return {};
}

std::string MemCgroups::CheckInvariants() {
  std::vector<std::int64_t> charged(groups_.size(), 0);
  for (const auto& zone : mm_.zones) {
    for (FrameNo n = zone->first; n < zone->end; ++n) {
      const std::uint16_t number = mm_.frames.group(n).number.load();
      if (number == 0) continue;
      const FrameState state = mm_.frames[n].state();
      if (state == FrameState::kBuddy || state == FrameState::kPcp) {
        return absl::StrCat("frame ", n, " is free and charged to cgroup ", groups_[number].path);
      }
      ++charged[number];
    }
  }
  for (MemCgroup& group : groups_) {
    if (group.parent == nullptr) continue;
    const auto wrong = [&group](const auto&... text) {
      return absl::StrCat("cgroup ", group.path, ": ", text...);
    };
    std::int64_t frames = 0;
    for (const MemCgroup* below : group.subtree) {
      frames += charged[static_cast<std::size_t>(below->number)];
    }
    if (frames != group.usage.load()) {
      return wrong(frames, " frames are charged, its usage is ", group.usage.load());
    }
    if (group.max_usage.load() > group.limit.n) return wrong("its limit was exceeded");
    const std::int64_t own = charged[static_cast<std::size_t>(group.number)];
    if (own != group.anon.load() + group.cache.load()) {
      return wrong(own, " frames of its own, ", group.anon.load(), " anonymous and ",
                   group.cache.load(), " of files");
    }
    if (owns_lists()) continue;
    std::int64_t listed = 0;
    for (const auto& zone : mm_.zones) {
      if (std::string bad = CheckLists(group, *zone); !bad.empty()) return wrong(bad);
      for (const auto& list : group.In(*zone).lists) listed += list.size.load();
    }
    if (listed != own) return wrong(own, " frames are charged, ", listed, " listed");
  }
  return {};
}

// --- allocation ---

std::optional<FrameNo> AllocCharged(MemoryManager& mm, Gfp gfp, const MmStruct* space,
                                    ChargeAs as) {
  const std::optional<FrameNo> n = mm.allocator->Alloc(gfp);
  if (mm.cgroups == nullptr || !n) [[likely]]
    return n;
  FrameRef ref(mm, *n);
  if (!mm.cgroups->TryCharge(*n, space, as)) return std::nullopt;
  return ref.Release();
}

}  // namespace pagestorm::mm
