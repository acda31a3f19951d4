#include "core/executor.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/host_binding.h"

#if !defined(PS_TSAN)
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace pagestorm {
namespace {

// Runs `work` on `threads` threads, the caller among them, and rethrows what one of them threw.
void OnThreads(int threads, const std::function<void()>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      std::lock_guard guard(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(guarded);
    guarded();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

Executor::Executor(int workers) : workers_(workers > 0 ? workers : HostCores()) {}

void Executor::ParallelFor(std::size_t count, std::size_t grain,
                           const std::function<void(std::size_t, std::size_t)>& body) const {
  PS_CHECK(grain > 0);
  if (count == 0) return;
#if defined(PS_TSAN)
  const std::size_t pieces = (count + grain - 1) / grain;
  Sweep(pieces, [&](std::size_t i) { body(i * grain, std::min(count, (i + 1) * grain)); });
#else
  // More threads than cores help no computation, and TBB would warn of them.
  tbb::task_arena arena(std::min(workers_, HostCores()));
  arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, count, grain),
        [&](const tbb::blocked_range<std::size_t>& range) { body(range.begin(), range.end()); },
        tbb::simple_partitioner());
  });
#endif
}

// Threads of its own in every build: runs are long, are to start in order (the first seeds of a
// sweep report first), and one that waits for the host must not be handed another run meanwhile.
void Executor::Sweep(std::size_t count, const std::function<void(std::size_t)>& task) const {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  const auto threads = static_cast<int>(std::min(count, static_cast<std::size_t>(workers_)));
  if (threads == 0) return;
  OnThreads(threads, [&] {
    try {
      for (std::size_t i = next.fetch_add(1); i < count && !failed; i = next.fetch_add(1)) task(i);
    } catch (...) {
      failed = true;
      throw;
    }
  });
}

}  // namespace pagestorm
