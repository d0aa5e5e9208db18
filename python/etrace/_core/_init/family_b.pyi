"""
The laws as braintools has them: plain normal values, and three axes or more are [out, in, space…].
"""

import etrace._core._init


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

def kaiming_normal(scale: float = 2.0) -> etrace._core._init.Initializer:
    """Normal with variance scale/fan_in."""

def kaiming_uniform(scale: float = 2.0) -> etrace._core._init.Initializer:
    """Uniform with variance scale/fan_in."""

def xavier_normal(scale: float = 1.0) -> etrace._core._init.Initializer:
    """Normal with variance scale/mean of both fans."""

def xavier_uniform(scale: float = 1.0) -> etrace._core._init.Initializer:
    """Uniform with variance scale/mean of both fans."""

def lecun_normal(scale: float = 1.0) -> etrace._core._init.Initializer:
    """Normal with variance scale/fan_in."""

def lecun_uniform(scale: float = 1.0) -> etrace._core._init.Initializer:
    """Uniform with variance scale/fan_in."""
