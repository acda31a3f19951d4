#include "core/raw_lock.h"

#include <sched.h>

namespace pagestorm {

void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void RawLock::LockSlow() {
  for (;;) {
    for (int spin = 0; spin < 100; ++spin) {
      if (!held_.load(std::memory_order_relaxed) &&
          !held_.exchange(true, std::memory_order_acquire)) {
        return;
      }
      CpuRelax();
    }
    sched_yield();
  }
}

}  // namespace pagestorm
