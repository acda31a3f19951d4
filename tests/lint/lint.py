#!/usr/bin/env python3
"""Checks the rules of the tree that no compiler checks.

    lint.py [ROOT]       reports each violation as file:line: rule: text; exit code 1 if there is one
    lint.py --self-test  runs every rule over a snippet that breaks it and one that does not

The rules look at code alone: comments and the contents of strings are blanked first. A line that a
rule lets through on purpose carries a comment `// lint: <the rule's word>`, where the rule has one,
or stands below such a comment.
"""

import re
import sys
from collections import namedtuple
from pathlib import Path, PurePosixPath

# Which folders a file may include from: core <- numa <- {sched, mm} <- bench.
ARROWS = {
    "core": {"core"},
    "numa": {"core", "numa"},
    "sched": {"core", "numa", "sched"},
    "mm": {"core", "numa", "mm"},
    "bench": {"core", "numa", "sched", "mm", "bench"},
    "tests": {"core", "numa", "sched", "mm", "bench", "tests"},
    "examples": {"core", "numa", "sched", "mm"},
}

# Third-party headers that stay behind named files.
BEHIND = [
    (re.compile(r"hwloc(\.h|/)"), {"numa/topology_hwloc.cc", "core/host_binding.cc"}),
    (re.compile(r"(tbb|oneapi)/"), {"core/executor.cc"}),
]
# Third-party headers that are slow to compile: one .cc in the whole tree, whichever it is.
ONE_SOURCE = [re.compile(r"CLI/"), re.compile(r"toml\+\+/"), re.compile(r"boost/math/")]

# Code that must give the same result from the same seed, on every host.
EMULATED = ("numa/", "sched/", "mm/", "bench/workloads/", "examples/")
FIBERS = ("core/", "numa/", "sched/", "mm/", "bench/", "examples/")
OUTSIDE_CORE = ("numa/", "sched/", "mm/", "bench/", "examples/")

# pattern: what the code must not contain. folders: where. word: what lets a line through, or None.
Rule = namedtuple("Rule", "name folders pattern word why")

RULES = [
    Rule("thread-identity", EMULATED,
         r"\bthread_local\b|\bget_id\s*\(|\bpthread_self\b|\bgettid\b|\bsched_getcpu\b", None,
         "a fiber may wake on another thread: ask core for the current task and CPU"),
    Rule("thread-identity", ("core/", "bench/"),
         r"\bthread_local\b|\bget_id\s*\(|\bpthread_self\b", "never across a switch",
         "the compiler keeps it across a fiber switch"),
    Rule("unordered", EMULATED,
         r"\bstd::unordered_\w+|\babsl::(flat|node)_hash_\w+|<unordered_(map|set)>"
         r'|"absl/container/(flat|node)_hash_', "lookup only",
         "its order of iteration must not reach a result"),
    Rule("distribution", FIBERS,
         r"\bstd::\w+_distribution\b|\bstd::(mt19937|minstd_rand|random_device|default_random_engine)"
         r"|\bstd::(ranges::)?(shuffle|sample)\b|\babsl::(\w*BitGen\w*|Uniform|Bernoulli|Exponential"
         r"|Gaussian|LogUniform|Poisson|Zipf)\b|<random>|\"absl/random/", None,
         "differs between versions and runs: use core/rng.h"),
    Rule("rand", FIBERS, r"(?<![\w.>])[sd]?rand(om|48)?(_r)?\s*\(", None, "use core/rng.h"),
    Rule("host-time", EMULATED,
         r"\b(steady|system|high_resolution|utc|file)_clock\b"
         r"|\b(clock_gettime|gettimeofday|clock_nanosleep|nanosleep)\b|\bsleep_(for|until)\s*\([^)]*chrono"
         r"|\bstd::this_thread::|(?<![\w.>])(std::|::)?(time|clock)\s*\((nullptr|NULL|0|&\w+)?\)"
         r"|<(chrono|ctime)>", None,
         "emulated code has emulated time only: core's Now()"),
    Rule("environment", EMULATED, r"\b(secure_)?getenv\b", None,
         "emulated code is given its configuration"),
    Rule("spinning", OUTSIDE_CORE,
         r"\b_mm_pause\b|\b__builtin_ia32_pause\b|\bsched_yield\b|\bthis_thread::yield\b", None,
         "loops that wait belong into core's locks"),
]

