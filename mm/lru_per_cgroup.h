// The LRU of one zone of a machine with memory cgroups under MemcgLru::kPerCgroup: locked lists for
// each group, each with a lock of its own (5.11), behind the interface of one LRU.
//
// A frame is on the lists of the group it is charged to, or of the root's; that does not change
// while anybody refers to it or it is listed. Calls that have frames of several groups take one
// lock after the other, once for each run of frames of one group. Source: spec throttle-2.6.26 5.7.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mm/lru.h"
#include "mm/memcg.h"

namespace pagestorm::mm {

class PerCgroupLru final : public Lru {
 public:
  // The groups are made; they and the zone outlive this.
  PerCgroupLru(MemoryManager& mm, MemCgroups& groups, Zone& zone);

  [[nodiscard]] Lru& Of(const MemCgroup& group) {
    return *parts_[static_cast<std::size_t>(group.number)];
  }

  LruList ListOf(const PageFrame& frame) const override { return parts_.front()->ListOf(frame); }
  void Add(std::span<const FrameNo> frames, bool active) override;
  void Del(std::span<FrameNo> dead) override;
  std::int64_t RotateTail(std::span<const FrameNo> frames) override;
  bool SetActive(FrameNo n, bool active) override { return OfFrame(n).SetActive(n, active); }
  // Of whatever group has some, the root first: for callers that know of no groups. Reclaim asks
  // the group's own LRU.
  Isolated Isolate(std::int64_t want, LruList list, int order, IsolateMode mode,
                   BatchEntries& batch) override;
  std::int64_t IsolateThese(std::span<const FrameNo> frames, LruList list,
                            BatchEntries& batch) override;
  void PutBack(std::span<const BatchEntry> entries) override;
  void NoteFreed(FrameNo n) override { OfFrame(n).NoteFreed(n); }
  std::int64_t Size(LruList list) const override;
  std::int64_t isolated() const override;
  std::string CheckInvariants() const override;

 private:
  [[nodiscard]] Lru& OfFrame(FrameNo n) { return Of(groups_.GroupOf(n)); }

  MemoryManager& mm_;
  MemCgroups& groups_;
  Zone& zone_;
  std::vector<std::unique_ptr<Lru>> parts_;  // by MemCgroup::number
};

}  // namespace pagestorm::mm
