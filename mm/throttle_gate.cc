#include "mm/throttle_gate.h"

#include <algorithm>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mm/builtin_gates.h"
#include "mm/page_alloc.h"
#include "mm/relaxed.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

constexpr std::size_t kHoldersShown = 8;
constexpr Ns kHz = kSecond;
constexpr Ns kHz10{kSecond.n / 10};

std::int64_t NodesWithMemory(const MemoryManager& mm) {
  return std::count_if(mm.nodes.begin(), mm.nodes.end(),
                       [](const auto& node) { return !node->zones.empty(); });
}

std::int64_t FirstLimit(const MemoryManager& mm) {
  switch (mm.policy.throttle.limit_rule) {
    case ThrottleLimitRule::kFixed:
      return mm.policy.throttle.limit;
    case ThrottleLimitRule::kTwicePerNode:
      return 2 * NodesWithMemory(mm);
    case ThrottleLimitRule::kCpusQuarterPlusOne:
      return static_cast<std::int64_t>(mm.engine.online_cpus()) / 4 + 1;
  }
  return mm.policy.throttle.limit;
}

std::size_t PlacesFor(const MemoryManager& mm) {
  switch (mm.policy.throttle.scope) {
    case ThrottleScope::kOff:
      return 0;
    case ThrottleScope::kGlobal:
      return 1;
    case ThrottleScope::kZone:
      return mm.zones.size();
    case ThrottleScope::kNode:
      return mm.nodes.size();
  }
  return 0;
}

}  // namespace

ThrottleGate::ThrottleGate(MemoryManager& mm)
    : mm_(mm),
      policy_(mm.policy.throttle),
      limit_(FirstLimit(mm)),
      hotplug_(mm.engine, "cpu hotplug") {
  for (std::size_t i = 0; i < PlacesFor(mm); ++i) {
    places_.emplace_back(mm.engine, static_cast<std::int64_t>(i));
  }
}

std::size_t ThrottleGate::PlaceOf(const Zone& zone) const {
  return policy_.scope == ThrottleScope::kNode ? static_cast<std::size_t>(zone.node_position)
                                               : zone.ordinal;
}

bool ThrottleGate::Gated(const ScanControl& sc) const {
  if (sc.caller == ReclaimCaller::kKswapd && !policy_.gate_kswapd) return false;
  if (sc.caller == ReclaimCaller::kZoneReclaim && !policy_.gate_zone_reclaim) return false;
  if (sc.caller == ReclaimCaller::kMemcg && !policy_.gate_memcg) return false;
  if (policy_.gfp_exempt && !HasIoAndFs(sc.gfp)) return false;
  return !policy_.recursion_guard || (Current().flags & PF_RECLAIMING) == 0;
}

bool ThrottleGate::TryTake(Place& place) {
  const std::int64_t limit = limit_.load(std::memory_order_relaxed);
  std::int64_t count = place.reclaimers.load(std::memory_order_relaxed);
  do {
    if (count == limit) return false;
  } while (!place.reclaimers.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel));
  RaiseTo(place.reclaimers_max, count + 1);
  return true;
}

Ns ThrottleGate::TakeTicket(std::size_t number, Ticket& ticket) {
  Place& place = places_[number];
  ticket.place = number;
  if (policy_.recursion_guard) {
    Current().flags |= PF_RECLAIMING;  // before sleeping, as posted
    ticket.marked = true;
  }
  const Ns start = Now();
  TaskId holder{};
  {
    std::lock_guard guard(place.mu);
    if (!place.holders.empty()) holder = place.holders.front();
  }
  const auto take = [&] {
    if (!TryTake(place)) {
      RaiseTo(place.waiters_max, place.queue.WaitersRacy());
      return false;
    }
    ticket.held = true;
    return true;
  };
  place.queue.Wait(take, {.holder = holder});
  std::lock_guard guard(place.mu);
  place.holders.push_back(Current().id);
  return Now() - start;
}

