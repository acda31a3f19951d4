#include "mm/dmesg.h"

#include <mutex>

#include "absl/strings/str_format.h"

namespace pagestorm::mm {

void Dmesg::Print(std::string_view text) {
  const std::int64_t now = Now().n;
  std::lock_guard guard(lock_);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines_.emplace_back(now, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

bool Dmesg::Ratelimit() {
  constexpr std::int64_t kInterval = 5 * kSecond.n;
  constexpr int kBurst = 10;
  const std::int64_t now = Now().n;
  std::int64_t suppressed = 0;
  {
    std::lock_guard guard(lock_);
    if (printed_ == 0 || now - window_began_ > kInterval) {
      window_began_ = now;
      printed_ = 0;
    }
    if (printed_ == kBurst) {
      ++suppressed_;
      return false;
    }
    ++printed_;
    suppressed = std::exchange(suppressed_, 0);
  }
  if (suppressed > 0) Print(absl::StrFormat("printk: %d messages suppressed.", suppressed));
  return true;
}

std::string Dmesg::Text() const {
  std::lock_guard guard(lock_);
  std::string text;
  for (const auto& [ns, line] : lines_) {
    absl::StrAppendFormat(&text, "[%5d.%06d] %s\n", ns / kSecond.n, ns % kSecond.n / 1000, line);
  }
  return text;
}

}  // namespace pagestorm::mm
