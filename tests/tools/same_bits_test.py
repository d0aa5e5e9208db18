"""Two release builds of the same files in different folders give the same library, with no path of either in it; and it
is hardened. The lowest layers stand for all: the flags are those of every target."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import needs

PARTS = ["CMakeLists.txt", "VERSION", "NOTICE", "LICENSE", "README.md", "CHANGELOG.md", "cmake", "data", "tools", "include", "docs"]
LAYERS = ["base", "runtime"]


def built(folder):
    """The library of the lowest layers, from a copy of the sources in that folder."""
    for part in PARTS:
        path = needs.ROOT / part
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / part)
    for layer in LAYERS:
        shutil.copytree(needs.ROOT / "src" / layer, folder / "src" / layer)
    out = folder / "made"
    env = {**os.environ, "CCACHE_DISABLE": "1", "SOURCE_DATE_EPOCH": "0"}
    for command in (
        ["cmake", "-S", folder, "-B", out, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DETRACE_BUILD_TESTS=OFF",
         "-DETRACE_BUILD_EXAMPLES=OFF", "-DETRACE_BUILD_PYTHON=OFF", "-DETRACE_NATIVE=ON", f"-DETRACE_LAST_LAYER={LAYERS[-1]}"],
        ["cmake", "--build", out, "--target", "etrace"],
    ):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
    return out / "lib" / "libetrace.so"


class SameBits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folders = [Path(cls.held.name) / name for name in ("one", "another/deeper")]
        for folder in cls.folders:
            folder.mkdir(parents=True)
        cls.libraries = [built(folder) for folder in cls.folders]

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    def test_two_builds_have_the_same_bits(self):
        self.assertGreater(self.libraries[0].stat().st_size, 10000)
        self.assertEqual(*(hashlib.sha256(library.read_bytes()).hexdigest() for library in self.libraries))
        self.assertEqual(*((f / "made/share/etrace.spdx.json").read_bytes() for f in self.folders))

    def test_no_path_of_the_build_is_inside(self):
        for library in self.libraries:
            self.assertNotIn(self.held.name.encode(), library.read_bytes())

    def test_it_is_hardened(self):
        shown = subprocess.run(["readelf", "-dlW", self.libraries[0]], capture_output=True, text=True, check=True).stdout
        self.assertIn("GNU_RELRO", shown)
        self.assertRegex(shown, r"FLAGS.*NOW")
        symbols = subprocess.run(["nm", "-D", self.libraries[0]], capture_output=True, text=True, check=True).stdout
        self.assertIn("__stack_chk_fail", symbols)


if __name__ == "__main__":
    unittest.main()