void ThrottleGate::GiveBack(Ticket& ticket) {
  if (ticket.marked) Current().flags &= ~PF_RECLAIMING;
  ticket.marked = false;
  if (!ticket.held) return;
  ticket.held = false;
  Place& place = places_[ticket.place];
  {
    std::lock_guard guard(place.mu);
    const auto mine = std::find(place.holders.begin(), place.holders.end(), Current().id);
    if (mine != place.holders.end()) place.holders.erase(mine);
  }
  place.reclaimers.fetch_sub(1, std::memory_order_acq_rel);
  switch (policy_.wake) {
    case ThrottleWake::kAll:
      place.queue.WakeAll();
      break;
    case ThrottleWake::kOneAsPosted:
      place.queue.WakeOne();  // no sleeper is exclusive, so this wakes all of them, too
      break;
    case ThrottleWake::kOneStrictFifo:
      place.queue.WakeOldest();
      break;
    case ThrottleWake::kOneStrictLifo:
      place.queue.WakeNewest();
      break;
  }
}

ShrinkResult ThrottleGate::Enter(Zone& zone, ScanControl& sc, Ticket& ticket) {
  const bool around_zones =
      policy_.scope == ThrottleScope::kZone || policy_.scope == ThrottleScope::kNode;
  if (!around_zones || !Gated(sc)) return ShrinkResult::kOk;
  const std::size_t number = PlaceOf(zone);
  const Ns waited = TakeTicket(number, ticket);
  if (!MayCutOff(sc)) return ShrinkResult::kOk;
  return CutOff(zone, sc, waited, places_[number]) ? ShrinkResult::kAgain : ShrinkResult::kOk;
}

void ThrottleGate::Leave(Zone&, ScanControl&, Ticket& ticket) { GiveBack(ticket); }

bool ThrottleGate::MayCutOff(const ScanControl& sc) const {
  if (policy_.may_cut_off_gate && !sc.may_cut_off) return false;
  if (sc.is_kswapd()) return false;
  return sc.global() || policy_.memcg_cutoff;
}

int ThrottleGate::CutoffClassOf(const ScanControl& sc, int first_zone) const {
  switch (policy_.cutoff_class) {
    case CutoffClass::kFirstZone:
      return first_zone;
    case CutoffClass::kHighest:
      return mm_.layout().count - 1;
    case CutoffClass::kRequest:
      break;
  }
  return mm_.allocator->GfpZone(sc.gfp);
}

bool ThrottleGate::WatermarkPasses(const Zone& zone, const ScanControl& sc, int classzone) {
  checks_.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t mark = policy_.cutoff_mark_mult * zone.watermark.high;
  return mm_.allocator->WatermarkOk(zone, sc.order, mark, classzone, 0);
}

std::uint64_t ThrottleGate::ReadPgfree() {
  const auto sum = [this] {
    return static_cast<std::uint64_t>(mm_.vmstat->Event(VmEvent::kPgfree));
  };
  switch (policy_.pgfree_reader) {
    case PgfreeReader::kDisabled:
      return 0;
    case PgfreeReader::kUnlocked:
      return sum();
    case PgfreeReader::kHotplugReadLocked:
      break;
  }
  hotplug_.lock_shared();
  const std::uint64_t freed = sum();
  hotplug_.unlock_shared();
  return freed;
}

// Unsigned on purpose: a sum that went backwards looks like a huge number of frees, as in the
// kernel.
bool ThrottleGate::PgfreeReached(Zone& zone, ScanControl& sc, std::uint64_t& freed) {
  freed = ReadPgfree();
  return freed - sc.was_freed >=
         CutoffThreshold(sc.order, zone.watermark.high, policy_.cutoff_mult);
}

