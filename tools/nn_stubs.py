#!/usr/bin/env python3
"""The stub of et.nn, from the rows of its layers: python/etrace/nn/__init__.pyi.

    PYTHONPATH=build/dev/python build/venv/bin/python tools/nn_stubs.py            writes it
    PYTHONPATH=build/dev/python build/venv/bin/python tools/nn_stubs.py --check    says whether it is up to date
"""

import inspect
import sys
from pathlib import Path

import etrace as et

TARGET = Path(__file__).resolve().parents[1] / "python/etrace/nn/__init__.pyi"
HEAD = '''"""Written by tools/nn_stubs.py; do not edit."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike, DTypeLike as DtypeLike

from .. import Array, Module, Quantity, SparsePattern, State, Unit
from .._core._init import Initializer
from .._core._nn import *
from .._core._nn import Learned
from .._core._surrogate import Surrogate
from .._module import ModuleDict as ModuleDict, ModuleList as ModuleList, Sequential as Sequential
from . import connect as connect, init as init, surrogate as surrogate
from ._containers import AlignPost as AlignPost, AlignPre as AlignPre, Lambda as Lambda
from ._containers import Parallel as Parallel, Residual as Residual
from ._layer import Dynamics as Dynamics, Layer as Layer, Neuron as Neuron, WeightLayer as WeightLayer

InitLike = Initializer | str | float | ArrayLike | Callable[[Array, tuple[int, ...], Any], ArrayLike] | None
ConstantLike = float | ArrayLike | Quantity | Learned

def spike(x: ArrayLike, surrogate: Surrogate | str | Callable[[Array], ArrayLike] = ...) -> Array: ...

'''
# What classes have besides the arguments of their rows.
MORE = {
    "SparseLinear": {"pattern": "SparsePattern | Any"},
    "LoRA": {"base_module": "Module | None = ..."},
}
BODY = {"LIF": ["    def after_reset(self, fired: ArrayLike) -> Array: ..."]}
FUNCTIONS = "elu gelu hard_sigmoid leaky_relu log_softmax relu sigmoid silu softmax softplus tanh".split()


def written() -> str:
    lines = [HEAD.rstrip("\n"), ""]
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
        doc = inspect.getdoc(getattr(et.nn, name)).replace("\\", "\\\\").replace("\n", "\n    ")
        lines.append(f'    """{doc}"""')
        lines.append(f"    def __init__({', '.join(parts)}) -> None: ...")
        lines += BODY.get(name, [])
    lines += ["", "ValinaRNNCell = VanillaRNNCell"]
    lines += [f"BatchNorm{d}d = BatchNorm" for d in range(4)]
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n")) + "\n"


def main() -> int:
    text = written()
    if "--check" in sys.argv[1:]:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print("up to date" if same else "python/etrace/nn/__init__.pyi is old: run tools/nn_stubs.py")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
