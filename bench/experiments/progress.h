// A run's progress on stderr: one line that is rewritten on a terminal, a plain line now and then
// elsewhere. Host-side; has no effect on the emulated machine.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

namespace pagestorm::bench {

class Progress {
 public:
  enum class Mode { kAuto, kOff };
  // label: what runs, put in front of each line.
  Progress(Mode mode, std::string label);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Called very often; asks `describe` for a line when one is due.
  //   permille: 0..1000 of the work done; an estimate of the host time left follows from it.
  void Poll(int permille, const std::function<std::string()>& describe);

 private:
  using Clock = std::chrono::steady_clock;

  const bool off_;
  const bool terminal_;
  const std::string label_;
  const Clock::time_point start_;
  Clock::time_point next_;
  bool shown_ = false;
};

}  // namespace pagestorm::bench
