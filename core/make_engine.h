// Either engine, chosen at run time.
#pragma once

#include <memory>

#include "core/engine.h"

namespace pagestorm {

[[nodiscard]] std::unique_ptr<Engine> MakeEngine(EngineKind kind, const EngineConfig& config,
                                                 Scheduler& scheduler);

}  // namespace pagestorm
