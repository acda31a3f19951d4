// What a table owes to its machine: Reproduction::varied beside the table itself, for the reports.
#pragma once

#include <string>
#include <vector>

#include "bench/reproductions/reproduce.h"

namespace pagestorm::bench::reproductions {

// The claims and the first metric of every cell, one column a variation; the first row names them.
// Empty if nothing was varied.
using Grid = std::vector<std::vector<std::string>>;
[[nodiscard]] Grid SensitivityGrid(const Reproduction& reproduction);

}  // namespace pagestorm::bench::reproductions
