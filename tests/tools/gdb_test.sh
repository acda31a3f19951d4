#!/usr/bin/env bash
# tools/gdb/pagestorm-gdb.py finds the tasks of a stalled machine of either engine and unwinds a
# suspended one down to its entry. Argument: ps_core_tests. Skipped (77) where gdb cannot debug.
set -euo pipefail
binary=$1

if ! command -v gdb > /dev/null; then
  echo "skipped: no gdb on this host"
  exit 77
fi
if ! gdb -nx -batch -ex 'python print("py" + "thon")' 2> /dev/null | grep -q '^python$'; then
  echo "skipped: this gdb has no Python"
  exit 77
fi
output=$(timeout 120 gdb -nx -batch \
  -ex 'set pagination off' -ex 'set width 0' -ex 'set disable-randomization off' \
  -ex 'set debuginfod enabled off' \
  -ex 'source tools/gdb/pagestorm-gdb.py' \
  -ex 'break pagestorm::VirtualEngine::BeginStopping' \
  -ex 'break pagestorm::ThreadsEngine::BeginStopping' -ex 'run' \
  -ex 'pagestorm-tasks' -ex 'pagestorm-bt 1' -ex 'continue' \
  -ex 'pagestorm-tasks' -ex 'pagestorm-bt 1' -ex 'delete' -ex 'continue' \
  --args "$binary" 'Engine: waiting for what nobody will do*' 2>&1) || true
if ! grep -qE 'Breakpoint 1(\.[0-9]+)?, ' <<< "$output"; then
  if grep -qi 'ptrace\|not permitted\|could not trace' <<< "$output"; then
    echo "skipped: this host does not let gdb trace a program"
    exit 77
  fi
  printf '%s\n' "$output"
  echo "gdb never saw the stall"
  exit 1
fi

expect() {  # how often, what
  local found
  found=$(grep -c -- "$2" <<< "$output") || true
  if [[ $found -ne $1 ]]; then
    printf '%s\n' "$output"
    echo "expected $1 lines with '$2', found $found"
    exit 1
  fi
}
# Each line twice: once for each engine. Task 1 is described by pagestorm-bt as well.
expect 4 ' 1 holder .*slept .*waits on a wake that never comes 3'
expect 2 ' 2 victim .*slept .*waits on the big mutex 0 (held by task 1)'
expect 2 '^#.*pagestorm::Engine::TaskMain '
expect 2 '^#.*Engine::Block '
# The program went on unharmed with its own registers.
expect 1 'All tests passed'
echo "passed"
