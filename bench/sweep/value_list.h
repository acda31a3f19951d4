// Lists as a sweep's command line has them: values of a knob, and seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pagestorm::bench {

// "1,2,-1" -> its values, blanks around them removed. A comma inside quotes, brackets or braces
// belongs to a value: [64,64],[128,128] are two, "a,b" is one.
//   what: put in front of the complaint: "--set throttle.limit".
absl::StatusOr<std::vector<std::string>> SplitValues(const std::string& text,
                                                     const std::string& what);

// "10": ten seeds from `first` on; "3-7"; "1,5,9-12". In the order given, none twice, at least one.
absl::StatusOr<std::vector<std::uint64_t>> ParseSeeds(const std::string& text, std::uint64_t first);

}  // namespace pagestorm::bench