# Where a kernel, a machine, a table or a column has a name: emulated code may print it and must not
# ask for it. What differs between two of them are values.
NAMED = ("numa/", "sched/", "mm/", "bench/workloads/", "bench/emulator/")
RULES += [
    Rule("preset-name", NAMED,
         r"\b(policy|machine|spec|config|table|column|claim|preset|kernel)_?(\(\))?(\.|->)(name|id|label)\b",
         "message only",
         "what differs between two kernels or machines is a value, never a name"),
    Rule("preset-name", NAMED, r'"bench/reproductions/', None,
         "emulated code does not know that it reproduces anything"),
]

# No machine's own places in the tree, in any kind of file.
MACHINE_PATH = re.compile(r"(?<![\w./-])/(home|root|Users|work)/[\w.]")

SOURCE_FOLDERS = ("core", "numa", "sched", "mm", "bench", "tests", "examples")
TEXT_FOLDERS = SOURCE_FOLDERS + ("configs", "docs", "tools", ".ci")
OWN_FILES = {"tests/lint/lint.py"}  # names what it forbids

TOKEN = re.compile(
    r'R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'
    r'|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")')


def blank(text):
    """The text without comments and contents of strings; lines stay where they are."""
    def replace(match):
        token = match.group(0)
        newlines = "\n" * token.count("\n")
        return newlines if token.startswith("/") else '""' + newlines
    return TOKEN.sub(replace, text)


def excused(raw, number, word):
    """Whether the line of this number, or a comment on the line above, says `// lint: <word>`."""
    above = raw[number - 2].strip() if number > 1 else ""
    mark = f"// lint: {word}"
    return mark in raw[number - 1] or above.startswith(mark)


class Linter:
    """Collects violations over files that are given as (path from the root, text)."""

    def __init__(self, exists):
        self.exists = exists  # whether a path from the root is a file of the tree
        self.violations = []  # (path, line, rule, text)
        self.one_source = {pattern: [] for pattern in ONE_SOURCE}

    def report(self, path, line, rule, text):
        self.violations.append((path, line, rule, text))

    def text_file(self, path, text):
        for number, line in enumerate(text.split("\n"), 1):
            if MACHINE_PATH.search(line):
                self.report(path, number, "machine-path", line.strip())

    def source_file(self, path, text):
        self.text_file(path, text)
        raw = text.split("\n")
        # Include lines keep their quotes: blanking would hide what is included.
        code = [line if INCLUDE.match(line) else blanked
                for line, blanked in zip(raw, blank(text).split("\n"))]
        if path.endswith(".h"):
            first = next((line.strip() for line in code if line.strip()), "")
            if first != "#pragma once":
                self.report(path, 1, "pragma-once", "a header starts with #pragma once")
        for number, line in enumerate(code, 1):
            match = INCLUDE.match(line)
            if match:
                self.include(path, number, match.group(1))
            for rule in RULES:
                if not path.startswith(rule.folders) or not re.search(rule.pattern, line):
                    continue
                if rule.word and excused(raw, number, rule.word):
                    continue
                self.report(path, number, rule.name, f"{raw[number - 1].strip()} ({rule.why})")

    def include(self, path, number, included):
        name = included[1:-1]
        for pattern, files in BEHIND:
            if pattern.match(name) and path not in files:
                self.report(path, number, "third-party",
                            f"{included} only in {' and '.join(sorted(files))}")
        for pattern in ONE_SOURCE:
            if pattern.match(name):
                self.one_source[pattern].append((path, number, included))
        folder = name.split("/")[0]
        if folder in ARROWS and "/" in name:
            if included[0] == "<":
                self.report(path, number, "include", f"{included}: our own headers take quotes")
            if folder not in ARROWS[path.split("/")[0]]:
                self.report(path, number, "arrow", f"{path.split('/')[0]}/ includes {included}")
            if not self.exists(name):
                self.report(path, number, "include", f"{included} does not exist")
        elif included[0] == '"' and self.exists(str(PurePosixPath(path).parent / name)):
            self.report(path, number, "include", f"{included}: write the path from the root")

    def finish(self):
        for pattern, places in self.one_source.items():
            files = sorted({path for path, _, _ in places})
            for path, number, included in places:
                if path.endswith(".h") or len(files) > 1:
                    self.report(path, number, "third-party",
                                f"{included} is slow to compile: one .cc only, not {files}")
        return sorted(self.violations)


