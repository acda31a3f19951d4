#include "tests/support/source_root.h"

namespace pagestorm {

const std::string& SourceRoot() {
  static const std::string root = PS_SOURCE_ROOT;
  return root;
}

}  // namespace pagestorm
