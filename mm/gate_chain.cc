#include "mm/gate_chain.h"

#include <algorithm>

namespace pagestorm::mm {

ShrinkResult GateChain::Enter(Zone& zone, ScanControl& sc, Ticket& ticket) {
  ticket.parts.reserve(gates_.size());
  for (const auto& gate : gates_) {
    // Before it is entered: also what Cancelled cuts short is left again.
    Ticket& part = ticket.parts.emplace_back();
    if (gate->Enter(zone, sc, part) == ShrinkResult::kAgain) return ShrinkResult::kAgain;
  }
  return ShrinkResult::kOk;
}

void GateChain::Leave(Zone& zone, ScanControl& sc, Ticket& ticket) {
  for (std::size_t i = ticket.parts.size(); i-- > 0;) gates_[i]->Leave(zone, sc, ticket.parts[i]);
  ticket.parts.clear();
}

std::optional<std::int64_t> GateChain::BeforeIsolation(Zone& zone, LruList list, ScanControl& sc) {
  for (const auto& gate : gates_) {
    if (const auto instead = gate->BeforeIsolation(zone, list, sc)) return instead;
  }
  return std::nullopt;
}

void GateChain::AfterPages(Zone& zone, LruList list, ScanControl& sc) {
  for (const auto& gate : gates_) gate->AfterPages(zone, list, sc);
}

void GateChain::AfterScan(Zone& zone, const ScanControl& sc, std::int64_t reclaimed) {
  for (const auto& gate : gates_) gate->AfterScan(zone, sc, reclaimed);
}

ShrinkResult GateChain::EnterDirect(std::span<Zone* const> zonelist, ScanControl& sc,
                                    Ticket& ticket) {
  ticket.parts.reserve(gates_.size());
  for (const auto& gate : gates_) {
    Ticket& part = ticket.parts.emplace_back();
    if (gate->EnterDirect(zonelist, sc, part) == ShrinkResult::kAgain) return ShrinkResult::kAgain;
  }
  return ShrinkResult::kOk;
}

void GateChain::LeaveDirect(ScanControl& sc, Ticket& ticket) {
  for (std::size_t i = ticket.parts.size(); i-- > 0;) gates_[i]->LeaveDirect(sc, ticket.parts[i]);
  ticket.parts.clear();
}

bool GateChain::MayLeaveEarly(std::span<Zone* const> zonelist, ScanControl& sc) {
  return std::any_of(gates_.begin(), gates_.end(),
                     [&](const auto& gate) { return gate->MayLeaveEarly(zonelist, sc); });
}

bool GateChain::Nap(std::span<Zone* const> zonelist, int priority, const ScanControl& sc) {
  return std::any_of(gates_.begin(), gates_.end(),
                     [&](const auto& gate) { return gate->Nap(zonelist, priority, sc); });
}

bool GateChain::RetryNap(Zone& preferred) {
  return std::any_of(gates_.begin(), gates_.end(),
                     [&](const auto& gate) { return gate->RetryNap(preferred); });
}

void GateChain::AfterKswapdPass(PgData& node) {
  for (const auto& gate : gates_) gate->AfterKswapdPass(node);
}

void GateChain::BeforeKswapdSleeps(PgData& node) {
  for (const auto& gate : gates_) gate->BeforeKswapdSleeps(node);
}

bool GateChain::kswapd_accumulates() const {
  return std::any_of(gates_.begin(), gates_.end(),
                     [](const auto& gate) { return gate->kswapd_accumulates(); });
}

void GateChain::NoteWritten(Zone& zone) {
  for (const auto& gate : gates_) gate->NoteWritten(zone);
}

bool GateChain::SetKnob(std::string_view name, std::int64_t value) {
  return std::any_of(gates_.begin(), gates_.end(),
                     [&](const auto& gate) { return gate->SetKnob(name, value); });
}

bool GateChain::Shows(ZoneStat stat) const {
  return std::any_of(gates_.begin(), gates_.end(),
                     [stat](const auto& gate) { return gate->Shows(stat); });
}

bool GateChain::Shows(VmEvent event) const {
  return std::any_of(gates_.begin(), gates_.end(),
                     [event](const auto& gate) { return gate->Shows(event); });
}

std::string GateChain::Describe() const {
  std::string text;
  for (const auto& gate : gates_) text += gate->Describe();
  return text;
}

Gate::Peak GateChain::peak() const {
  Peak all;
  for (const auto& gate : gates_) {
    const Peak one = gate->peak();
    all.tickets = std::max(all.tickets, one.tickets);
    all.waiters = std::max(all.waiters, one.waiters);
    all.cut_offs += one.cut_offs;
    all.checks += one.checks;
  }
  return all;
}

Gate::Numbers GateChain::numbers() const {
  Numbers all;
  for (const auto& gate : gates_) {
    for (auto& number : gate->numbers()) all.push_back(std::move(number));
  }
  return all;
}

}  // namespace pagestorm::mm
