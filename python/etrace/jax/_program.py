"""Programs of model files (docs/model-files.md) as Python objects: what the walker makes, what operators are
recognised in, and what is written. Start with Program."""

import dataclasses
import math
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Var:
    """One value of a program, known by identity."""

    shape: tuple
    dtype: str


@dataclasses.dataclass(frozen=True)
class Literal:
    """A scalar that stands in an equation."""

    value: Any
    dtype: str

    shape = ()


@dataclasses.dataclass(eq=False)
class Eqn:
    prim: str
    ins: list
    outs: list
    params: dict = dataclasses.field(default_factory=dict)
    where: str = ""  # the user's line


@dataclasses.dataclass(eq=False)
class Program:
    """Constants are pairs of a variable and its value; nested programs stand among the parameters."""

    consts: list
    invars: list
    eqns: list
    outs: list


class UnsupportedError(NotImplementedError):
    """Something in the program has no counterpart: the message says what, where and what to write instead."""


def bodies(eqn):
    """The programs inside an equation."""
    for value in eqn.params.values():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, Program):
                yield item


def without_dead_code(program):
    """The program without equations whose results nobody reads."""
    used = {v for v in program.outs if isinstance(v, Var)}
    kept = []
    for eqn in reversed(program.eqns):
        if any(v in used for v in eqn.outs):
            kept.append(eqn)
            used.update(v for v in eqn.ins if isinstance(v, Var))
    consts = [(v, value) for v, value in program.consts if v in used]
    return Program(consts, program.invars, kept[::-1], program.outs)


# Writing ---------------------------------------------------------------------------------------------------
def number(value):
    """A number as JSON has it; what JSON cannot say is a word."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    value = float(value)
    return value if math.isfinite(value) else "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def array(value):
    value = np.asarray(value)
    flat = value.ravel()
    if flat.dtype.kind not in "biu":
        flat = flat.astype(np.float64)
    data = flat.tolist()
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        data = [number(v) for v in data]
    return {"shape": list(value.shape), "dtype": value.dtype.name, "data": data}


def numpy_of(record):
    """The array that a record holds."""
    data = [float(v) if isinstance(v, str) else v for v in record["data"]]
    dtype = record["dtype"]
    if dtype == "bfloat16":
        import ml_dtypes
        dtype = ml_dtypes.bfloat16
    return np.asarray(data, dtype).reshape(record["shape"])


def to_json(program):
    """The program as a dictionary for json.dump; ids are counted per program."""
    ids = {}

    def define(var, drop=False):
        ids[var] = len(ids)
        record = {"id": ids[var], "shape": list(var.shape), "dtype": var.dtype}
        return {**record, "drop": True} if drop else record

    def use(atom):
        if isinstance(atom, Literal):
            return {"lit": number(atom.value), "dtype": atom.dtype, "shape": []}
        return ids[atom]

    used = {v for eqn in program.eqns for v in eqn.ins if isinstance(v, Var)}
    used.update(v for v in program.outs if isinstance(v, Var))
    out = {"constvars": [define(v) for v, _ in program.consts], "consts": [array(c) for _, c in program.consts],
           "invars": [define(v) for v in program.invars], "eqns": []}
    for eqn in program.eqns:
        out["eqns"].append({"prim": eqn.prim, "in": [use(a) for a in eqn.ins],
                            "out": [define(v, v not in used) for v in eqn.outs],
                            "params": {k: _param(v) for k, v in eqn.params.items()},
                            **({"where": eqn.where} if eqn.where else {})})
    out["outvars"] = [use(a) for a in program.outs]
    return out


def _param(value):
    if isinstance(value, Program):
        return {"jaxpr": to_json(value)}
    if isinstance(value, dict):
        return {k: _param(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_param(v) for v in value]
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return {"lit": number(value), "dtype": "float64"}
    return value
