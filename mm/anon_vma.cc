#include "mm/anon_vma.h"

#include <mutex>

#include "core/check.h"
#include "mm/mm_struct.h"

namespace pagestorm::mm {

AnonVma& AnonVmas::Take() {
  std::lock_guard guard(mu_);
  if (free_.empty()) {
    all_.push_back(std::make_unique<AnonVma>(engine_, static_cast<AnonVmaId>(all_.size() + 1)));
    return *all_.back();
  }
  AnonVma& list = *free_.back();
  free_.pop_back();
  return list;
}

void AnonVmas::Return(AnonVma& list) {
  std::lock_guard guard(mu_);
  free_.push_back(&list);
}

void AnonVmas::Join(AnonVma& list, Area& area) {
  SpinGuard guard(list.lock);
  auto number = static_cast<std::uint32_t>(list.members.size());
  if (list.vacancies.empty()) {
    list.members.push_back(&area);
  } else {
    number = list.vacancies.back();
    list.vacancies.pop_back();
    list.members[number] = &area;
  }
  area.member.store(number, std::memory_order_relaxed);
  ++list.live;
}

void AnonVmas::Leave(AnonVma& list, Area& area) {
  bool last = false;
  {
    SpinGuard guard(list.lock);
    const std::uint32_t number = area.member.load(std::memory_order_relaxed);
    PS_CHECK(number < list.members.size());
    PS_CHECK(list.members[number] == &area);
    list.members[number] = nullptr;
    list.vacancies.push_back(number);
    last = --list.live == 0;
    if (last) {
      list.members.clear();
      list.vacancies.clear();
    }
  }
  if (last) Return(list);
}

AnonVma& AnonVmas::Get(AnonVmaId id) {
  std::lock_guard guard(mu_);
  PS_CHECK(id >= 1 && id <= all_.size());
  return *all_[id - 1];
}

std::size_t AnonVmas::live() const {
  std::lock_guard guard(mu_);
  return all_.size() - free_.size();
}

}  // namespace pagestorm::mm
