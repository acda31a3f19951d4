// A table as a picture: SVG without scripts, legible on light and dark pages.
#pragma once

#include <string>

#include "bench/reproductions/reproduce.h"

namespace pagestorm::bench::reproductions {

// Published dashed, emulated solid with the 95 % interval as a band, values on a logarithmic axis.
// A table about OOM rates shows rates instead, on a linear one. Times of a shortened length are
// drawn multiplied by its time_factor, and the chart says so.
[[nodiscard]] std::string ReproductionSvg(const Reproduction& reproduction);

}  // namespace pagestorm::bench::reproductions
