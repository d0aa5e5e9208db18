"""What a test of tools/ needs; without it the test is skipped, and says why."""

import importlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def program():
    """The command-line program of the build."""
    path = Path(os.environ.get("ETRACE_CLI", ROOT / "build/bin/etrace"))
    if not path.is_file():
        skip(f"there is no program {path}")
    return path


def modules(*names):
    """Python packages, here or in build/venv, whose Python then goes on in place of this one."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as error:
        venv = ROOT / "build/venv/bin/python"
        if venv.exists() and Path(sys.prefix).resolve() != (ROOT / "build/venv").resolve():
            os.execv(venv, [str(venv), *sys.argv])
        skip(f"{error.name} is not installed")
