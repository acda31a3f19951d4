// Assertions that stay on: PS_CHECK in every build, PS_DCHECK in debug builds only.
//
// A failed check is a programming error of pagestorm, never bad input (that is an absl::Status and
// exit code 2). It prints file, line, condition and an optional message to stderr, and aborts.
#pragma once

#include <string_view>

namespace pagestorm {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message = {});

}  // namespace pagestorm

// PS_CHECK(condition) or PS_CHECK(condition, "message"); one condition a check.
#define PS_CHECK(condition, ...)                     \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::pagestorm::CheckFailed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__))

#ifdef NDEBUG
#define PS_DCHECK(condition, ...) static_cast<void>(0)
#else
#define PS_DCHECK(condition, ...) PS_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
