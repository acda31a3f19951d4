#!/bin/bash
# tools/count-tests.awk: what each kind of entry in ctest's log counts for.
set -u
wrong=0

# entry 'output' 'verdict': one test in the form of LastTest.log.
entry() {
  printf '1/9 Testing: x\n1/9 Test: x\nCommand: "x"\nOutput:\n%s\n<end of output>\n' "$1"
  printf 'Test time =   0.02 sec\n---\n%s\n"x" end time: now\n\n' "$2"
}
expect() {
  local counted
  counted=$(awk -f tools/count-tests.awk)
  if [[ $counted != "$1" ]]; then
    echo "$2: counted '$counted', expected '$1'"
    wrong=1
  fi
}

entry 'All tests passed (760114 assertions in 10 test cases)' 'Test Passed.' |
  expect "10 0" "all passed"
entry 'All tests passed (1 assertion in 1 test case)' 'Test Passed.' | expect "1 0" "singular"
entry 'test cases: 10 | 8 passed | 2 failed' 'Test Failed.' | expect "8 2" "two failed"
entry 'test cases:  3 |  3 failed' 'Test Failed.' | expect "0 3" "all failed"
entry 'test cases: 3 | 2 passed | 1 failed as expected' 'Test Passed.' |
  expect "3 0" "failed as expected"
entry 'No tests ran' 'Test Passed.' | expect "0 0" "no test case has the tag"
entry 'lint: 30 sources, 0 violations' 'Test Passed.' | expect "1 0" "no Catch2 program"
entry 'mm/a.cc:1: arrow' 'Test Failed.' | expect "0 1" "no Catch2 program, failed"
entry 'Segmentation fault' 'Test Failed.' | expect "0 1" "crashed before a summary"
entry 'All tests passed (5 assertions in 2 test cases)' 'Test Failed.' |
  expect "2 1" "a leak reported after the summary"
entry 'still running' 'Test Timeout.' | expect "0 1" "timed out"
{
  entry 'All tests passed (5 assertions in 2 test cases)' 'Test Passed.'
  entry 'test cases: 4 | 3 passed | 1 failed' 'Test Failed.'
  entry 'fine' 'Test Passed.'
} | expect "6 1" "several add up"
printf '1/9 Testing: x\n1/9 Test: x\nOutput:\n' | expect "0 1" "log that breaks off"
: | expect "0 0" "empty log"
exit "$wrong"
