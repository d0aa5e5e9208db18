#!/usr/bin/env python3
"""Checks what documents, headers and comments say of the sources:

    rules    docs/rules.md has a section for every learning rule of the library, and no other
    paths    every file of ours that a page, a decision, a header or a comment names exists; `src/x.h` (gone) is one that was

    python3 tools/check_docs.py [--root DIR]       exit code 1 if something is wrong
"""

import argparse
import re
import sys
from pathlib import Path

ROW = re.compile(r'RegisterRule\s+\w+\(\s*\{\.name = "([^"]+)"')

TOPS = "bench|cmake|data|docs|examples|fuzz|include|python|src|tests|tools"
SUFFIXES = "h|c|cpp|cu|py|pyi|md|cmake|sh|json|dict|in|gz|txt"
# A path from the root, or below src/ or include/ as sources include it.
PATH = re.compile(rf"(?<![\w/.$@>}}-])((?:[\w-]+/)+[\w-]+\.(?:{SUFFIXES}))(?![\w/*])(`?\s+\(gone\))?")
PLACEHOLDERS = {"x", "NNNN-title", "axes", "facts", "bodies", "file", "NN_x", "case", "name"}  # "a test is tests/<folder>/x_test.cpp"
PROSE = ["*.md", "docs/**/*.md", "include/**/*.h", "src/**/*", "python/src/*", "python/etrace/**/*.py", "tests/support/*"]
CHANGELOG = "CHANGELOG.md"  # says what was


def comments(path, text):
    """(line number, text) of what is not code: pages whole, comments of sources."""
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix == ".md":
            yield number, line
        elif path.suffix in (".h", ".cpp", ".c") and "//" in line:
            yield number, line.partition("//")[2]
        elif path.suffix == ".py" and "#" in line:
            yield number, line.partition("#")[2]


def homes(root):
    """What a path may be relative to, by its first folder."""
    found = {top: [root] for top in TOPS.split("|") if (root / top).is_dir()}
    for base in (root / "src", root / "include", root / "tests", root / "examples", root / "python"):
        for folder in base.iterdir() if base.is_dir() else []:
            if folder.is_dir():
                found.setdefault(folder.name, []).append(base)
    return found


def lost_paths(root):
    """(lines of what names files that are gone, how many paths were looked at)"""
    lost, looked, known = [], 0, homes(root)
    for path in sorted({p for pattern in PROSE for p in root.glob(pattern) if p.is_file() and p.name != CHANGELOG}):
        if path.suffix not in (".md", ".h", ".cpp", ".c", ".py"):
            continue
        for number, line in comments(path, path.read_text("utf-8", "replace")):
            for name, gone in PATH.findall(line):
                first = name.partition("/")[0]
                if first not in known or gone or Path(name).stem.partition("_test")[0] in PLACEHOLDERS:
                    continue
                looked += 1
                if not any((base / name).exists() for base in [*known[first], path.parent]):
                    lost.append(f"{path.relative_to(root)}:{number}: there is no {name}")
    return lost, looked


def wrong_rules(root):
    page = (root / "docs/rules.md").read_text("utf-8")
    rules = {m[1] for p in sorted((root / "src/learn/rules").glob("*.cpp")) for m in ROW.finditer(p.read_text("utf-8"))}
    shown = set(re.findall(r"^## (.+)$", page, re.M))
    anew = ("; write it anew: ETRACE_UPDATE_GOLDEN=1 build/dev/tests/etrace_test_learn --gtest_filter='RulesPage.*'")
    wrong = [f"docs/rules.md says nothing of {r}{anew}" for r in sorted(rules - shown)]
    return wrong + [f"docs/rules.md: {r} is no rule of the library{anew}" for r in sorted(shown - rules)], len(rules)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    (wrong, rules), (lost, paths) = wrong_rules(root), lost_paths(root)
    for line in wrong + lost:
        print(line, file=sys.stderr)
    print(f"check_docs: {rules} learning rules, {paths} names of files")
    return 1 if wrong or lost or not rules else 0


if __name__ == "__main__":
    sys.exit(main())
