// Several gates one behind the other: throttle.gate = "too_many_isolated+pfmemalloc".
//
// A caller passes them in order and gives back in reverse order what it took. The first that ends a
// visit, answers for a scan or deals with a nap does so for the chain; everything else reaches all.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mm/throttle.h"

namespace pagestorm::mm {

class GateChain final : public Gate {
 public:
  explicit GateChain(std::vector<std::unique_ptr<Gate>> gates) : gates_(std::move(gates)) {}

  ShrinkResult Enter(Zone& zone, ScanControl& sc, Ticket& ticket) override;
  void Leave(Zone& zone, ScanControl& sc, Ticket& ticket) override;
  std::optional<std::int64_t> BeforeIsolation(Zone& zone, LruList list, ScanControl& sc) override;
  void AfterPages(Zone& zone, LruList list, ScanControl& sc) override;
  void AfterScan(Zone& zone, const ScanControl& sc, std::int64_t reclaimed) override;
  ShrinkResult EnterDirect(std::span<Zone* const> zonelist, ScanControl& sc,
                           Ticket& ticket) override;
  void LeaveDirect(ScanControl& sc, Ticket& ticket) override;
  bool MayLeaveEarly(std::span<Zone* const> zonelist, ScanControl& sc) override;
  bool Nap(std::span<Zone* const> zonelist, int priority, const ScanControl& sc) override;
  bool RetryNap(Zone& preferred) override;
  void AfterKswapdPass(PgData& node) override;
  void BeforeKswapdSleeps(PgData& node) override;
  [[nodiscard]] bool kswapd_accumulates() const override;
  void NoteWritten(Zone& zone) override;
  bool SetKnob(std::string_view name, std::int64_t value) override;
  [[nodiscard]] bool Shows(ZoneStat stat) const override;
  [[nodiscard]] bool Shows(VmEvent event) const override;
  [[nodiscard]] std::string Describe() const override;
  [[nodiscard]] Peak peak() const override;
  [[nodiscard]] Numbers numbers() const override;

 private:
  const std::vector<std::unique_ptr<Gate>> gates_;
};

}  // namespace pagestorm::mm
