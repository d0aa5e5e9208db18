#!/usr/bin/env python3
"""Exports every built-in model and every reference case as C, runs it on the emulated boards beside the native
engine, and prints one line per case.

    tools/boards.py [--etrace build/bin/etrace] [--updates 500] [--boards all] [--csv FILE] [CASE...]

Exit status 0: every case had the native engine's bits wherever it ran, or was refused for the reason that is
written down below. `./dev boards` runs this.
"""
import argparse
import concurrent.futures
import csv
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What is not exported, and a part of the message that says why.
REFUSED = {
    "struct_while_settle": "'tape_while'",  # the gradient of a loop whose length is known at its end alone
    "struct_while_weight_inside": "weight states are used inside a while loop",  # by the compiler: not a learner
    "struct_no_relations": "no parameter is learned online",  # the same
}

# Random data in -1 … 1 at the default rate would carry it out of all bounds.
RATES = {"own_before_step_shapes": "1e-3"}
# Its states grow without bound, whatever is learned: most steps are refused as not finite, alike everywhere.
GROWS = {"struct_TwoLayerRNN_10_32_16_5"}

# Beside the cases by themselves: options that change the code. (label, arguments)
VARIANTS = [
    ("lif, 64 neurons", ["lif", "--sizes", "32,64,4"]),
    ("lif, 64 neurons, skip zeros", ["lif", "--sizes", "32,64,4", "--skip-zeros"]),
    ("lif, bf16 traces", ["lif", "--trace-dtype", "bf16"]),
    ("gru, f16 traces", ["gru", "--trace-dtype", "f16"]),
    ("gru, adam", ["gru", "--optimizer", "adam"]),
    ("gru, cross entropy", ["gru", "--sizes", "3,8,4", "--loss", "cross_entropy"]),
    ("gru, huber", ["gru", "--loss", "huber"]),
    ("gru, binary cross entropy", ["gru", "--loss", "binary_cross_entropy"]),
    ("gru, cosine", ["gru", "--sizes", "3,8,4", "--loss", "cosine"]),
    ("gru, batch 1", ["gru", "--batch", "1"]),
    ("gru, batch 5", ["gru", "--batch", "5"]),
    ("gru, f64", ["gru", "--dtype", "f64"]),
    ("alif, pp_prop", ["alif", "--rule", "pp_prop"]),
    ("alif, EProp", ["alif", "--rule", "EProp"]),
    ("gru, OSTLRecurrent", ["gru", "--rule", "OSTLRecurrent"]),
    ("gru, SnAp", ["gru", "--sizes", "2,4,1", "--rule", "SnAp"]),
    ("rnn, UORO", ["rnn", "--rule", "UORO"]),
    ("gru, windows", ["gru", "--method", "multi-step"]),
]


def builtin_models(etrace):
    text = subprocess.run([etrace, "export", "--help"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"a built-in model: ([a-z0-9_,\s]+?)\n\n", text)
    return re.sub(r"\s", "", found.group(1)).split(",")


def cases(etrace, wanted):
    out = [(m, [m]) for m in builtin_models(etrace)]
    out += [(f.stem, [str(f)]) for f in sorted((ROOT / "tests/reference").glob("*.json"))]
    out += VARIANTS
    out = [(label, a + (["--lr", RATES[label]] if label in RATES else [])) for label, a in out]
    return [c for c in out if not wanted or c[0] in wanted]


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def judge(label, status, text):
    """(good, line, row) of one case."""
    if label in REFUSED:
        good = status == 2 and REFUSED[label] in text
        return good, f"refused, as it should be: {REFUSED[label]}" if good else f"NOT REFUSED AS EXPECTED: {text}", None
    if status not in (0, 1) or "steps beside the native engine" not in text:
        return False, "FAILED: " + text.strip()[:400], None
    boards = re.findall(r"^(c99|cortex-\S+|rv32) +(same bits|not run|DIFFERENT)(.*)$", text, re.M)
    same = [b for b, answer, _ in boards if answer == "same bits"]
    row = {
        "case": label,
        "same": " ".join(same),
        "ram": number(r"RAM, static +(\d+)", text),
        "stack": number(r"RAM, stack, at most +(\d+)", text),
        "flash": number(r"flash, constants +(\d+)", text),
        "code": number(r"flash, code +(\d+)", text),
        "estimated": number(r"instructions per step +(\d+)", text),
    }
    for board in ("cortex-m4", "cortex-m7", "cortex-m55", "rv32"):
        row[board + " code"] = number(rf"\n{board} .*?code (\d+)", text)
        row[board] = number(rf"\n{board} .*? (\d+) instructions", text)
        row[board + " stack"] = number(rf"\n{board} .*?stack (\d+)", text)
    steps, finite = number(r"(\d+) steps beside", text), number(r"engine, (\d+) of them", text)
    good = status == 0 and len(same) == len(boards) and (finite > steps * 0.8 or label in GROWS)
    line = f"{len(same)} of {len(boards)} same bits, {finite} of {steps} steps finite"
    line += f", RAM {row['ram']}, stack {row['stack']}"
    if row["cortex-m4"]:
        line += f", M4: code {row['cortex-m4 code']}, {row['cortex-m4']} instructions (estimated {row['estimated']})"
    for board, answer, rest in boards:
        if answer != "same bits":
            line += f"\n    {board} {answer}{rest[:300]}"
    return good, line, row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of models, reference cases or variants")
    parser.add_argument("--etrace", default=str(ROOT / "build/bin/etrace"))
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--boards", default="all", help="as of `etrace export --boards`")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csv", help="write the numbers there")
    o = parser.parse_args()

    def run(case):
        command = [o.etrace, "export", *case[1], "--target", "cortex-m4", "--check", "--report", "--boards", o.boards, "--updates", str(o.updates)]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    todo, rows, bad = cases(o.etrace, o.cases), [], 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for (label, _), (status, text) in zip(todo, pool.map(run, todo)):
            good, line, row = judge(label, status, text)
            bad += not good
            print(f"{'ok ' if good else 'BAD'} {label}: {line}", flush=True)
            if row:
                rows.append(row)
    if o.csv and rows:
        with open(o.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    measured = sorted(r["estimated"] / r["cortex-m4"] for r in rows if r["cortex-m4"])
    if measured:
        at = lambda q: measured[int(q * (len(measured) - 1))]
        print(f"instructions, estimated over measured on the Cortex-M4: {at(0):.2f} … {at(0.5):.2f} … {at(1):.2f}")
    print(f"{len(todo)} cases, {bad} bad")
    return 1 if bad or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
