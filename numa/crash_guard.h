// A trial run in a forked child, for third-party code that a damaged file can crash.
#pragma once

#include <functional>
#include <string>

namespace pagestorm::numa {

struct TrialResult {
  enum class Outcome { kReturned, kCrashed, kTimedOut, kNotTried };
  Outcome outcome = Outcome::kNotTried;  // kNotTried: the host could not fork
  int exit_code = 0;                     // kReturned: what `trial` returned, 0..255
  int signal = 0;                        // kCrashed
};

// Runs `trial` in a child process whose stdout and stderr are discarded, and waits for it.
//   timeout_seconds: after which the child is ended.
// Nothing that the child does reaches this process. `trial` must not start threads nor wait for
// locks that another thread of this process may hold. Blocks until the child has ended.
TrialResult TryInChild(const std::function<int()>& trial, unsigned timeout_seconds);

}  // namespace pagestorm::numa
