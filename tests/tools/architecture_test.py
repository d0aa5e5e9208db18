#!/usr/bin/env python3
"""docs/architecture.md: every file it names exists, the rooms are those of the build, and the stops of its walk are
what a debugger shows of one training run."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")

# Function at a stop of the walk -> the file it must stand in. All are met by one short run.
STOPS = {
    "etrace::train::Training::Training": "src/train/training.cpp",
    "etrace::trace_step": "src/module/trace_step.cpp",
    "etrace::PlanBuilder::PlanBuilder": "src/learn/plan/plan.cpp",
    "etrace::simplify": "src/simplify/simplify.cpp",
    "etrace::Learner::etrace_train": "src/learn/run/drivers.cpp",
    "etrace::Launch::start": "src/session/session.cpp",
}


class Architecture(unittest.TestCase):
    def test_named_files_exist(self):
        names = set(re.findall(r"`((?:src|tests|tools|examples)/[\w./]+\.\w+)`", PAGE))
        self.assertGreater(len(names), 40)
        self.assertEqual([n for n in sorted(names) if not (ROOT / n).is_file()], [])
        links = re.findall(r"\]\((decisions/[^)]+)\)", PAGE)
        self.assertEqual([n for n in links if not (ROOT / "docs" / n).is_file()], [])

    def test_rooms_are_those_of_the_build(self):
        table = PAGE.split("## Rooms")[1].split("## ")[0]
        rooms = {r for row in re.findall(r"^\| (`.*?) \|", table, re.M) for r in re.findall(r"`([\w/]+)`", row)}
        layers = re.search(r"set\(ETRACE_LAYERS ([^)]*)\)", (ROOT / "CMakeLists.txt").read_text()).group(1).split()
        self.assertEqual(sorted(rooms), sorted(layers))

    def test_walk_is_what_a_debugger_shows(self):
        gdb, program = shutil.which("gdb"), os.environ.get("ETRACE_CLI")
        if gdb is None or program is None or os.environ.get("ETRACE_SANITIZED"):
            self.skipTest("no debugger, or no program")
        for file in STOPS.values():
            self.assertIn(f"`{file}`", PAGE)
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "walk.gdb"
            lines = ["set breakpoint pending on", "set debuginfod enabled off"]
            for function in STOPS:
                lines += [f"tbreak {function}"]
            lines += ["run train integrator --hidden 4 --batch 2 --updates 1 --backend interpreter --quiet --runs none"]
            for _ in range(3 * len(STOPS)):
                lines += ["frame", "continue"]
            script.write_text("\n".join(lines) + "\n", encoding="utf-8")
            shown = subprocess.run([gdb, "-q", "-batch", "-x", script, program], capture_output=True, text=True,
                                   timeout=110, check=False).stdout
        if "ptrace" in shown or "not permitted" in shown:
            self.skipTest("the debugger may not look at programs here")
        for function, file in STOPS.items():
            self.assertRegex(shown, rf"{re.escape(function)}[^\n]*\(.*?{re.escape(file)}:\d+", msg=shown[-3000:])


if __name__ == "__main__":
    unittest.main()
