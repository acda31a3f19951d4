# ps_options: the language, the warnings and the sanitizer of everything that pagestorm compiles.

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)  # target all_verify_interface_header_sets
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

set(PS_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
set(PS_TEST_FILTER "" CACHE STRING "Catch2 tags, separated by commas, that ctest is limited to")

# Both only save time, and neither is needed: ccache when compiling, lld when linking.
find_program(PS_CCACHE ccache)
if(PS_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PS_CCACHE}")
endif()
find_program(PS_LLD ld.lld)

add_library(ps_options INTERFACE)
target_compile_features(ps_options INTERFACE cxx_std_20)
target_include_directories(ps_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(ps_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Wextra-semi -Werror
  # Results must be the same bytes on every compiler: no fused multiply-add where the CPU has one.
  -ffp-contract=off
  # A failed check names "mm/zone.cc", wherever the tree was built.
  "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(ps_options INTERFACE
    -Wthread-safety -Wthread-safety-beta)
endif()
if(PS_LLD)
  target_link_options(ps_options INTERFACE -fuse-ld=lld)
endif()

# Fibers announce their switches to a sanitizer, and the executor avoids TBB (which is not
# instrumented) under TSan: both look at these macros, since g++ and clang have different ones.
if(PS_SANITIZE)
  if(PS_SANITIZE STREQUAL "address,undefined")
    target_compile_definitions(ps_options INTERFACE PS_ASAN=1)
  elseif(PS_SANITIZE STREQUAL "thread")
    target_compile_definitions(ps_options INTERFACE PS_TSAN=1)
  else()
    message(FATAL_ERROR "PS_SANITIZE = \"${PS_SANITIZE}\": allowed are \"address,undefined\", "
                        "\"thread\" and the empty string")
  endif()
  target_compile_options(ps_options INTERFACE
    -fsanitize=${PS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ps_options INTERFACE -fsanitize=${PS_SANITIZE})
endif()
