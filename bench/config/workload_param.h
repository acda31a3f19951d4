// What a configuration knows of a workload: its parameters, and the machine they are checked
// against.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace pagestorm::bench {

// One parameter of a workload, for parsing, --help and config.toml. All are integers or one of
// `words`.
struct WorkloadParam {
  std::string key;     // "groups"; in a config file [workload] groups = 125
  std::string help;    // one line, with the unit
  std::int64_t value;  // default, then the value in force
  std::int64_t min;
  std::int64_t max;
  std::vector<std::string> words{};  // if not empty, value is an index into it: "process", "thread"
};

// The value of the parameter `key`; 0 if there is none of that name.
[[nodiscard]] inline std::int64_t ParamValue(const std::vector<WorkloadParam>& params,
                                             std::string_view key) {
  for (const WorkloadParam& param : params) {
    if (param.key == key) return param.value;
  }
  return 0;
}

struct MachineFacts {  // what a workload may know about its machine before it boots
  Pages memory;        // present pages
  PageShift page_shift;
  int online_cpus = 0;
  Pages swap;
};

}  // namespace pagestorm::bench
