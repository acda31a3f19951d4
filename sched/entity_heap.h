// The waiting tasks of a run queue: a binary heap ordered by (key, task id).
//
// Every entity knows its place in the heap, so any of them can be removed in O(log n). The order of
// the slots depends on nothing but the operations so far: a walk over them is deterministic. No
// allocation once the heap has had its largest size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"
#include "sched/entity.h"

namespace pagestorm::sched {

class EntityHeap {
 public:
  struct Slot {
    std::int64_t key;
    TaskId id;
    SchedEntity* entity;
    friend bool operator<(const Slot& a, const Slot& b) {
      return a.key != b.key ? a.key < b.key : a.id < b.id;
    }
  };

  [[nodiscard]] bool empty() const { return slots_.empty(); }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] SchedEntity& top() const { return *slots_.front().entity; }
  [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }

  void Push(SchedEntity& entity, std::int64_t key) {
    PS_CHECK(!entity.queued(), "a task is queued twice");
    slots_.push_back({key, entity.task->id, &entity});
    SiftUp(slots_.size() - 1, slots_.back());
  }

  void Remove(SchedEntity& entity) {
    const std::size_t hole = entity.heap_index;
    PS_CHECK(hole < slots_.size() && slots_[hole].entity == &entity, "not on this queue");
    entity.heap_index = kNotQueued;
    const Slot last = slots_.back();
    slots_.pop_back();
    if (hole == slots_.size()) return;
    if (hole > 0 && last < slots_[(hole - 1) / 2]) {
      SiftUp(hole, last);
    } else {
      SiftDown(hole, last);
    }
  }

  void CheckInvariants() const {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      PS_CHECK(slots_[i].entity->heap_index == i);
      PS_CHECK(i == 0 || !(slots_[i] < slots_[(i - 1) / 2]));
    }
  }

 private:
  void Put(std::size_t at, const Slot& slot) {
    slots_[at] = slot;
    slot.entity->heap_index = static_cast<std::uint32_t>(at);
  }
  // Both find the place of `slot`, starting at the hole `at`.
  void SiftUp(std::size_t at, Slot slot) {
    while (at > 0 && slot < slots_[(at - 1) / 2]) {
      Put(at, slots_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    Put(at, slot);
  }
  void SiftDown(std::size_t at, Slot slot) {
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= slots_.size()) break;
      if (child + 1 < slots_.size() && slots_[child + 1] < slots_[child]) ++child;
      if (!(slots_[child] < slot)) break;
      Put(at, slots_[child]);
      at = child;
    }
    Put(at, slot);
  }

  std::vector<Slot> slots_;
};

}  // namespace pagestorm::sched
