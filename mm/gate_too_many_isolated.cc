// 2.6.32's answer to the false OOM: reclaimers wait while more pages are isolated than inactive.
// Source: spec throttle-2.6.26 5.1; kswapd-4.11 4.7.
#include "mm/gate_too_many_isolated.h"

#include <atomic>

#include "mm/builtin_gates.h"
#include "mm/vmstat.h"
#include "mm/writeback.h"
#include "mm/zone.h"

namespace pagestorm::mm {
namespace {

constexpr char kTooManyIsolated[] = "too_many_isolated";

std::int64_t Sum(const MemoryManager& mm, const Zone& zone, bool of_node, ZoneStat stat) {
  if (!of_node) return mm.vmstat->Read(zone.ordinal, stat);
  std::int64_t sum = 0;
  for (const Zone* other : mm.nodes[static_cast<std::size_t>(zone.node_position)]->zones) {
    sum += mm.vmstat->Read(other->ordinal, stat);
  }
  return sum;
}

class TooManyIsolatedGateObject final : public Gate {
 public:
  explicit TooManyIsolatedGateObject(MemoryManager& mm)
      : mm_(mm),
        bound_{.of_node = GateKnobOf(mm.policy, kTooManyIsolated, "of_node") != 0,
               .divisor = GateKnobOf(mm.policy, kTooManyIsolated, "divisor")},
        once_(GateKnobOf(mm.policy, kTooManyIsolated, "once") != 0) {}

  std::optional<std::int64_t> BeforeIsolation(Zone& zone, LruList list, ScanControl& sc) override {
    if (sc.is_kswapd() || !sc.global()) return std::nullopt;
    bool napped = false;
    while (TooManyIsolated(mm_, zone, list, sc.gfp, bound_)) {
      if (once_ && napped) {
        given_up_.fetch_add(1, std::memory_order_relaxed);
        return 0;
      }
      naps_.fetch_add(1, std::memory_order_relaxed);
      mm_.writeback->CongestionWait(IoDirection::kWrite, kCongestionNap);
      napped = true;
      // Somebody who is about to die must not be sent to the OOM killer.
      if (Current().fatal_signal.load(std::memory_order_acquire)) return kSwapClusterMax;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool Shows(ZoneStat stat) const override {
    return stat == ZoneStat::kNrIsolatedAnon || stat == ZoneStat::kNrIsolatedFile;
  }
  [[nodiscard]] Numbers numbers() const override {
    Numbers numbers{{"isolated_naps", naps_.load(std::memory_order_relaxed)}};
    if (once_) numbers.emplace_back("isolated_given_up", given_up_.load(std::memory_order_relaxed));
    return numbers;
  }

 private:
  MemoryManager& mm_;
  const IsolationBound bound_;
  const bool once_;
  std::atomic<std::int64_t> naps_{0};
  std::atomic<std::int64_t> given_up_{0};
};

}  // namespace

bool TooManyIsolated(const MemoryManager& mm, const Zone& zone, LruList list, Gfp gfp,
                     const IsolationBound& bound) {
  const auto sum = [&](ZoneStat stat) { return Sum(mm, zone, bound.of_node, stat); };
  // One pair of lists holds both kinds, so that both count.
  const bool split = mm.policy.reclaim.split_lru;
  const bool file = split && IsFile(list);
  const std::int64_t inactive = sum(file ? ZoneStat::kNrInactiveFile : ZoneStat::kNrInactive);
  std::int64_t isolated = sum(file ? ZoneStat::kNrIsolatedFile : ZoneStat::kNrIsolatedAnon);
  if (!split) isolated += sum(ZoneStat::kNrIsolatedFile);
  // Whoever cannot do I/O or enter the file system may isolate more than those who wait for it.
  return isolated > (HasIoAndFs(gfp) ? inactive / bound.divisor : inactive);
}

GateType TooManyIsolatedGate() {
  return {kTooManyIsolated,
          [](MemoryManager& mm) { return std::make_unique<TooManyIsolatedGateObject>(mm); },
          {{.name = "divisor",
            .value = 1,
            .low = 1,
            .high = 1024,
            .doc = "requests with IO and FS wait while isolated > inactive / divisor (4.11: 8)"},
           {.name = "of_node",
            .is_switch = true,
            .doc = "count over all zones of the node (4.11), not in the zone alone"},
           {.name = "once",
            .is_switch = true,
            .doc = "one nap a call, then report nothing reclaimed (4.14), instead of until room"}}};
}

}  // namespace pagestorm::mm
