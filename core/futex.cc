#include "core/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace pagestorm {
namespace {

std::uint32_t* Address(std::atomic<std::uint32_t>& word) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  return reinterpret_cast<std::uint32_t*>(&word);
}

}  // namespace

HostNs HostNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
}

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, HostNs until) {
  timespec deadline{};
  timespec* timeout = nullptr;
  if (until < kHostForever) {
    deadline.tv_sec = until.n / 1'000'000'000;
    deadline.tv_nsec = until.n % 1'000'000'000;
    timeout = &deadline;
  }
  // The bit-set form takes an absolute time of the monotonic clock. Errors (EAGAIN, EINTR,
  // ETIMEDOUT) are all "look again".
  syscall(SYS_futex, Address(word), FUTEX_WAIT_BITSET_PRIVATE, expected, timeout, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void FutexWake(std::atomic<std::uint32_t>& word, int threads) {
  syscall(SYS_futex, Address(word), FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

}  // namespace pagestorm
