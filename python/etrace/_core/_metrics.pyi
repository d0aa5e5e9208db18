"""
Metrics: means over all entries of all batches, whatever the sizes of the batches. Entries of weight zero do not count. Sums are float64.
"""

import etrace._core


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

class Metric:
    """
    Three pure functions of arrays, which may be recorded:

        accuracy = et.metrics.accuracy()
        sums = accuracy.start()
        sums = accuracy.update(sums, logits, labels)   # for every batch
        float(accuracy.value(sums))
    """

    @property
    def name(self) -> str: ...

    def start(self) -> list: ...

    def update(self, sums: Sequence[ArrayLike], prediction: ArrayLike, target: ArrayLike | None = None, weight: ArrayLike | None = None) -> list: ...

    def value(self, sums: Sequence[ArrayLike]) -> etrace._core.Array:
        """NaN if nothing was counted."""

    def __call__(self, prediction: ArrayLike, target: ArrayLike | None = None, weight: ArrayLike | None = None) -> etrace._core.Array:
        """Of one batch."""

    def __repr__(self) -> str: ...

def accuracy() -> Metric:
    """
    The largest score is that of the target. Predictions […, classes], labels […].
    """

def top_k(k: int) -> Metric:
    """Fewer than k scores are larger than that of the target."""

def confusion(classes: int) -> Metric:
    """Counts [classes, classes]: row the target, column the prediction."""

def f1(classes: int, average: object = 'macro') -> Metric:
    """2·P·R/(P + R); average: 'macro', 'micro', 'weighted' or 'per_class'."""

def precision(classes: int, average: object = 'macro') -> Metric:
    """The share of predictions that are right."""

def recall(classes: int, average: object = 'macro') -> Metric:
    """The share of targets that are found."""

def perplexity() -> Metric:
    """e^(mean cross-entropy)."""

def mean_squared_error() -> Metric:
    """Mean of (p − t)²."""

def r2() -> Metric:
    """1 − Σ(t − p)²/Σ(t − mean t)²."""

def average() -> Metric:
    """The mean of one array, without targets."""

def firing_rate(dt: float = 1.0) -> Metric:
    """Spikes per second; dt in ms."""

def sparsity() -> Metric:
    """The share of zeros."""
