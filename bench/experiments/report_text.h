// What `pagestorm run` prints about a run: emulated figures only.
#pragma once

#include <string>

#include "bench/experiments/record.h"

namespace pagestorm::bench {

[[nodiscard]] std::string ReportText(const RunRecord& record);

}  // namespace pagestorm::bench
