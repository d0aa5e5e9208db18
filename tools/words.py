#!/usr/bin/env python3
"""What `etrace explain` and `etrace verify` say of the reference models and of the built-in ones, before a change and
after it.

    python3 tools/words.py record build/dev/bin/etrace before.txt [--jobs N] [--only TEXT]
    python3 tools/words.py compare before.txt after.txt [--most N]      exit code 1 where words differ

Numbers of equations are left out of the comparison: passes may add some. Some three thousand runs take a minute and a
half on one core."""

import argparse
import difflib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPLAIN = [
    [], ["--scope", "coupled"], ["--scope", "snap2"], ["--compat", "braintrace"], ["--composite"],
    ["--scope", "coupled", "--compat", "braintrace"], ["--scope", "snap3", "--compat", "braintrace"],
]  # fmt: skip
RULES = ["D_RTRL", "pp_prop", "OSTLRecurrent", "SnAp", "UORO", "EProp", "DNI"]
WINDOWS = ["--steps", "6", "--window", "2", "--window", "6"]


def models(program):
    """Arguments that name a model: every reference file, every built-in one, alone and with three samples."""
    text = subprocess.run([program, "explain", "--help"], capture_output=True, text=True, check=True).stdout
    built_in = re.search(r"a built-in model: (.*?)\n\n", text, re.S).group(1)
    names = [n.strip() for n in re.sub(r"\s+", " ", built_in).split(",")]
    files = [[str(p.relative_to(ROOT))] for p in sorted((ROOT / "tests/reference").glob("*.json"))]
    return files + [[n] for n in names] + [[n, "--batch", "3"] for n in names]


def jobs(program):
    for model in models(program):
        for options in EXPLAIN:
            yield ["explain", *model, *options]
        for rule in RULES:
            yield ["verify", *model, "--rule", rule, *WINDOWS]
        yield ["verify", *model, "--rule", "D_RTRL", "--steps", "6", "--rule-option", "composite=true"]


def said(program, job):
    run = subprocess.run([program, *job], capture_output=True, text=True, cwd=ROOT)
    return f"=== {' '.join(job)}\nexit {run.returncode}\n{run.stdout}{run.stderr}\n"


def record(a):
    program = str(Path(a.program).resolve())
    wanted = [j for j in jobs(program) if a.only in " ".join(j)]
    with ThreadPoolExecutor(a.jobs) as pool, open(a.file, "w") as out:
        out.writelines(pool.map(lambda j: said(program, j), wanted))
    print(f"{len(wanted)} runs in {a.file}")
    return 0


def read(path):
    out, lines = {}, None
    for line in Path(path).read_text().splitlines():
        if line.startswith("=== "):
            lines = out.setdefault(line[4:], [])
        else:
            lines.append(re.sub(r"equation \d+", "equation", line))
    return out


def compare(a):
    before, after = read(a.before), read(a.after)
    both = [k for k in before if k in after]
    different = [k for k in both if before[k] != after[k]]
    for key in different[: a.most]:
        print("etrace", key)
        print("\n".join(list(difflib.unified_diff(before[key], after[key], lineterm="", n=1))[2:]))
    print(f"{len(different)} of {len(both)} differ")
    return 1 if different or not both else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    r = verbs.add_parser("record")
    r.add_argument("program")
    r.add_argument("file")
    r.add_argument("--jobs", type=int, default=1)
    r.add_argument("--only", default="", help="runs that hold this text")
    r.set_defaults(run=record)
    c = verbs.add_parser("compare")
    c.add_argument("before")
    c.add_argument("after")
    c.add_argument("--most", type=int, default=20)
    c.set_defaults(run=compare)
    a = parser.parse_args()
    return a.run(a)


if __name__ == "__main__":
    sys.exit(main())
