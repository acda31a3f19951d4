// anon_vma: the areas that may map the pages of one family of forked address spaces.
//
// An area gets one at its first anonymous page; a child's copy of the area joins its parent's list,
// so after N forks it has N + 1 members under one spin lock. A member keeps its number while it is
// in the list; a frame remembers the number of the area that mapped it (PageFrame::mapper is number
// + 1). Objects are reused, never freed: a stale id leads to a live lock, and who holds it checks
// the frame again.  Source: spec throttle-2.6.26 3.4.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/raw_lock.h"
#include "core/spin_lock.h"

namespace pagestorm::mm {

struct Area;
using AnonVmaId = std::uint32_t;  // 0: none

struct AnonVma {
  AnonVma(Engine& engine, AnonVmaId number)
      : id(number), lock(engine, LockRank::kAnonVma, "anon_vma->lock") {}

  const AnonVmaId id;
  SpinLock lock;                         // guards what is declared below
  std::vector<Area*> members;            // by member number; nullptr: a number to reuse
  std::vector<std::uint32_t> vacancies;  // numbers to reuse, the last one first
  std::int64_t live = 0;                 // members that are not nullptr
};

class AnonVmas {
 public:
  explicit AnonVmas(Engine& engine) : engine_(engine), mu_(engine.kind()) {}

  // A list without members, for an area that will join it; Return() it if that comes to nothing.
  AnonVma& Take();
  void Return(AnonVma& list);
  // Adds `area`: the first one, or a forked copy of a member. Takes the list's lock.
  void Join(AnonVma& list, Area& area);
  // Removes `area`, which maps nothing any more; the last one frees the list for reuse. Takes its
  // lock.
  void Leave(AnonVma& list, Area& area);
  [[nodiscard]] AnonVma& Get(AnonVmaId id);
  // Lists with members.
  [[nodiscard]] std::size_t live() const;

 private:
  Engine& engine_;
  mutable RawLock mu_;                         // guards the two below
  std::vector<std::unique_ptr<AnonVma>> all_;  // by id - 1
  std::vector<AnonVma*> free_;
};

}  // namespace pagestorm::mm
