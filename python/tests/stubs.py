"""Writes the type stubs of etrace._core into a folder: python stubs.py FOLDER."""

import subprocess
import sys
from pathlib import Path

PATTERNS = Path(__file__).parents[1] / "stubs.txt"


def write(folder: Path) -> None:
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-m", "etrace._core", "-p", PATTERNS, "-O", folder]
    subprocess.run([str(c) for c in command], check=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
