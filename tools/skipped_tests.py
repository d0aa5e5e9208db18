#!/usr/bin/env python3
"""Lists what a test run has skipped, with the reasons that the tests printed: what is skipped has not been run.

    tools/skipped_tests.py build/dev/tests.xml      (of ctest --output-junit; ./dev test calls this)

Exit code 1 if one gave no reason, or, under CI=true, one that is not in EXPECTED: what `./dev setup` brings must be there.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

# Reasons that a machine may have after `./dev setup`.
EXPECTED = [
    r"this system lets nobody have (namespaces|mounts)",  # a container without the right to
    r"root cannot become another user here",
    r"the debugger may not look at programs here",
    r"(PyTorch is not installed|could not import '(torch|snntorch|norse|norse\.torch)')",  # ./dev interop runs these
    r"JAX computes: with \./dev interop|every part alone: with \./dev interop",
    r"the data set \w+ is not installed; \./dev data brings it",
    r"no wheel was built; run \./dev wheel",  # which runs these
    r"sanitizer",
]

# How the kinds of tests say it: GoogleTest, unittest -v, pytest -rs, a script that ends with 77, documents.
REASONS = [
    re.compile(r"^.*: Skipped\n(.+)$", re.M),
    re.compile(r" \.\.\. skipped ['\"](.+)['\"]$", re.M),
    re.compile(r"^SKIPPED \[\d+\] [^:\n]+(?::\d+)?: (.+)$", re.M),
    re.compile(r"^skipped: (.+)$", re.M),
    re.compile(r"^  not run: (line \d+ needs .+)$", re.M),
]


def skips(case):
    """The reasons of one test program: none if all of it ran."""
    text = case.findtext("system-out") or ""
    found = [m for pattern in REASONS for m in pattern.findall(text)]
    if case.find("skipped") is not None and not found:
        return [""]
    return found


def main():
    strict = bool(os.environ.get("CI"))
    listed, wrong = {}, 0
    for case in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        for reason in skips(case):
            listed.setdefault(reason, []).append(case.get("name"))
    for reason, names in sorted(listed.items()):
        unexpected = not reason or (strict and not any(re.search(e, reason) for e in EXPECTED))
        wrong += unexpected
        several = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"{'NOT EXPECTED: ' if unexpected else ''}skipped: {names[0]}{several}: {reason or 'it gave no reason'}")
    print(f"{sum(map(len, listed.values()))} skipped, {wrong} of these reasons not expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
