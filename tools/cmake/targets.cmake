# The four kinds of target. Files are listed by hand, relative to the folder that calls.
#
#   ps_library(<name> HDRS <files> SRCS <files> DEPS <targets> [APART])
#       Static library ps_<name>, alias pagestorm::<name>. DEPS are public. HDRS are compiled alone
#       by the target all_verify_interface_header_sets. Presets with CMAKE_UNITY_BUILD compile the
#       SRCS several at a time, which is faster; APART: not these, whose files use the same names for
#       different things.
#   ps_test(<name> SRCS <files> DEPS <targets> [SERIAL])
#       Catch2 binary ps_<name>_tests with the shared main of tests/support, run by ctest from the
#       root of the tree as <name> (all but the tag [long]) and <name>.long (label `long`, the tag
#       [long] alone). SERIAL: nothing else runs beside it. The environment has PAGESTORM_PROGRAM, the
#       program of the same build.
#   ps_benchmark(<name> SRCS <files> DEPS <targets>)
#       Google Benchmark binary ps_<name>_bench. Built with the tests, run by hand.
#   ps_program(<name> SRCS <files> DEPS <targets>)
#       Program <name>.
# All binaries land in <build>/bin.

function(ps_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "APART" "" "HDRS;SRCS;DEPS")
  ps_no_leftovers(ps_library ${name} ${arg_UNPARSED_ARGUMENTS})
  add_library(ps_${name} STATIC)
  add_library(pagestorm::${name} ALIAS ps_${name})
  target_sources(ps_${name}
    PRIVATE ${arg_SRCS}
    PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HDRS})
  # A library of headers alone has no file from which CMake could tell its language.
  set_target_properties(ps_${name} PROPERTIES LINKER_LANGUAGE CXX)
  if(arg_APART)
    set_target_properties(ps_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  target_link_libraries(ps_${name} PUBLIC ps_options Threads::Threads ${arg_DEPS})
endfunction()

function(ps_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "" "SRCS;DEPS")
  ps_no_leftovers(ps_test ${name} ${arg_UNPARSED_ARGUMENTS})
  add_executable(ps_${name}_tests ${arg_SRCS})
  # Helpers of different test files often have the same name.
  set_target_properties(ps_${name}_tests PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(ps_${name}_tests PRIVATE ps_options ps_test_main ${arg_DEPS})
  ps_catch_filter(filter "~[long]")
  ps_register_test(${name} ps_${name}_tests "${filter}" "" 300 ${arg_SERIAL})
  ps_catch_filter(filter "[long]")
  ps_register_test(${name}.long ps_${name}_tests "${filter}" long 1800 ${arg_SERIAL})
endfunction()

function(ps_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SRCS;DEPS")
  ps_no_leftovers(ps_benchmark ${name} ${arg_UNPARSED_ARGUMENTS})
  if(NOT BUILD_TESTING OR PS_SANITIZE)  # nobody measures an instrumented program
    return()
  endif()
  add_executable(ps_${name}_bench ${arg_SRCS})
  target_link_libraries(ps_${name}_bench
    PRIVATE ps_options benchmark::benchmark benchmark::benchmark_main ${arg_DEPS})
endfunction()

function(ps_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SRCS;DEPS")
  ps_no_leftovers(ps_program ${name} ${arg_UNPARSED_ARGUMENTS})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE ps_options ${arg_DEPS})
endfunction()


# --- helpers of the above ------------------------------------------------------------------------

function(ps_no_leftovers function name)
  if(ARGN)
    message(FATAL_ERROR "${function}(${name}): unknown arguments: ${ARGN}")
  endif()
endfunction()

# What Catch2 is asked to run: `condition`, and in a build with PS_TEST_FILTER also one of its tags.
# Catch2 reads "[a]~[long],[b]~[long]" as (a and not long) or (b and not long).
function(ps_catch_filter result condition)
  set(filter "${condition}")
  if(PS_TEST_FILTER)
    string(REPLACE "," ";" filter "${PS_TEST_FILTER}")
    list(TRANSFORM filter APPEND "${condition}")
    list(JOIN filter "," filter)
  endif()
  set(${result} "${filter}" PARENT_SCOPE)
endfunction()

function(ps_register_test test binary filter label timeout_s serial)
  add_test(NAME ${test}
    COMMAND ${PS_TEST_LAUNCHER} $<TARGET_FILE:${binary}> "${filter}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set(environment
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=second_deadlock_stack=1:halt_on_error=1")
  if(TARGET pagestorm)
    list(APPEND environment "PAGESTORM_PROGRAM=$<TARGET_FILE:pagestorm>")
  endif()
  set_tests_properties(${test} PROPERTIES
    ENVIRONMENT "${environment}" LABELS "${label}" TIMEOUT ${timeout_s} RUN_SERIAL ${serial})
endfunction()

# clang 14's sanitizers do not find their shadow memory where the kernel randomizes addresses with
# more than 28 bits, so their tests run without randomization wherever the host permits that.
set(PS_TEST_LAUNCHER "")
find_program(PS_SETARCH setarch)
if(PS_SANITIZE AND PS_SETARCH)
  execute_process(COMMAND "${PS_SETARCH}" --addr-no-randomize true
    RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
  if(NOT refused)
    set(PS_TEST_LAUNCHER "${PS_SETARCH}" --addr-no-randomize)
  endif()
endif()
