#!/usr/bin/env python3
"""cmake/RunExample.cmake: an example is judged by the last line that it promises, and must promise one."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def judge(source, output, code=0):
    with tempfile.TemporaryDirectory() as folder:
        program, text = Path(folder, "program"), Path(folder, "example.cpp")
        program.write_text(f"#!/bin/sh\nprintf '{output}'\nexit {code}\n")
        program.chmod(0o755)
        text.write_text(source)
        return subprocess.run(
            ["cmake", f"-DPROGRAM={program}", f"-DSOURCE={text}", "-P", str(ROOT / "cmake/RunExample.cmake")],
            capture_output=True, text=True)


class RunExample(unittest.TestCase):
    def test_the_promised_line(self):
        source = "// What it does.\n//\n// last line: solved\n"
        self.assertEqual(judge(source, "first\\nsolved\\n").returncode, 0)
        wrong = judge(source, "solved\\nnot solved\\n")
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("is       not solved", wrong.stderr)
        self.assertNotEqual(judge(source, "solved\\n", code=1).returncode, 0)

    def test_the_promised_numbers(self):
        source = "// What it does.\n//\n// numbers to 1e-8: 1.5 -0.25\n"
        self.assertEqual(judge(source, "1.500000001\\n-0.250000002\\n").returncode, 0)
        for wrong in ("1.50000002\\n-0.25\\n", "1.5\\n", "1.5\\n0.25\\n", "1.5\\nnan\\n"):
            self.assertNotEqual(judge(source, wrong).returncode, 0, wrong)

    def test_a_promise_that_was_reflowed_or_left_out_fails(self):
        for source in ("// What it does. last line: solved\n", "// What it does.\n"):
            self.assertIn("has no line that begins with", judge(source, "solved\\n").stderr)

    def test_every_example_promises(self):
        examples = sorted((ROOT / "examples").glob("*.cpp"))
        self.assertTrue(examples)
        for example in examples:
            kinds = ("// last line: ", "// numbers to 1e-8: ")
            promises = [l for l in example.read_text().splitlines() if l.startswith(kinds)]
            self.assertEqual(len(promises), 1, example.name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
