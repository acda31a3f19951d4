// Which generation of mmtests' reports a table is laid out as. Source: spec
// workloads-and-reports 3.
#pragma once

#include <cstdint>

namespace pagestorm::bench {

enum class Compat : std::uint8_t {
  k2013,     // the NUMA balancing series
  k2017,     // the series about kswapd
  kCurrent,  // of today
};

struct Style {
  Compat compat = Compat::kCurrent;
  // What these reports did by mistake (formats that slip to another row, two digits after "rc"),
  // for comparison with published tables byte by byte.
  bool quirks = false;
};

}  // namespace pagestorm::bench
