// Where configuration files are found: a name like "2.6.26" is a file in one of the roots.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace pagestorm::bench {

// Directories that hold kernels/, machines/ and workloads/, in order of preference.
using ConfigRoots = std::vector<std::string>;

// $PAGESTORM_CONFIGS, then configs/ beside the executable and above it (a build in the tree), then
// `built_from`, then an installation's share/pagestorm/configs. Only those that exist.
ConfigRoots DefaultConfigRoots(const std::string& built_from);

// The file of a name ("2.6.26") in <root>/<folder>/<name>.toml; a name with a slash or ending in
// .toml is a path and is returned as it is. NotFound with one line that lists what there is.
absl::StatusOr<std::string> FindConfig(const ConfigRoots& roots, std::string_view folder,
                                       const std::string& name);

// Names available in a folder, sorted, without duplicates.
std::vector<std::string> KnownConfigs(const ConfigRoots& roots, std::string_view folder);

}  // namespace pagestorm::bench
