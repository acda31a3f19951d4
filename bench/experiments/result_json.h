// result.json and host.json. The schema is described in docs/result-json.md; a change that breaks
// readers raises kResultSchema.
#pragma once

#include <string>

#include "bench/experiments/record.h"

namespace pagestorm::bench {

inline constexpr int kResultSchema = 1;

[[nodiscard]] std::string ResultJson(const RunRecord& record);
[[nodiscard]] std::string HostJson(const RunRecord& record);
// Every knob of a configuration with its value, and its sysctls: one JSON object.
[[nodiscard]] std::string ConfigJsonText(const RunConfig& config);

}  // namespace pagestorm::bench
