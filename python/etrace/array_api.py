"""The functions of the Python array API standard, under its names, for libraries that ask an array for them.

`matmul` is the plain product here; the trainable one is et.matmul. What the standard has and etrace has not (complex
numbers, integers of 8, 16 and unsigned 64 bits, results whose size depends on values) is missing.
"""

from __future__ import annotations

import builtins as _builtins
import math as _math
from typing import NamedTuple as _NamedTuple

import numpy as _np

from . import _core
from ._core import (  # noqa: F401
    abs,
    all,
    any,
    acos,
    acosh,
    add,
    argmax,
    argmin,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    bool_ as bool,
    broadcast_to,
    ceil,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expand_dims,
    expm1,
    flip,
    float32,
    float64,
    floor,
    floor_divide,
    greater,
    greater_equal,
    int32,
    int64,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul_plain as matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    moveaxis,
    multiply,
    negative,
    nextafter,
    not_equal,
    pow,
    prod,
    remainder,
    roll,
    round,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    squeeze,
    stack,
    std,
    subtract,
    sum,
    take,
    take_along_axis,
    tan,
    tanh,
    tril,
    triu,
    trunc,
    uint32,
    var,
    where,
)
from ._core import (
    bitwise_not as bitwise_invert,  # noqa: F401
    shift_left as bitwise_left_shift,  # noqa: F401
    shift_right as bitwise_right_shift,  # noqa: F401
    concatenate as _concatenate,
)

__array_api_version__ = "2022.12"
e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None


# --- creation ---------------------------------------------------------------------------------------------------


def _on_cpu(device) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"arrays are on device 'cpu', not {device!r}")


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    _on_cpu(device)
    return _core.asarray(obj, dtype=dtype, copy=copy)


def from_dlpack(x, /, *, device=None, copy=None):
    _on_cpu(device)
    return _core.asarray(x, copy=copy)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    _on_cpu(device)
    return _core.arange(start, stop, step, dtype=dtype)


def zeros(shape, *, dtype=None, device=None):
    _on_cpu(device)
    return _core.zeros(shape, dtype)


def ones(shape, *, dtype=None, device=None):
    _on_cpu(device)
    return _core.ones(shape, dtype)


def empty(shape, *, dtype=None, device=None):
    return zeros(shape, dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    _on_cpu(device)
    return _core.full(shape, fill_value, dtype)


def zeros_like(x, /, *, dtype=None, device=None):
    _on_cpu(device)
    return _core.zeros_like(x, dtype)


def ones_like(x, /, *, dtype=None, device=None):
    _on_cpu(device)
    return _core.ones_like(x, dtype)


def empty_like(x, /, *, dtype=None, device=None):
    return zeros_like(x, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    _on_cpu(device)
    return _core.full_like(x, fill_value, dtype)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    _on_cpu(device)
    n_cols = n_rows if n_cols is None else n_cols
    return _core.asarray(_np.eye(n_rows, n_cols, k), dtype=dtype or float32)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    _on_cpu(device)
    return _core.asarray(_np.linspace(start, stop, num, endpoint=endpoint), dtype=dtype or float32)


def meshgrid(*arrays, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing is 'xy' or 'ij'")
    n = len(arrays)
    places = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shape = [1] * n
    for a, place in zip(arrays, places):
        shape[place] = a.shape[0]
    out = []
    for a, place in zip(arrays, places):
        one = [1] * n
        one[place] = a.shape[0]
        out.append(broadcast_to(a.reshape(one), shape))
    return out


# --- data types -----------------------------------------------------------------------------------------------------

_KINDS = {
    "bool": (bool,),
    "signed integer": (int32, int64),
    "unsigned integer": (uint32,),
    "integral": (int32, int64, uint32),
    "real floating": (float32, float64),
    "complex floating": (),
    "numeric": (int32, int64, uint32, float32, float64),
}


def astype(x, dtype, /, *, copy=True, device=None):
    _on_cpu(device)
    return _core.copy(x) if copy and x.dtype == dtype else x.astype(dtype)


def broadcast_arrays(*arrays):
    shape = _np.broadcast_shapes(*(a.shape for a in arrays))
    return [broadcast_to(a, shape) for a in arrays]


def isdtype(dtype, kind) -> _builtins.bool:
    if isinstance(kind, tuple):
        return _builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"there is no kind {kind!r}; there are {', '.join(_KINDS)}")
        return _builtins.any(dtype == d for d in _KINDS[kind])
    return dtype == kind


def result_type(*arrays_and_dtypes):
    arrays = [_core.zeros((), a if isinstance(a, _core.Dtype) else a.dtype) for a in arrays_and_dtypes]
    out = arrays[0]
    for a in arrays[1:]:
        out = out if out.dtype == a.dtype else _core.maximum(out, a)
    return out.dtype


def can_cast(from_, to, /) -> _builtins.bool:
    return result_type(from_, to) == to


def finfo(type, /):  # noqa: A002
    return _np.finfo(_core.Dtype(getattr(type, "dtype", type) if isinstance(type, _core.Array) else type).dtype)


def iinfo(type, /):  # noqa: A002
    return _np.iinfo(_core.Dtype(type.dtype if isinstance(type, _core.Array) else type).dtype)


# --- manipulation, products, searching ---------------------------------------------------------------------------------


def concat(arrays, /, *, axis=0):
    if axis is None:
        return _concatenate([a.reshape(-1) for a in arrays])
    return _concatenate(arrays, axis)


def permute_dims(x, /, axes):
    return _core.transpose(x, axes)


def reshape(x, /, shape, *, copy=None):
    return _core.reshape(x, shape)


def repeat(x, repeats, /, *, axis=None):
    return _core.repeat(x, repeats, axis)


def tile(x, repetitions, /):
    return _core.tile(x, repetitions)


def unstack(x, /, *, axis=0):
    return tuple(moveaxis(x, axis, 0))


def matrix_transpose(x, /):
    return x.mT


def vecdot(x1, x2, /, *, axis=-1):
    return sum(multiply(x1, x2), axis=axis)


def tensordot(x1, x2, /, *, axes=2):
    if isinstance(axes, int):
        axes = (list(range(x1.ndim - axes, x1.ndim)), list(range(axes)))
    return _core.dot_general(x1, x2, axes[0], axes[1])


def positive(x, /):
    return x


def clip(x, /, min=None, max=None):  # noqa: A002
    return _core.clip(x, min, max)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    if descending:
        return flip(x.shape[axis] - 1 - _core.argsort(flip(x, axis), axis), axis)
    return _core.argsort(x, axis)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    out = _core.sort(x, axis)
    return flip(out, axis) if descending else out


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    axis = 0 if axis is None else axis
    out = _core.cumsum(x if dtype is None else x.astype(dtype), axis)
    if not include_initial:
        return out
    shape = [*out.shape]
    shape[axis] = 1
    return _concatenate([_core.zeros(shape, out.dtype), out], axis)


class _Info(_NamedTuple):
    values: object
    counts: object


def unique_values(x, /):
    return _core.asarray(_np.unique(_np.asarray(x)))


def unique_counts(x, /):
    return _Info(*(_core.asarray(a) for a in _np.unique(_np.asarray(x), return_counts=True)))


def nonzero(x, /):
    return tuple(_core.asarray(i) for i in _np.nonzero(_np.asarray(x)))
