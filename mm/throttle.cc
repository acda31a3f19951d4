#include "mm/throttle.h"

#include <map>
#include <utility>

#include "core/check.h"
#include "mm/throttle_gate.h"

namespace pagestorm::mm {
namespace {

// Kernels without a gate.
class NoGate final : public Gate {
 public:
  ShrinkResult Enter(Zone&, ScanControl&, Ticket&) override { return ShrinkResult::kOk; }
  void Leave(Zone&, ScanControl&, Ticket&) override {}
};

// Ordered, so that KnownGates() needs no sorting. Written before machines boot, read afterwards.
std::map<std::string, GateFactory, std::less<>>& Registry() {
  static std::map<std::string, GateFactory, std::less<>> registry{
      {"none", [](MemoryManager&) { return std::make_unique<NoGate>(); }},
      {"throttle", [](MemoryManager& mm) { return std::make_unique<ThrottleGate>(mm); }},
  };
  return registry;
}

}  // namespace

void RegisterGate(std::string name, GateFactory factory) {
  PS_CHECK(factory != nullptr, name);
  const bool added = Registry().emplace(name, std::move(factory)).second;
  PS_CHECK(added, "two gates have the same name");
}

std::unique_ptr<Gate> MakeGate(std::string_view name, MemoryManager& mm) {
  const auto found = Registry().find(name);
  return found == Registry().end() ? nullptr : found->second(mm);
}

std::vector<std::string> KnownGates() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : Registry()) names.push_back(name);
  return names;
}

}  // namespace pagestorm::mm
