// A RunConfig as the text of a configuration file in which every value is spelled out.
#pragma once

#include <string>

#include "bench/config/run_config.h"

namespace pagestorm::bench {

// `pagestorm run` of the result repeats the run.
//   topology: what machine.topology says there: the run directory's copy, or the original source.
[[nodiscard]] std::string EffectiveToml(const RunConfig& config, const std::string& topology);

}  // namespace pagestorm::bench
