#!/bin/bash
# tools/install-deps: installs what is missing and only that, says nothing where nothing is missing,
# and explains a refusal. apt-get, dpkg-query and sudo are stand-ins: this test installs nothing.
set -u
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
wrong=0

stand_in() {
  printf '#!/bin/bash\n%s\n' "$2" >"$scratch/$1"
  chmod +x "$scratch/$1"
}
stand_in sudo '"$@"'
# Everything is installed except what MISSING names.
stand_in dpkg-query 'for p in "${@:4}"; do
  [[ " $MISSING " == *" $p "* ]] || echo "$p installed"; done'
stand_in apt-get 'echo "$@" >>"$APT_LOG"; [[ " $* " != *" $REFUSED "* ]] || { echo why; exit 100; }'

# run: puts exit code, output and the calls of apt-get into variables.
run() {
  : >"$scratch/apt"
  status=0
  output=$(env PATH="$scratch:$PATH" APT_LOG="$scratch/apt" MISSING="${missing-}" \
    REFUSED="${refused-}" PAGESTORM_SKIP_INSTALL="${skip-0}" tools/install-deps 2>&1) || status=$?
  calls=$(<"$scratch/apt")
}
check() {
  if ! eval "[[ $2 ]]"; then
    echo "$1: status=$status output='$output' calls='$calls'"
    wrong=1
  fi
}

skip=1 missing="cmake" run
check "switched off" '$status == 0 && -z $output && -z $calls'

if [[ $(. /etc/os-release && echo "$ID $VERSION_ID") != "debian 12" ]]; then
  run
  check "another system" '$status == 1 && $output == *"not \"debian 12\""* && -z $calls'
  exit "$wrong"
fi

run
check "nothing missing" '$status == 0 && -z $output && -z $calls'

missing="gdb libtbb-dev" run
check "two missing" '$status == 0 && $calls == *update*$'"'\n'"'*install*"libtbb-dev gdb"'
check "two missing, no others" '$calls != *cmake*'

missing="gdb" refused=update run
check "no network" '$status == 1 && $output == *why* && $output == *"missing: gdb"*'
check "no network, stops there" '$calls != *" install "*'
exit "$wrong"
