"""tools/words.py compares what explain and verify say."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = [sys.executable, str(ROOT / "tools/words.py")]
TEXT = "=== explain a\nexit 0\nequation {}: x\nstate h\n=== verify a\nexit 0\nexact\n"


class Words(unittest.TestCase):
    def compare(self, before, after):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in ("before", before), ("after", after):
                (Path(folder) / name).write_text(text)
            return subprocess.run([*TOOL, "compare", f"{folder}/before", f"{folder}/after"], capture_output=True,
                                  text=True)

    def test_same_words_with_other_numbers_of_equations(self):
        run = self.compare(TEXT.format(3), TEXT.format(14))
        self.assertEqual((run.returncode, run.stdout), (0, "0 of 2 differ\n"))

    def test_other_words(self):
        run = self.compare(TEXT.format(3), TEXT.format(3).replace("exact", "approximate"))
        self.assertEqual(run.returncode, 1)
        self.assertIn("etrace verify a", run.stdout)
        self.assertIn("+approximate", run.stdout)
        self.assertIn("1 of 2 differ", run.stdout)

    def test_nothing_in_common_is_no_agreement(self):
        self.assertEqual(self.compare(TEXT, "").returncode, 1)


if __name__ == "__main__":
    unittest.main()