def lint_tree(root):
    files = [file for file in root.iterdir() if file.is_file()]
    for folder in TEXT_FOLDERS:
        files += [file for file in (root / folder).rglob("*") if file.is_file()]
    linter = Linter(lambda path: (root / path).is_file())
    sources = 0
    for file in sorted(files):
        path = file.relative_to(root).as_posix()
        if path in OWN_FILES or "__pycache__" in path:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a compressed trace, say
        if path.startswith(SOURCE_FOLDERS) and file.suffix in (".h", ".cc"):
            linter.source_file(path, text)
            sources += 1
        else:
            linter.text_file(path, text)
    if sources == 0:
        print(f"lint: no sources under {root}", file=sys.stderr)
        return 2
    violations = linter.finish()
    for path, line, rule, text in violations:
        print(f"{path}:{line}: {rule}: {text}")
    print(f"lint: {sources} sources, {len(violations)} violations")
    return 1 if violations else 0


# (path, text, rules that must object). Each rule appears in both roles.
CASES = [
    ("mm/a.h", "#pragma once\n", []),
    ("mm/a.h", "// Comment first.\n\n#pragma once\n", []),
    ("mm/a.h", "#include <array>\n#pragma once\n", ["pragma-once"]),
    ("mm/a.h", "", ["pragma-once"]),
    ("mm/a.cc", '#include "core/x.h"\n#include "numa/x.h"\n#include "mm/x.h"\n', []),
    ("mm/a.cc", '#include "sched/x.h"\n', ["arrow"]),
    ("sched/a.cc", '#include "mm/x.h"\n', ["arrow"]),
    ("core/a.cc", '#include "numa/x.h"\n', ["arrow"]),
    ("numa/a.cc", '#include "mm/x.h"\n', ["arrow"]),
    ("mm/a.cc", '#include "bench/x.h"\n', ["arrow"]),
    ("mm/a.cc", '#include "tests/x.h"\n', ["arrow"]),
    ("examples/a.cc", '#include "mm/x.h"\n', []),
    ("examples/a.cc", '#include "bench/x.h"\n', ["arrow"]),
    ("bench/a.cc", '#include "mm/x.h"\n#include "sched/x.h"\n', []),
    ("mm/a.cc", '// #include "sched/x.h"\n', []),
    ("mm/a.cc", "#include <core/x.h>\n", ["include"]),
    ("mm/a.cc", '#include "mm/missing.h"\n', ["include"]),
    ("mm/a.cc", '#include "x.h"\n', ["include"]),
    ("numa/topology_hwloc.cc", "#include <hwloc.h>\n", []),
    ("core/host_binding.cc", "#include <hwloc.h>\n", []),
    ("numa/topology.cc", "#include <hwloc.h>\n", ["third-party"]),
    ("tests/numa/a_test.cc", "#include <hwloc/linux.h>\n", ["third-party"]),
    ("core/executor.cc", "#include <tbb/parallel_for.h>\n", []),
    ("core/executor.h", "#pragma once\n#include <tbb/parallel_for.h>\n", ["third-party"]),
    ("mm/a.cc", "#include <oneapi/tbb.h>\n", ["third-party"]),
    ("bench/cli/a.cc", "#include <CLI/CLI.hpp>\n", []),
    ("bench/cli/a.h", "#pragma once\n#include <CLI/CLI.hpp>\n", ["third-party"]),
    ("mm/a.cc", "thread_local int x;\n", ["thread-identity"]),
    ("mm/a.cc", "// no thread_local here\n/* nor\n thread_local */ Log(\"thread_local\");\n", []),
    ("mm/a.cc", "auto id = std::this_thread::get_id();\n", ["thread-identity", "host-time"]),
    ("sched/a.cc", "thread_local int x;  // lint: never across a switch\n", ["thread-identity"]),
    ("core/a.cc", "thread_local int x;\n", ["thread-identity"]),
    ("core/a.cc", "thread_local int x;  // lint: never across a switch\n", []),
    ("core/a.cc", "// lint: never across a switch\nthread_local int x;\n", []),
    ("core/a.cc", "int y;  // lint: never across a switch\nthread_local int x;\n",
     ["thread-identity"]),
    ("core/a.cc", "auto self = pthread_self();\n", ["thread-identity"]),
    ("bench/a.cc", "pthread_self();\n", ["thread-identity"]),
    ("mm/a.cc", "std::unordered_map<int, int> m;\n", ["unordered"]),
    ("mm/a.cc", "std::unordered_map<int, int> m;  // lint: lookup only\n", []),
    ("numa/a.cc", "absl::flat_hash_set<int> s;\n", ["unordered"]),
    ("bench/workloads/a.cc", "absl::node_hash_map<int, int> m;\n", ["unordered"]),
    ("bench/reports/a.cc", "std::unordered_set<int> s;\n", []),
    ("mm/a.cc", "std::map<int, int> m;\n", []),
    ("mm/a.cc", "std::uniform_int_distribution<int> d;\n", ["distribution"]),
    ("mm/a.cc", "#include <random>\n", ["distribution"]),
    ("core/a.cc", "std::mt19937 g;\n", ["distribution"]),
    ("bench/a.cc", "absl::Uniform(gen, 0, 3);\n", ["distribution"]),
    ("bench/a.cc", "std::shuffle(a, b, g);\n", ["distribution"]),
    ("mm/a.cc", "rng.Below(3);\n", []),
    ("mm/a.cc", "int x = rand();\n", ["rand"]),
    ("mm/a.cc", "std::srand(3);\n", ["rand"]),
    ("mm/a.cc", "int x = operand(3) + my.rand();\n", []),
    ("mm/a.cc", "auto t = std::chrono::steady_clock::now();\n", ["host-time"]),
    ("sched/a.cc", "std::chrono::system_clock::now();\n", ["host-time"]),
    ("numa/a.cc", "auto t = time(nullptr);\n", ["host-time"]),
    ("bench/workloads/a.cc", "clock_gettime(CLOCK_MONOTONIC, &t);\n", ["host-time"]),
    ("bench/reports/a.cc", "std::chrono::steady_clock::now();\n", []),
    ("core/a.cc", "std::chrono::steady_clock::now();\n", []),
    ("mm/a.cc", "stats.time(); wait_time(0); Ns time{0};\n", []),
    ("numa/a.cc", 'getenv("HOME");\n', ["environment"]),
    ("bench/cli/a.cc", 'getenv("HOME");\n', []),
    ("mm/a.cc", 'if (mm.policy.name == "2.6.26") return;\n', ["preset-name"]),
    ("bench/workloads/a.cc", "Use(config_.machine.name);\n", ["preset-name"]),
    ("bench/emulator/a.cc", "Print(config.policy.name);  // lint: message only\n", []),
    ("numa/a.cc", "if (spec->name.empty()) return;\n", ["preset-name"]),
    ("sched/a.cc", "Use(table.id);\n", ["preset-name"]),
    ("sched/a.cc", "Use(task.id, zone.name);\n", []),
    ("bench/emulator/a.cc", '#include "bench/reproductions/x.h"\n', ["preset-name"]),
    ("bench/experiments/a.cc", "Print(config.policy.name);\n", []),
    ("mm/a.cc", "_mm_pause();\n", ["spinning"]),
    ("bench/a.cc", "sched_yield();\n", ["spinning"]),
    ("core/a.cc", "_mm_pause();\n", []),
    ("mm/a.cc", 'Open("/home/me/x");\n', ["machine-path"]),
    ("docs/a.md", "see /ro" + "ot/project\n", ["machine-path"]),
    ("docs/a.md", "see /proc/vmstat and tests/wo" + "rk/a, https://x.org/wo" + "rk/a\n", []),
    ("mm/a.cc", "const int n = 1'000'000; thread_local int x; char c = 'a';\n",
     ["thread-identity"]),
    ("mm/a.cc", 'auto s = R"(thread_local " rand())"; int y;\n', []),
]


def self_test():
    wrong = 0
    objected = set()
    tree = {f"{folder}/x.h" for folder in SOURCE_FOLDERS + ("bench/reproductions",)}
    for path, text, expected in CASES:
        linter = Linter(tree.__contains__)
        if path.endswith((".h", ".cc")):
            linter.source_file(path, text)
        else:
            linter.text_file(path, text)
        found = [rule for _, _, rule, _ in linter.finish()]
        objected.update(found)
        if sorted(set(found)) != sorted(expected):
            wrong += 1
            print(f"self-test: {path}: {text!r}: expected {expected}, found {found}")
    # One .cc may include a slow header, two may not.
    linter = Linter(tree.__contains__)
    for path in ("bench/a.cc", "bench/b.cc"):
        linter.source_file(path, "#include <toml++/toml.h>\n")
    if len(linter.finish()) != 2:
        wrong += 1
        print("self-test: a second file that includes toml++ went unnoticed")
    never = {rule.name for rule in RULES} - objected
    if never:
        wrong += 1
        print(f"self-test: no case breaks {sorted(never)}")
    print(f"lint: self-test of {len(CASES) + 1} cases, {wrong} wrong")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    return lint_tree(root)


if __name__ == "__main__":
    sys.exit(main())
