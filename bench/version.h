// The version of pagestorm, as --version and result.json say it.
#pragma once

namespace pagestorm::bench {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace pagestorm::bench
