// Work spread over the host's cores: the runs of a sweep, the pages of a large machine at boot.
//
// For independent pieces of host work only. Which thread does which piece, and when, is up to the
// host: a piece must not depend on it, so that any number of workers gives the same results.
// oneTBB inside; plain threads under ThreadSanitizer, which TBB is not instrumented for.
#pragma once

#include <cstddef>
#include <functional>

namespace pagestorm {

class Executor {
 public:
  // workers: threads that work at a time, the caller among them; 0: one for each host core.
  explicit Executor(int workers = 0);

  [[nodiscard]] int workers() const { return workers_; }

  // Calls body(first, last) for pieces that together cover [0, count), each at most `grain` long;
  // returns when all are done. An exception of a piece is thrown here, once the others are done or
  // abandoned.
  void ParallelFor(std::size_t count, std::size_t grain,
                   const std::function<void(std::size_t, std::size_t)>& body) const;

  // Calls task(i) for every i in [0, count), started in that order: whole runs, seconds each.
  void Sweep(std::size_t count, const std::function<void(std::size_t)>& task) const;

 private:
  int workers_;
};

}  // namespace pagestorm
