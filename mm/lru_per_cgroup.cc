#include "mm/lru_per_cgroup.h"

#include "mm/lru_books.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

// Calls act(group, run) for each longest run of elements of one group.
template <class T, class GroupOf, class Act>
void ForRuns(std::span<T> all, GroupOf group_of, Act act) {
  for (std::size_t first = 0; first < all.size();) {
    MemCgroup& group = group_of(all[first]);
    std::size_t end = first + 1;
    while (end < all.size() && &group_of(all[end]) == &group) ++end;
    act(group, all.subspan(first, end - first));
    first = end;
  }
}

}  // namespace

PerCgroupLru::PerCgroupLru(MemoryManager& mm, MemCgroups& groups, Zone& zone)
    : mm_(mm), groups_(groups), zone_(zone) {
  for (MemCgroup& group : groups.all()) parts_.push_back(MakeLockedLru(mm, zone, &group));
}

void PerCgroupLru::Add(std::span<const FrameNo> frames, bool active) {
  ForRuns(
      frames, [this](FrameNo n) -> MemCgroup& { return groups_.GroupOf(n); },
      [&](MemCgroup& group, auto run) { Of(group).Add(run, active); });
}

void PerCgroupLru::Del(std::span<FrameNo> dead) {
  ForRuns(
      dead, [this](FrameNo n) -> MemCgroup& { return groups_.GroupOf(n); },
      [&](MemCgroup& group, auto run) { Of(group).Del(run); });
}

std::int64_t PerCgroupLru::RotateTail(std::span<const FrameNo> frames) {
  std::int64_t moved = 0;
  ForRuns(
      frames, [this](FrameNo n) -> MemCgroup& { return groups_.GroupOf(n); },
      [&](MemCgroup& group, auto run) { moved += Of(group).RotateTail(run); });
  return moved;
}

Isolated PerCgroupLru::Isolate(std::int64_t want, LruList list, int order, IsolateMode mode,
                               BatchEntries& batch) {
  Isolated all;
  for (const auto& part : parts_) {
    if (all.scanned >= want) break;
    const Isolated some = part->Isolate(want - all.scanned, list, order, mode, batch);
    all.scanned += some.scanned;
    all.taken += some.taken;
  }
  return all;
}

std::int64_t PerCgroupLru::IsolateThese(std::span<const FrameNo> frames, LruList list,
                                        BatchEntries& batch) {
  std::int64_t taken = 0;
  ForRuns(
      frames, [this](FrameNo n) -> MemCgroup& { return groups_.GroupOf(n); },
      [&](MemCgroup& group, auto run) { taken += Of(group).IsolateThese(run, list, batch); });
  return taken;
}

void PerCgroupLru::PutBack(std::span<const BatchEntry> entries) {
  ForRuns(
      entries, [this](const BatchEntry& e) -> MemCgroup& { return groups_.GroupOf(e.frame); },
      [&](MemCgroup& group, auto run) { Of(group).PutBack(run); });
}

std::int64_t PerCgroupLru::Size(LruList list) const {
  std::int64_t size = 0;
  for (const auto& part : parts_) size += part->Size(list);
  return size;
}

std::int64_t PerCgroupLru::isolated() const {
  std::int64_t isolated = 0;
  for (const auto& part : parts_) isolated += part->isolated();
  return isolated;
}

std::string PerCgroupLru::CheckInvariants() const {
  for (const auto& part : parts_) {
    std::string wrong = part->CheckInvariants();
    if (!wrong.empty()) return wrong;
  }
  const LruBooks books(mm_, zone_);
  for (int i = 0; i < kLruLists; ++i) {
    const auto list = static_cast<LruList>(i);
    std::string wrong = books.Compare(list, Size(list));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace pagestorm::mm
