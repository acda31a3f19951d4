// What a table owes to its machine: the same runs with the disk at half and twice its speed and
// with a percent less and more memory.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/reproductions/reproduce.h"

namespace pagestorm::bench::reproductions {

// Runs the table once more for each variation and stores the results in reproduction.varied. Stops
// at the first that is interrupted, and the whole is then partial. Errors as Reproduce().
absl::Status RunVariations(Reproduction& reproduction, const ReproduceOptions& options,
                           const LoadContext& context);

// The claims and the first metric of every cell, one column a variation; the first row names them.
// Empty if nothing was varied.
using Grid = std::vector<std::vector<std::string>>;
[[nodiscard]] Grid SensitivityGrid(const Reproduction& reproduction);

}  // namespace pagestorm::bench::reproductions
