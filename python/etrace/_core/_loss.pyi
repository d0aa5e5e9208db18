"""
Losses: means over all axes, the batch included (cross_entropy and cosine: over all but the last). Nothing broadcasts: shapes that disagree are an error. Any function (prediction, target) -> number is a loss, too.
"""

import etrace._core


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

def mse(prediction: ArrayLike, target: ArrayLike) -> etrace._core.Array:
    """Mean of (p − t)²."""

def cross_entropy(prediction: ArrayLike, labels: ArrayLike) -> etrace._core.Array:
    """
    −Σ_c target_c · log softmax(logits)_c over the last axis. Labels are whole numbers of the shape of the logits
    without their last axis, or weights of the classes of the logits' shape.
    """

def binary_cross_entropy(prediction: ArrayLike, targets: ArrayLike) -> etrace._core.Array:
    """
    −t·log σ(x) − (1 − t)·log(1 − σ(x)), without overflow. Targets in [0, 1].
    """

def cosine(prediction: ArrayLike, target: ArrayLike) -> etrace._core.Array:
    """1 − ⟨p, t⟩ / (|p|·|t|) over the last axis."""

def huber(prediction: ArrayLike, target: ArrayLike, delta: float = 1.0) -> etrace._core.Array:
    """e²/2 where |e| ≤ delta, else delta·(|e| − delta/2), with e = p − t."""

def names() -> list[str]:
    """The losses that command lines know by name."""
