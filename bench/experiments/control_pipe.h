// A FIFO in the host's file system through which somebody talks to a run under way: one line, one
// kernel parameter.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pagestorm::bench {

class ControlPipe {
 public:
  // Makes the FIFO, or takes one that is there already. InvalidArgument, one line: something else
  // is, or it cannot be made.
  static absl::StatusOr<ControlPipe> Create(const std::string& path);
  ControlPipe(ControlPipe&& other) noexcept;
  ControlPipe& operator=(ControlPipe&&) = delete;
  ~ControlPipe();  // removes it

  // The lines that have come since the last call, without blanks around them; comments (#) and
  // empty lines are left out. Never waits. The start of a line waits for its end.
  std::vector<std::string> TakeLines();

 private:
  ControlPipe(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_ = -1;
  std::string pending_;
};

}  // namespace pagestorm::bench
