"""docs/layers.md is what the headers say, and the tool notices when it is not."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "make_layers_doc.py"


def run(*args):
    done = subprocess.run([sys.executable, str(SCRIPT), *args], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


class LayersDoc(unittest.TestCase):
    def test_page_is_up_to_date(self):
        code, output = run("--check")
        self.assertEqual(code, 0, output)

    def test_every_header_is_in_the_list(self):
        listed = (ROOT / "include/etrace/nn.h").read_text(encoding="utf-8")
        for header in sorted((ROOT / "include/etrace/nn").glob("*.h")):
            self.assertIn(f'"etrace/nn/{header.name}"', listed)

    def test_a_change_of_a_header_is_noticed(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copytree(ROOT / "include/etrace", Path(root) / "include/etrace")
            (Path(root) / "docs").mkdir()
            self.assertEqual(run("--root", root)[0], 0)
            self.assertEqual(run("--root", root, "--check")[0], 0)
            header = Path(root) / "include/etrace/nn/linear.h"
            header.write_text(header.read_text(encoding="utf-8").replace("y = x·W + b", "y = x·W", 1), encoding="utf-8")
            code, output = run("--root", root, "--check")
            self.assertEqual(code, 1)
            self.assertIn("make_layers_doc.py", output)


if __name__ == "__main__":
    unittest.main()
