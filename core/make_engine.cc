#include "core/make_engine.h"

#include "core/threads_engine.h"
#include "core/virtual_engine.h"

namespace pagestorm {

std::unique_ptr<Engine> MakeEngine(EngineKind kind, const EngineConfig& config,
                                   Scheduler& scheduler) {
  if (kind == EngineKind::kVirtual) return std::make_unique<VirtualEngine>(config, scheduler);
  return std::make_unique<ThreadsEngine>(config, scheduler);
}

}  // namespace pagestorm
