#include "numa/crash_guard.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace pagestorm::numa {
namespace {

[[noreturn]] void RunChild(const std::function<int()>& trial, unsigned timeout_seconds) {
  const int null = open("/dev/null", O_RDWR);
  if (null >= 0) {
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
  }
  // A crash is an expected outcome here: no core file, and default handlers even where the parent
  // or a sanitizer installed its own.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int sig : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    std::signal(sig, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  alarm(timeout_seconds);
  _exit(trial());  // no destructors, no atexit handlers: they belong to the parent
}

}  // namespace

TrialResult TryInChild(const std::function<int()>& trial, unsigned timeout_seconds) {
  const pid_t child = fork();
  if (child < 0) return {};
  if (child == 0) RunChild(trial, timeout_seconds);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return {};
  }
  using Outcome = TrialResult::Outcome;
  if (WIFEXITED(status)) return {Outcome::kReturned, WEXITSTATUS(status), 0};
  const int sig = WTERMSIG(status);
  return {sig == SIGALRM ? Outcome::kTimedOut : Outcome::kCrashed, 0, sig};
}

}  // namespace pagestorm::numa