bool ThrottleGate::CutOff(Zone& zone, ScanControl& sc, Ns waited, Place& place) {
  std::uint64_t freed = 0;
  switch (policy_.cutoff) {
    case ThrottleCutoff::kOff:
      return false;
    case ThrottleCutoff::kPgfree:
      if (!PgfreeReached(zone, sc, freed)) return false;
      break;
    case ThrottleCutoff::kWallHz:
    case ThrottleCutoff::kWallHz10:
      if (waited <= (policy_.cutoff == ThrottleCutoff::kWallHz ? kHz : kHz10)) return false;
      if (policy_.v4_last_checked == LastChecked::kPerZone) {
        const std::int64_t last = place.last_checked.load(std::memory_order_relaxed);
        if (Now().n - last <= kHz10.n) return false;
        place.last_checked.store(Now().n, std::memory_order_relaxed);
      }
      break;
  }
  if (WatermarkPasses(zone, sc, CutoffClassOf(sc, zone.index))) {
    cut_offs_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (policy_.cutoff == ThrottleCutoff::kPgfree) sc.was_freed = freed;
  return false;
}

ShrinkResult ThrottleGate::EnterDirect(std::span<Zone* const> zonelist, ScanControl& sc,
                                       Ticket& ticket) {
  sc.started = sc.last_checked = Now();
  sc.may_cut_off = sc.global() || policy_.memcg_cutoff;
  if (policy_.cutoff == ThrottleCutoff::kPgfree && sc.may_cut_off) sc.was_freed = ReadPgfree();
  if (policy_.scope != ThrottleScope::kGlobal || !Gated(sc)) return ShrinkResult::kOk;
  const Ns waited = TakeTicket(0, ticket);
  const Ns limit = policy_.cutoff == ThrottleCutoff::kWallHz10 ? kHz10 : kHz;
  if (policy_.cutoff == ThrottleCutoff::kOff || waited <= limit || !MayCutOff(sc))
    return ShrinkResult::kOk;
  const int classzone = CutoffClassOf(sc, zonelist.empty() ? 0 : zonelist.front()->index);
  for (const Zone* zone : zonelist) {
    if (!WatermarkPasses(*zone, sc, classzone)) continue;
    cut_offs_.fetch_add(1, std::memory_order_relaxed);
    return ShrinkResult::kAgain;
  }
  return ShrinkResult::kOk;
}

void ThrottleGate::LeaveDirect(ScanControl&, Ticket& ticket) { GiveBack(ticket); }

bool ThrottleGate::MayLeaveEarly(std::span<Zone* const> zonelist, ScanControl& sc) {
  const Ns now = Now();
  const bool v2 = policy_.between_priority_check == BetweenPriorityCheck::kV2;
  if (policy_.between_priority_check == BetweenPriorityCheck::kOff || zonelist.empty())
    return false;
  if (v2 && now - sc.started <= kHz) return false;
  if (now - sc.last_checked <= (v2 ? kHz10 : kHz)) return false;
  sc.last_checked = now;
  const int classzone = v2 ? zonelist.front()->index : mm_.allocator->GfpZone(sc.gfp);
  return std::any_of(zonelist.begin(), zonelist.end(),
                     [&](const Zone* zone) { return WatermarkPasses(*zone, sc, classzone); });
}

bool ThrottleGate::SetKnob(std::string_view name, std::int64_t value) {
  if (absl::StartsWith(std::string(name), "vm.")) name.remove_prefix(3);
  if (policy_.sysctl.empty() || name != policy_.sysctl) return false;
  limit_.store(value, std::memory_order_relaxed);  // wakes nobody, as in the kernel
  return true;
}

std::string ThrottleGate::Describe() const {
  std::string text;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const std::int64_t waiters = place.queue.WaitersRacy();
    const std::int64_t held = place.reclaimers.load(std::memory_order_relaxed);
    if (waiters == 0 && held == 0) continue;
    absl::StrAppend(&text, "reclaim throttle ", i, ": ", held, " tickets out, limit ", limit(),
                    ", ", waiters, " tasks wait");
    std::lock_guard guard(place.mu);
    for (std::size_t k = 0; k < std::min(place.holders.size(), kHoldersShown); ++k) {
      absl::StrAppend(&text, k == 0 ? "; held by task " : ", ", place.holders[k].n);
    }
    if (place.holders.size() > kHoldersShown) absl::StrAppend(&text, ", ...");
    text += '\n';
  }
  return text;
}

Gate::Peak ThrottleGate::peak() const {
  Peak peak{.cut_offs = cut_offs_.load(std::memory_order_relaxed),
            .checks = checks_.load(std::memory_order_relaxed)};
  for (const Place& place : places_) {
    peak.tickets = std::max(peak.tickets, place.reclaimers_max.load(std::memory_order_relaxed));
    peak.waiters = std::max(peak.waiters, place.waiters_max.load(std::memory_order_relaxed));
  }
  return peak;
}

GateType ThrottleGateType() {
  return {"throttle", [](MemoryManager& mm) { return std::make_unique<ThrottleGate>(mm); }};
}

}  // namespace pagestorm::mm
