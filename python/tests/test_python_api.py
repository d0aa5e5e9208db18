"""A short run of fuzz/python_api.py: hostile arguments for every public callable."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "fuzz" / "python_api.py"
COUNT = os.environ.get("ETRACE_API_CALLS", "3000")


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not shipped with the wheel's tests")
def test_hostile_arguments_raise_plain_exceptions():
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--count", COUNT, "--seconds", "300"], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
