"""tools/check_readme.py on made-up pages: right ones pass, each kind of wrong one fails."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "check_readme.py"

HELLO = """```cpp test=hello
#include <cstdio>
std::puts("a 12 b");
std::puts("end");
```
"""


def check(page, program='echo "one $*"; echo two; echo three', source=None, arguments=()):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "README.md").write_text(page, encoding="utf-8")
        if source:
            (root / source).touch()
        fake = root / "fake"
        fake.write_text("#!/bin/sh\n" + program + "\n", encoding="utf-8")
        os.chmod(fake, 0o755)
        done = subprocess.run([sys.executable, str(SCRIPT), "--readme", str(root / "README.md"), "--work",
                               str(root / "work"), "--etrace", str(fake), *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckReadme(unittest.TestCase):
    def assert_result(self, code, page, *phrases, **options):
        got, output = check(page, **options)
        self.assertEqual(got, code, output)
        for phrase in phrases:
            self.assertIn(phrase, output)

    def test_program_and_output(self):
        self.assert_result(0, HELLO + "\n```text output=hello\na ... b\nend\n```\n", "ran 1")

    def test_wrong_output(self):
        self.assert_result(1, HELLO + "\n```text output=hello\na ... c\nend\n```\n", "README.md:8")

    def test_program_that_does_not_compile(self):
        self.assert_result(1, "```cpp test=broken\nint x = ;\n```\n", "compiling broken", "README.md:2")

    def test_program_that_fails(self):
        self.assert_result(1, "```cpp test=fails\nint main() { return 3; }\n```\n", "ended with 3")

    def test_unmarked_block_is_not_compiled(self):
        self.assert_result(0, "```cpp\nnot C++ at all\n```\n", "ran 0")

    def test_output_without_program(self):
        self.assert_result(1, "```text output=nobody\nx\n```\n", "nobody")

    def test_scratch(self):
        page = "```console scratch=x\n$ echo $ETRACE > a\n$ test -n \"$ETRACE_FLAGS\" && wc -l < a\n1\n```\n"
        self.assert_result(0, page, "ran 2")
        self.assert_result(1, page.replace("\n1\n", "\n2\n"), "README.md:3")
        self.assert_result(1, "```console scratch=x\n$ false\n$ echo on\n```\n", "ran 1", "README.md:2")

    def test_tabs_and_built_programs(self):
        page = "````{tab} Shell\n```console\n$ etrace x\none x\n...\n```\n````\n"
        self.assert_result(0, page, "ran 1")
        self.assert_result(1, page.replace("one x", "one y"), "README.md:3")
        self.assert_result(1, "```{literalinclude} x.cpp\n:language: cpp\n```\n", "there is no file x.cpp")
        self.assert_result(1, "```{literalinclude} fake.cpp\n```\n", "fake.cpp is not built in any folder", source="fake.cpp")
        built = "```{literalinclude} fake.cpp\n```\n```text output=fake\none...\ntwo\nthree\n```\n"
        self.assert_result(0, built, "ran 1", source="fake.cpp", arguments=["--programs", "."])
        self.assert_result(1, built.replace("two", "2"), "but the page says", source="fake.cpp", arguments=["--programs", "."])

    def test_console_needs(self):
        page = "```console needs=sh,no-such-program\n$ etrace a\nwrong\n```\n"
        self.assert_result(0, page, "line 2 needs no-such-program", "ran 0")
        self.assert_result(1, page.replace(",no-such-program", ""), "README.md:2", "ran 1")

    def test_figures_of_a_version(self):
        page = "```console figures=bash-VERSION\n$ etrace a\na 7,000 bytes, b2 3.5\n```\n"
        said = subprocess.run(["bash", "--version"], capture_output=True, text=True, check=True).stdout
        same = page.replace("VERSION", re.search(r"\d+\.\d+\.\d+", said)[0])
        other = page.replace("VERSION", "0.1")
        for program, with_same, with_other in ((7000, 0, 0), (8000, 1, 0), ("many", 1, 0), ("", 1, 1)):
            text = f"echo a {program:,} bytes, b2 3.5" if isinstance(program, int) else f"echo a {program} bytes, b2 3.5"
            text = text if program else "echo something else"
            self.assert_result(with_same, same, "ran 1", program=text)
            self.assert_result(with_other, other, "numbers of line 2 are not compared: they are of bash 0.1", program=text)

    def test_console(self):
        self.assert_result(0, "```console\n$ build/bin/etrace x\none x\n...\nthree\n$ ./dev demo\n```\n", "ran 1")
        self.assert_result(0, "```console\n$ build/bin/etrace x \\\n    y\none x y\n...\n```\n", "ran 1")
        self.assert_result(1, "```console\n$ build/bin/etrace x\none y\n...\n```\n", "README.md:2")
        self.assert_result(1, "```console\n$ build/bin/etrace x\none x\n```\n", "but the page says")
        self.assert_result(1, "```console\n$ build/bin/etrace x\n```\n", "ended with 2", program="exit 2")


if __name__ == "__main__":
    unittest.main()
