// Reading TOML. The only place that knows the TOML library.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "bench/config/value.h"

namespace pagestorm::bench {

// The file's content as a table. NotFound or InvalidArgument with one line: file, line, what is
// wrong.
absl::StatusOr<Value> ReadTomlFile(const std::string& path);
// The same from text; `name` stands for the file in messages.
absl::StatusOr<Value> ParseToml(std::string_view text, const std::string& name);

}  // namespace pagestorm::bench
