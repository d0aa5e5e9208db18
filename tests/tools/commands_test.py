"""docs/commands.md is what the program prints."""

import subprocess
import unittest
from pathlib import Path

import needs

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/commands.md"


class Commands(unittest.TestCase):
    def test_the_page_is_what_the_program_prints(self):
        program = str(needs.program())
        done = subprocess.run([program, "man", "--markdown"], capture_output=True, text=True, check=True)
        self.assertTrue(done.stdout == PAGE.read_text(encoding="utf-8"),
                        "docs/commands.md is old; write it anew: build/bin/etrace man --markdown > docs/commands.md")


if __name__ == "__main__":
    unittest.main()
