"""
Random numbers by keys: the same key gives the same numbers, everywhere.
"""

import etrace._core


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

def key(seed: object) -> etrace._core.Array:
    """A key, uint32[2], for an integer from 0 to 2**64 - 1."""

def split(key: ArrayLike, num: int = 2) -> etrace._core.Array:
    """num new keys, uint32[num, 2]; do not use the old one again."""

def fold_in(key: ArrayLike, data: ArrayLike) -> etrace._core.Array:
    """A new key for a key and an integer."""

def bits(key: ArrayLike, shape: int | Sequence[int]) -> etrace._core.Array:
    """uint32 numbers, all bits random."""

def uniform(key: ArrayLike, shape: int | Sequence[int] | None = None, dtype: DtypeLike | None = None, low: float = 0.0, high: float = 1.0) -> etrace._core.Array:
    """Uniform in [low, high)."""

def normal(key: ArrayLike, shape: int | Sequence[int] | None = None, dtype: DtypeLike | None = None) -> etrace._core.Array:
    """Normal, mean 0 and variance 1."""

def bernoulli(key: ArrayLike, p: float = 0.5, shape: int | Sequence[int] | None = None) -> etrace._core.Array:
    """True with probability p."""

def randint(key: ArrayLike, shape: int | Sequence[int], low: int, high: int, dtype: DtypeLike | None = None) -> etrace._core.Array:
    """Integers in [low, high)."""

def permutation(key: ArrayLike, n: int) -> etrace._core.Array:
    """The numbers 0 … n-1 in random order."""
