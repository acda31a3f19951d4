#include "bench/experiments/control_pipe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace pagestorm::bench {
namespace {

absl::Status Complain(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--control ", path, ": ", why));
}

}  // namespace

absl::StatusOr<ControlPipe> ControlPipe::Create(const std::string& path) {
  struct stat there {};
  if (::mkfifo(path.c_str(), 0666) != 0) {
    if (errno != EEXIST) return Complain(path, std::strerror(errno));
    if (::lstat(path.c_str(), &there) != 0 || !S_ISFIFO(there.st_mode)) {
      return Complain(path, "exists and is no FIFO");
    }
  }
  // Open for writing, too: so there is always a writer, and never an end of file.
  const int file = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return Complain(path, std::strerror(errno));
  return ControlPipe(path, file);
}

ControlPipe::ControlPipe(ControlPipe&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      pending_(std::move(other.pending_)) {}

ControlPipe::~ControlPipe() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(path_.c_str());
}

std::vector<std::string> ControlPipe::TakeLines() {
  constexpr std::size_t kLongest = 4096;  // more without an end of line is no line
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(file_, buffer.data(), buffer.size());
    if (n <= 0) break;
    pending_.append(buffer.data(), static_cast<std::size_t>(n));
  }
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line(absl::StripAsciiWhitespace(pending_.substr(begin, end - begin)));
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  pending_.erase(0, begin);
  if (pending_.size() > kLongest) {
    lines.push_back(pending_.substr(0, 40) + "...");
    pending_.clear();
  }
  return lines;
}

}  // namespace pagestorm::bench
