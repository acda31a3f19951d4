#include "mm/lru_books.h"

#include "absl/strings/str_cat.h"
#include "mm/memcg.h"
#include "mm/reclaim.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {

LruBooks::LruBooks(MemoryManager& mm, Zone& zone, MemCgroup* group)
    : mm_(mm),
      zone_(zone.ordinal),
      split_(mm.policy.reclaim.split_lru),
      lists_(group == nullptr ? nullptr : &group->In(zone)) {}

void LruBooks::Count(LruList list, std::int64_t count) const {
  mm_.vmstat->Add(zone_, StatOf(list), count);
  if (lists_ == nullptr) [[likely]]
    return;
  lists_->lists[static_cast<std::size_t>(list)].size.fetch_add(count, std::memory_order_relaxed);
}

void LruBooks::CountLists(const ListCounts& counts, std::int64_t sign) const {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) Count(static_cast<LruList>(i), sign * counts[i]);
  }
}

void LruBooks::NoteTaken(const Moved& taken, std::int64_t left) {
  const std::int64_t total = taken.total();
  if (total == 0) return;
  CountLists(taken.lists, -1);
  CountIsolated(total - taken.file, taken.file);
  mm_.reclaimer->NoteIsolatedPeak(isolated(), left);
}

void LruBooks::NotePutBack(const Moved& back) {
  CountLists(back.lists, 1);
  CountIsolated(back.file - back.total(), -back.file);
}

void LruBooks::NoteFreed(const PageFrame& frame) {
  const bool anon = IsAnon(frame);
  CountIsolated(anon ? -1 : 0, anon ? 0 : -1);
}

void LruBooks::CountIsolated(std::int64_t anon, std::int64_t file) {
  if (anon != 0) mm_.vmstat->Add(zone_, ZoneStat::kNrIsolatedAnon, anon);
  if (file != 0) mm_.vmstat->Add(zone_, ZoneStat::kNrIsolatedFile, file);
  isolated_.fetch_add(anon + file, std::memory_order_relaxed);
  mm_.reclaimer->NoteIsolated(anon + file);
}

std::int64_t LruBooks::Size(LruList list) const { return mm_.vmstat->Exact(zone_, StatOf(list)); }

std::string LruBooks::Compare(LruList list, std::int64_t found) const {
  const std::int64_t counted = Size(list);
  if (counted == found) return {};
  return absl::StrCat("zone ", zone_, " LRU list ", static_cast<int>(list), ": has ", found,
                      " frames and a counter of ", counted);
}

}  // namespace pagestorm::mm
