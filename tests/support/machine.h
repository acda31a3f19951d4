// A bare machine for tests of core/: either engine over the FIFO scheduler.
#pragma once

#include <memory>

#include "core/fifo_scheduler.h"
#include "core/make_engine.h"

namespace pagestorm::testing {

inline EngineConfig Cpus(int count, std::uint64_t seed = 1) {
  EngineConfig config;
  for (int i = 0; i < count; ++i) config.cpus.push_back({.node = {0}});
  config.seed = seed;
  return config;
}

struct Machine {
  Machine(EngineKind kind, const EngineConfig& config, Ns slice = kMillisecond)
      : scheduler(kind, slice), owned(MakeEngine(kind, config, scheduler)), engine(*owned) {}

  FifoScheduler scheduler;
  std::unique_ptr<Engine> owned;
  Engine& engine;
};

}  // namespace pagestorm::testing
