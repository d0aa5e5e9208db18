#!/usr/bin/env python3
"""Checks that documents written from rows know every row of the library: docs/rules.md every learning rule.

    python3 tools/check_docs.py [--root DIR]       exit code 1 if one is missing
"""

import argparse
import re
import sys
from pathlib import Path

ROW = re.compile(r'RegisterRule\s+\w+\(\s*\{\.name = "([^"]+)"')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    page = (root / "docs/rules.md").read_text(encoding="utf-8")
    rules = [m.group(1) for p in sorted((root / "src/learn/rules").glob("*.cpp")) for m in ROW.finditer(p.read_text("utf-8"))]
    missing = [r for r in rules if f"\n## {r}\n" not in page]
    if missing:
        print(f"docs/rules.md says nothing of {', '.join(missing)}; write it anew:\n"
              "    ETRACE_UPDATE_GOLDEN=1 build/dev/tests/etrace_test_learn --gtest_filter='RulesPage.*'", file=sys.stderr)
        return 1
    print(f"check_docs: {len(rules)} learning rules")
    return 0 if rules else 1


if __name__ == "__main__":
    sys.exit(main())
