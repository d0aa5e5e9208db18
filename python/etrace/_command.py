"""The command `etrace`: starts the program that the wheel brings along."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "etrace"
    if not program.exists():
        sys.exit(f"etrace: the program {program} is not there; install the package with `pip install .`")
    os.execv(program, [str(program), *sys.argv[1:]])
