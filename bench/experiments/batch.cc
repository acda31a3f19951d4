#include "bench/experiments/batch.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "bench/experiments/run.h"
#include "core/executor.h"

namespace pagestorm::bench {

void RunBatch(std::size_t count, const std::function<RunConfig(std::size_t)>& configure,
              const BatchOptions& options, const BatchDone& done) {
  std::mutex mu;  // one call of `done` at a time
  std::vector<std::size_t> alone;
  const auto set = [](const std::atomic<bool>* flag) { return flag != nullptr && flag->load(); };
  const auto stopped = [&] { return set(options.interrupted) || set(options.abandoned); };
  const auto run = [&](std::size_t index, const RunConfig& config) {
    RunOptions one{.interrupted = options.interrupted};
    if (options.progress) {
      one.on_permille = [&options, index](int permille) { options.progress(index, permille); };
    }
    auto record = ExecuteRun(config, one);
    const std::lock_guard lock(mu);
    done(index, std::move(record));
  };
  Executor(options.workers).Sweep(count, [&](std::size_t index) {
    if (stopped()) return;
    const RunConfig config = configure(index);
    if (config.engine.kind == EngineKind::kVirtual) return run(index, config);
    const std::lock_guard lock(mu);
    alone.push_back(index);
  });
  std::sort(alone.begin(), alone.end());
  for (const std::size_t index : alone) {
    if (!stopped()) run(index, configure(index));
  }
}

}  // namespace pagestorm::bench
