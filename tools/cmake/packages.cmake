# Third-party packages, all from Debian 12 (tools/install-deps). A folder that uses one names its
# target in DEPS: absl::..., Boost::context, Boost::headers, TBB::tbb, hwloc::hwloc, fmt::fmt,
# nlohmann_json::nlohmann_json, tomlplusplus::tomlplusplus, CLI11::CLI11.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Boost REQUIRED COMPONENTS context)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)

find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET GLOBAL hwloc)  # ships no CMake package
add_library(hwloc::hwloc ALIAS PkgConfig::hwloc)

if(BUILD_TESTING)
  find_package(Catch2 2 REQUIRED)
  find_package(benchmark REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)  # tests/lint
endif()
