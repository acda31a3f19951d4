// The built program, called as a user calls it.
#pragma once

#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace pagestorm::bench {

struct Output {
  int code = -1;
  std::string text;  // stdout and stderr
};

// nullptr: not run by ctest; the test is then skipped.
inline const char* Program() { return std::getenv("PAGESTORM_PROGRAM"); }

inline Output Call(const std::string& arguments) {
  const std::string command =
      "timeout 60 " + std::string(Program()) + " " + arguments + " 2>&1 </dev/null";
  Output output;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.text.append(buffer.data(), n);
  }
  const int status = ::pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

}  // namespace pagestorm::bench
