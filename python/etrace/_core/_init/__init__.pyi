"""
Initial values of parameters. An option such as weight_init takes one of these, its name, a number, an array, or a function (key, shape, dtype).
"""

import etrace._core
from etrace._core._init import family_b as family_b


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

class Initializer:
    """(key, shape, dtype) -> values."""

    def __call__(self, key: ArrayLike, shape: int | Sequence[int], dtype: DtypeLike | None = None) -> etrace._core.Array: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def constant(value: float) -> Initializer:
    """The same everywhere."""

def zeros() -> Initializer:
    """0 everywhere."""

def ones() -> Initializer:
    """1 everywhere."""

def values(values: object) -> Initializer:
    """These, broadcast to the parameter's shape."""

def normal(scale: float = 1.0, mean: float = 0.0) -> Initializer:
    """Normal with this standard deviation."""

def uniform(low: float, high: float) -> Initializer:
    """Uniform in [low, high)."""

def truncated_normal(scale: float = 1.0, mean: float = 0.0, cut: float = 2.0) -> Initializer:
    """Cut at ±cut·scale around the mean; scale is that of the uncut normal."""

def log_normal(mean: float = 0.0, scale: float = 1.0) -> Initializer:
    """Mean and scale are those of the logarithm."""

def exponential(mean: float = 1.0) -> Initializer:
    """Exponential with this mean."""

def identity(scale: float = 1.0) -> Initializer:
    """The identity in the last two axes, times the scale."""

def chrono(steps: float, sign: float = 1.0, offset: float = 0.0) -> Initializer:
    """
    Biases of gates that keep for up to so many steps: sign·log u + offset, u uniform in (1, steps).
    """

def variance_scaling(scale: float = 1.0, fan: object = 'in', distribution: object = 'truncated_normal', in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """
    Variance scale/fan; fan is 'in', 'out' or 'average'. The other axes multiply both fans.
    """

def kaiming_normal(distribution: object = 'truncated_normal') -> Initializer:
    """Variance 2/fan_in."""

def kaiming_uniform() -> Initializer:
    """Uniform with variance 2/fan_in."""

def xavier_normal(distribution: object = 'truncated_normal') -> Initializer:
    """Variance 1/mean of both fans."""

def xavier_uniform() -> Initializer:
    """Uniform with variance 1/mean of both fans."""

def lecun_normal(distribution: object = 'truncated_normal') -> Initializer:
    """Variance 1/fan_in."""

def lecun_uniform() -> Initializer:
    """Uniform with variance 1/fan_in."""

def orthogonal(scale: float = 1.0, axis: int = -1) -> Initializer:
    """Orthonormal rows or columns, whichever are fewer, times the scale."""

def delta_orthogonal(scale: float = 1.0) -> Initializer:
    """
    A kernel [space…, in, out] that is orthogonal at the centre and zero elsewhere.
    """

def scaled(initializer: object, factor: float) -> Initializer:
    """What another one draws, times a factor."""

def clipped(initializer: object, low: float, high: float) -> Initializer:
    """What another one draws, cut to [low, high]."""

def magnitude(initializer: object) -> Initializer:
    """|what another one draws|: weights of one sign."""

def stacked_rows(rows: int, above: object, below: object) -> Initializer:
    """
    The first rows from one initialiser, the others from another, each with a fan of its own.
    """

def leaky_relu_scale(slope: float) -> float:
    """2/(1 + slope²): takes the place of Kaiming's 2."""

def by_name(name: str) -> Initializer:
    """An initialiser with its defaults."""

def names() -> list[str]:
    """All names that by_name knows."""
