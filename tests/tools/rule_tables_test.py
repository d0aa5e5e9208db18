"""A sample of the numbers in docs/choosing-a-rule.md is measured again."""

import subprocess
import sys
import unittest
from pathlib import Path

import needs

SCRIPT = Path(__file__).resolve().parents[2] / "tools/rule_tables.py"


class RuleTables(unittest.TestCase):
    def test_a_sample_is_what_the_commands_print(self):
        program = str(needs.program())
        done = subprocess.run([sys.executable, str(SCRIPT), "--etrace", program, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
