#!/usr/bin/env python3
"""The tables of docs/choosing-a-rule.md are what the commands above them print.

    tools/rule_tables.py --etrace build/bin/etrace            writes them anew
    tools/rule_tables.py --etrace build/bin/etrace --check    measures a sample of the rules and compares traces and closeness
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/choosing-a-rule.md"
SECTION = re.compile(r"^`etrace (rules [^`]*--markdown)`\n\n(.*?)(?=\n#|\Z)", re.MULTILINE | re.DOTALL)
SAMPLE = ["D_RTRL", "pp_prop"]
TIME = "µs per step"
ASIDE = {TIME, "working"}  # what depends on the machine and on how a program is planned


def printed(program, command, extra=()):
    done = subprocess.run([program, *shlex.split(command), *extra], stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "ETRACE_NUM_THREADS": "1"})
    return done.stdout.strip() + "\n"


def without_times(text):
    """Times are of the machine that asks: the page leaves them out."""
    lines = text.splitlines()
    at = next(line for line in lines if line.startswith("|")).split("|").index(f" {TIME} ")
    cut = [line.split("|") for line in lines]
    return "\n".join("|".join(c[:at] + c[at + 1:]) if len(c) > at else "|".join(c) for c in cut) + "\n"


def rows(text):
    """{(rule, window): {column: value}}; without bold, which depends on the other rows."""
    lines = [[c.strip().strip("*") for c in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    head, body = lines[0], lines[2:]
    return {(r[0], r[1]): {k: v for k, v in zip(head, r) if k not in ASIDE} for r in body}


def alike(said, found):
    """Spikes are thresholds: on another kind of CPU the last digits may differ."""
    try:
        return abs(float(said) - float(found)) <= 0.01 + 0.02 * abs(float(found))
    except ValueError:
        return said == found


def check(program, text):
    wrong, compared = [], 0
    for section in SECTION.finditer(text):
        said = rows(section[2])
        found = rows(printed(program, section[1], [w for rule in SAMPLE for w in ("--only", rule)]))
        for key, row in found.items():
            compared += 1
            if key not in said or not all(alike(said[key][k], row[k]) for k in row):
                wrong.append(f"`etrace {section[1]}`, {key}: the page says {said.get(key)}, measured {row}")
    print("\n".join(wrong), file=sys.stderr)
    print(f"rule_tables: {compared} rows compared, {len(wrong)} differ"
          + ("; write the page anew: tools/rule_tables.py --etrace build/bin/etrace" if wrong else ""))
    return 1 if wrong or not compared else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--etrace", required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    if args.check:
        return check(args.etrace, text)
    PAGE.write_text(SECTION.sub(lambda m: f"`etrace {m[1]}`\n\n{without_times(printed(args.etrace, m[1]))}", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
