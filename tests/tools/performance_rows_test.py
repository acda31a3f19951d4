#!/usr/bin/env python3
"""Every row and floor of tools/performance.toml names a benchmark that exists.

usage: performance_rows_test.py FOLDER_OF_PROGRAMS. Mutation tried: a row's benchmark renamed.
"""

import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    folder = pathlib.Path(sys.argv[1])
    with open(ROOT / "tools" / "performance.toml", "rb") as file:
        spec = tomllib.load(file)
    entries = spec["floor"] + spec["row"]
    missing = []
    for program in sorted({entry["program"] for entry in entries}):
        listed = subprocess.run([folder / program, "--benchmark_list_tests"], capture_output=True,
                                text=True, check=True).stdout.split("\n")
        missing += [f"{program}: {entry['benchmark']}" for entry in entries
                    if entry["program"] == program and entry["benchmark"] not in listed]
    known = {floor["id"] for floor in spec["floor"]}
    missing += [f"row \"{row['what']}\": floor {name}" for row in spec["row"] for name in row["floor"]
                if name not in known]
    for line in missing:
        print(f"missing: {line}")
    print(f"{len(entries)} entries, {len(missing)} missing")
    return 1 if missing or len(entries) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
