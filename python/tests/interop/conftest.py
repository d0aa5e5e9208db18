"""What is under test here is Python and runs without the extension: where that is not built, the package is reached
without its opening file."""

import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(Path(__file__).parent))

try:
    import etrace  # noqa: F401
except ImportError:
    package = types.ModuleType("etrace")
    package.__path__ = [str(ROOT / "python/etrace")]
    sys.modules["etrace"] = package

if importlib.util.find_spec("jax") is not None:
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # most of the time is compilation
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_threefry_partitionable", True)  # the default since 0.5


class Program:
    """The command line."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, *words):
        command = [os.environ.get("ETRACE_CLI", str(ROOT / "build/bin/etrace")), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def file(self, model, name="model"):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(getattr(model, "file", model)))
        return path

    def agrees(self, *files, stages="forward,bptt"):
        result = self("check", "--stage", stages, *files)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
        assert f"{len(files)} passed, 0 failed, 0 skipped" in result.stdout

    def online(self, file):
        """Paths of the weights that are learned online."""
        report = json.loads(self("explain", "--json", file).stdout)
        return {"/".join(w["path"]) for w in report["weights"] if w["relations"]}


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)
