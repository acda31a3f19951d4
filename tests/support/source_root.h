// Where the tree of this build lies: tests read its configurations and data.
#pragma once

#include <string>

namespace pagestorm {

const std::string& SourceRoot();

}  // namespace pagestorm
