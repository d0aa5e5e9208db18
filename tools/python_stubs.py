#!/usr/bin/env python3
"""The type stubs of the Python package, from the package itself: ./dev stubs writes them.

    PYTHONPATH=build/dev/python build/venv/bin/python tools/python_stubs.py [FOLDER]    (default: python/etrace)

`_core` by nanobind's generator with the patterns of python/stubs.txt; layers, learning rules and tasks, whose classes
and functions are made from tables when the package is imported, from those tables. python/tests/test_stubs.py compares
what is committed.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import etrace as et

ROOT = Path(__file__).resolve().parents[1]
NOTE = '"""Written by tools/python_stubs.py; do not edit."""\n'

LAYERS = (
    NOTE
    + """
from collections.abc import Callable, Sequence
from typing import Any, Literal

from .. import Array, Module, Quantity, SparsePattern, State, Unit
from .._core import ArrayLike, DtypeLike
from .._core._init import Initializer
from .._core._nn import *
from .._core._nn import Learned
from .._core._surrogate import Surrogate
from .._containers import ModuleDict as ModuleDict, ModuleList as ModuleList, Sequential as Sequential
from . import connect as connect, init as init, surrogate as surrogate
from ._containers import AlignPost as AlignPost, AlignPre as AlignPre, Lambda as Lambda
from ._containers import Parallel as Parallel, Residual as Residual
from ._layer import Dynamics as Dynamics, Layer as Layer, Neuron as Neuron, WeightLayer as WeightLayer

InitLike = Initializer | str | float | ArrayLike | Callable[[Array, tuple[int, ...], Any], ArrayLike] | None
ConstantLike = float | ArrayLike | Quantity | Learned

def spike(x: ArrayLike, surrogate: Surrogate | str | Callable[[Array], ArrayLike] = ...) -> Array: ...
"""
)
# What classes have besides the arguments of their rows.
MORE = {
    "SparseLinear": {"pattern": "SparsePattern | Any"},
    "LoRA": {"base_module": "Module | None = ..."},
}
BODY = {"LIF": ["    def after_reset(self, fired: ArrayLike) -> Array: ..."]}
FUNCTIONS = "elu gelu hard_sigmoid leaky_relu log_softmax relu sigmoid silu softmax softplus tanh".split()

RULES = NOTE + "\nfrom ._core import ArrayLike, DtypeLike\nfrom ._rules import LearningRule\n"
TYPES = {"dtype": "DtypeLike | None", "str": "str | None", "int": "int", "float": "float", "bool": "bool"}

TASKS = (
    NOTE
    + """
from typing import Any

from ._core import Array, DtypeLike, Task as Task, TaskBatch as TaskBatch
from ._own_task import OwnTask as OwnTask, part_of as part_of

def make(name: str, *, seed: int = 0, dtype: DtypeLike | None = None, **settings: Any) -> Task: ...
def names() -> list[str]: ...
def accuracy(outputs: Array, batch: TaskBatch) -> float: ...
"""
)


def quoted(thing, indent: str) -> str:
    doc = (inspect.getdoc(thing) or "").replace("\\", "\\\\").replace("\n", "\n" + indent)
    return f'{indent}"""{doc}"""'


def finished(lines) -> str:
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n")) + "\n"


def layers() -> str:
    lines = [LAYERS]
    lines += [f"from .._core import {f} as {f}" for f in FUNCTIONS] + [""]
    for name, parent, arguments, options in et._core._layer_rows():
        more = dict(MORE.get(name, {}))
        parts = ["self"]
        for a, kind, _, required in arguments:
            parts.append(f"{a}: {more.pop(a, kind)}" + ("" if required else " = ..."))
        if options or more:
            parts.append("*")
        parts += [f"{o}: {kind} = ..." for o, kind, _, _ in options] + [f"{k}: {v}" for k, v in more.items()]
        lines.append(f"class {name}({parent}):")
        lines.append(quoted(getattr(et.nn, name), "    "))
        lines.append(f"    def __init__({', '.join(parts)}) -> None: ...")
        lines += BODY.get(name, [])
    lines += ["", "ValinaRNNCell = VanillaRNNCell"]
    lines += [f"BatchNorm{d}d = BatchNorm" for d in range(4)]
    return finished(lines)


def rules() -> str:
    lines = [RULES]
    shown = et._rules.exported()
    for row in et._core._rule_rows():
        if row["name"] not in shown:
            continue
        options = [f"{o['name']}: {option_type(o)} = ..." for o in row["options"]]
        lines.append(f"class {row['name']}(LearningRule):")
        lines.append(quoted(shown[row["name"]], "    "))
        lines.append(f"    def __init__({', '.join(['self', *(['*', *options] if options else [])])}) -> None: ...")
        lines += [f"{alias} = {row['name']}" for alias in row["aliases"] if alias in shown]
    return finished(lines)


def option_type(option) -> str:
    if option["name"] == "modulator":
        return "ArrayLike | None"
    kind = TYPES[option["type"]]
    return kind if option["default"] or kind.endswith("None") else kind + " | None"


def tasks() -> str:
    lines = [TASKS]
    for name, _, settings in et._core._task_rows():
        name = name.replace("-", "_")
        parts = [f"{s}: {'int' if whole else 'float'} = ..." for s, _, _, _, whole, _ in settings]
        parts = ["*", *parts, "seed: int = 0", "dtype: DtypeLike | None = None"]
        if name in OPEN_TASKS:
            parts.append("**settings: Any")
        lines.append(f"def {name}({', '.join(parts)}) -> Task:")
        lines.append(quoted(getattr(et.tasks, name), "    "))
    return finished(lines)


OPEN_TASKS = {"data"}  # takes settings that its table does not list


def sharpened(text: str) -> str:
    """Where the generator knows no more than `object`: the type that is meant, or any."""
    for function, result in RESULTS.items():
        text = re.sub(rf"(def {function}\(.*\)) -> object:", rf"\1 -> {result}:", text)
    text = text.replace("-> object:", "-> Any:")
    text = re.sub(r"(def __(?:eq|ne)__\(.*\) -> (?:Array|bool): \.\.\.)", r"\1  # type: ignore[override]", text)
    text = re.sub(r"(__hash__: None = None)", r"\1  # type: ignore[assignment]", text)
    return text.replace("other: object | None", "other: Any").replace("arg: object, /", "arg: Any, /")


RESULTS = {
    "step": "StepResult",
    "numpy": "ndarray",
    "__array__": "ndarray",
    "__iter__": "Iterator[Array]",
    "__copy__": "Array",
    "__reduce__": "tuple[Any, ...]",
    "make": "Optimizer",
    "load_npz": "dict[str, Array]",
}


def write(folder: Path) -> None:
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-P", "-m", "etrace._core"]
    command += ["-p", ROOT / "python/stubs.txt", "-O", folder]
    subprocess.run([str(c) for c in command], check=True)
    for file in (folder / "_core").rglob("*.pyi"):
        file.write_text(sharpened(file.read_text(encoding="utf-8")), encoding="utf-8")
    for name, text in {"nn/__init__.pyi": layers(), "_rule_classes.pyi": rules(), "tasks.pyi": tasks()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "python/etrace")
