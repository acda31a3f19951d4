#!/bin/bash
# tools/check-determinism: accepts programs that leave the same bytes, and notices each way of not
# doing so. The programs are scripts that write a run directory.
set -u
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
wrong=0

# program NAME 'body': $out is the run directory that --out names.
program() {
  {
    echo '#!/bin/bash'
    echo 'while (($#)); do [[ $1 == --out ]] && out=$2; shift; done; mkdir -p "$out/proc"'
    echo 'echo "{}" >"$out/result.json"; echo 1 >"$out/proc/vmstat"'
    echo 'echo "host $RANDOM" >"$out/host.json"'
    echo "$2"
  } >"$scratch/$1"
  chmod +x "$scratch/$1"
}
program good ''
program also_good '# another file, the same bytes'
program other_byte 'echo 2 >"$out/proc/vmstat"'
program extra_file 'echo >"$out/dmesg"'
program missing_file 'rm "$out/proc/vmstat"'
program other_exit 'exit 3'
program no_result 'rm "$out/result.json"'
program moody 'echo "$RANDOM$RANDOM" >"$out/proc/vmstat"'

expect() {
  local expected=$1 status=0
  shift
  tools/check-determinism "${@/#/$scratch/}" >"$scratch/log" 2>&1 || status=$?
  if ((status != expected)); then
    echo "check-determinism $*: exit code $status, expected $expected"
    cat "$scratch/log"
    wrong=1
  fi
}
expect 0 good also_good
expect 0 good  # compared with itself
expect 1 good other_byte
expect 1 good also_good extra_file
expect 1 good missing_file
expect 1 good other_exit
expect 1 good no_result
expect 1 moody  # differs from its own first run
expect 2 good no_such_program
exit "$wrong"
