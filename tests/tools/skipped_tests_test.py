"""tools/skipped_tests.py on what ctest writes: every kind of skip is listed with its reason, and one without is an error."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs

SCRIPT = needs.ROOT / "tools/skipped_tests.py"
CASE = '<testcase name="{}" status="{}">{}<system-out>{}</system-out></testcase>'
REASON = "NVRTC is not installed"  # which setup brings
KNOWN = "PyTorch is not installed"
KINDS = {
    "GoogleTest": "[ RUN      ] A.B\n/src/a_test.cpp:44: Skipped\n{}\n\n[  SKIPPED ] A.B (0 ms)",
    "unittest": "test_x (__main__.D.test_x) ... skipped '{}'",
    "pytest": "..s\nSKIPPED [6] python/tests/interop/test_torch.py:272: {}",
    "a module of pytest": "SKIPPED [1] python/tests/test_x.py: {}",
    "a script": "skipped: {}",
}


def listed(*cases, ci=False):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tests.xml")
        path.write_text("<testsuite>" + "".join(CASE.format(*c) for c in cases) + "</testsuite>")
        env = {k: v for k, v in os.environ.items() if k != "CI"} | ({"CI": "true"} if ci else {})
        done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, env=env, check=False)
        return done.returncode, done.stdout


class SkippedTests(unittest.TestCase):
    def test_every_kind_is_listed_with_its_reason(self):
        for kind, text in KINDS.items():
            with self.subTest(kind):
                code, said = listed(("a/B", "run", "", text.format(REASON)))
                self.assertEqual((code, said), (0, f"skipped: a/B: {REASON}\n1 skipped, 0 of these reasons not expected\n"))
                self.assertEqual(listed(("a/B", "run", "", text.format(REASON)), ci=True)[0], 1)
                self.assertEqual(listed(("a/B", "run", "", text.format(KNOWN)), ci=True)[0], 0)

    def test_a_block_of_a_page(self):
        code, said = listed(("doc/x", "run", "", "  not run: line 8 needs qemu"), ci=True)
        self.assertEqual(code, 1)
        self.assertIn("NOT EXPECTED: skipped: doc/x: line 8 needs qemu", said)

    def test_no_reason_is_an_error(self):
        code, said = listed(("a/B", "notrun", "<skipped/>", "nothing"))
        self.assertEqual(code, 1)
        self.assertIn("it gave no reason", said)

    def test_nothing_skipped(self):
        self.assertEqual(listed(("a/B", "run", "", "ok")), (0, "0 skipped, 0 of these reasons not expected\n"))


if __name__ == "__main__":
    unittest.main()
