"""The type stubs: they are those of this state, they show every public name, and the tutorials are right by them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import etrace as et

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python/etrace"


def tool():
    spec = importlib.util.spec_from_file_location("python_stubs", ROOT / "tools/python_stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stubs(folder):
    return {str(f.relative_to(folder)): f.read_text(encoding="utf-8") for f in sorted(folder.rglob("*.pyi"))}


def test_they_are_new(tmp_path):
    pytest.importorskip("nanobind")
    tool().write(tmp_path)
    written, committed = stubs(tmp_path), stubs(PACKAGE)
    assert sorted(written) == sorted(committed), "run ./dev stubs"
    assert [name for name in written if written[name] != committed[name]] == [], "run ./dev stubs"


def test_every_public_name_is_shown():
    text = {name: (PACKAGE / name).read_text(encoding="utf-8") for name in ("_core/__init__.pyi", "_rule_classes.pyi")}
    shown = "".join(text.values()) + (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    assert [n for n in et.__all__ if f" {n}" not in shown and f"\n{n}" not in shown] == []
    tasks = (PACKAGE / "tasks.pyi").read_text(encoding="utf-8")
    assert [n for n in et.tasks.names() if f"def {n.replace('-', '_')}(" not in tasks] == []


# Right and wrong uses, as a type checker sees them: `#!` marks what it must refuse.
USES = """\
import numpy as np
import etrace as et

class Net(et.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = et.nn.GRUCell(3, 8, activation="tanh")
        self.h = et.HiddenState(np.zeros(3))

    def update(self, x: et.Array) -> et.Array:
        self.h.value = 0.5 * self.h.value + x
        return self.rnn(x) + et.tanh(x)[0]

learner = et.compile(Net(), et.D_RTRL(trace_dtype="bf16"), np.zeros((1, 3)), batch_size=1)
loss: float = learner.step(np.zeros((1, 3)), np.zeros((1, 8))).loss
trained: int = learner.etrace_train(np.zeros((2, 1, 3)), et.zeros((2, 1, 8)), et.loss.mse, et.optim.Adam(Net(), 0.1)).updates
task: et.tasks.Task = et.tasks.copying(lag=5, seed=1)
y: np.ndarray = np.asarray(et.zeros(3)) + et.zeros(3).numpy()
et.nn.LIF(3, tau=5 * et.units.ms, no_such_option=1)  #!
et.D_RTRL(no_such_option=1)  #!
et.tasks.copying(lags=5)  #!
et.no_such_function(1)  #!
learner.etrace_gard(1)  #!
"""


def mypy(*arguments):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary", "--cache-dir", os.devnull]
    env = {**os.environ, "MYPYPATH": str(ROOT / "python"), "PYTHONPATH": ""}
    out = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, env=env)
    return [line for line in out.stdout.splitlines() if ": error:" in line], out


def test_a_type_checker_knows_the_package(tmp_path):
    program = tmp_path / "uses.py"
    program.write_text(USES)
    errors, out = mypy(program, *sorted((ROOT / "python/tutorials").glob("*.py")))
    marked = {i for i, line in enumerate(USES.splitlines(), 1) if line.endswith("#!")}
    found = {int(e.split("uses.py:")[1].split(":")[0]) for e in errors if "uses.py:" in e}
    assert found == marked and len(errors) == len(marked), out.stdout + out.stderr
