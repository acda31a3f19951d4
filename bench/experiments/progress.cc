#include "bench/experiments/progress.h"

#include <unistd.h>

#include <utility>

#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{200};
constexpr std::chrono::seconds kPlainPeriod{10};

}  // namespace

Progress::Progress(Mode mode, std::string label)
    : off_(mode == Mode::kOff),
      terminal_(::isatty(STDERR_FILENO) == 1),
      label_(std::move(label)),
      start_(Clock::now()),
      next_(start_ + (terminal_ ? Clock::duration(kTerminalPeriod) : kPlainPeriod)) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::Poll(int permille, const std::function<std::string()>& describe) {
  if (off_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? Clock::duration(kTerminalPeriod) : kPlainPeriod);
  const double spent = std::chrono::duration<double>(now - start_).count();
  std::string line = fmt::format("{} {}.{} %", label_, permille / 10, permille % 10);
  if (permille >= 10) {
    line += fmt::format(", about {:.0f} s left", spent * (1000 - permille) / permille);
  }
  line += ", " + describe();
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace pagestorm::bench
