# Reads ctest's LastTest.log and prints "PASSED FAILED": the test cases of each Catch2 program, and
# one for each test that is no Catch2 program. A program that fails without naming a test case (it
# crashed, timed out, or a sanitizer objected at its end) counts as one failed.

/ Test: / { in_test = 1; catch2 = 0; p = 0; f = 0 }

# All tests passed (760114 assertions in 10 test cases)
/^All tests passed \(/ { catch2 = 1; p = $(NF - 2) }
# test cases: 10 | 8 passed | 1 failed | 1 failed as expected
/^test cases: / {
  catch2 = 1
  p = 0
  f = 0
  count = split($0, parts, /\|/)
  for (i = 2; i <= count; ++i) {
    split(parts[i], words, " ")
    if (parts[i] ~ /passed/ || parts[i] ~ /as expected/) p += words[1]
    else if (parts[i] ~ /failed/) f += words[1]
  }
}
/^No tests ran/ { catch2 = 1 }

/^Test (Passed|Failed|Timeout|time)/ && !/^Test time/ && in_test {
  if (/^Test Passed/) {
    if (!catch2) p = 1
  } else if (f == 0) {
    f = 1
  }
  passed += p
  failed += f
  in_test = 0
}

# The log ended, or ctest was killed, in the middle of a test.
END {
  if (in_test) ++failed
  printf "%d %d\n", passed, failed
}
