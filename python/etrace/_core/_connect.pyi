"""
Which neuron is connected to which: patterns for SparseLinear, DelayedLinear and et.sparse_matmul. Entries are in the order of the senders, then of the receivers; the same seed gives the same pattern everywhere.
"""

import etrace._core


from collections.abc import Callable, Sequence
from typing import Any
from etrace._core import Array, ArrayLike, Dtype, DtypeLike, Quantity, Unit

def all_to_all(pre: int, post: int, include_self: bool = True) -> etrace._core.SparsePattern:
    """Every pair."""

def one_to_one(n: int) -> etrace._core.SparsePattern:
    """Neuron i to neuron i."""

def fixed_probability(pre: int, post: int, p: float, *, include_self: bool = True, seed: int = 0) -> etrace._core.SparsePattern:
    """Each pair with this probability."""

def fixed_in_degree(pre: int, post: int, senders: int, *, include_self: bool = True, seed: int = 0) -> etrace._core.SparsePattern:
    """Each receiver has so many different senders."""

def fixed_out_degree(pre: int, post: int, receivers: int, *, include_self: bool = True, seed: int = 0) -> etrace._core.SparsePattern:
    """Each sender has so many different receivers."""

def by_distance(pre_positions: ArrayLike, post_positions: ArrayLike, probability: object, *, reach: float = float('inf'), include_self: bool = True, seed: int = 0) -> etrace._core.SparsePattern:
    """
    Each pair with a probability that depends on its distance: positions are [neurons, dimensions]. All pairs within the reach are asked: without one, every pair.
    """

def by_type(pre_types: ArrayLike, post_types: ArrayLike, probabilities: ArrayLike, *, include_self: bool = True, seed: int = 0) -> etrace._core.SparsePattern:
    """
    Each pair of a sender of type a and a receiver of type b with the probability at [a, b]; types are whole numbers from 0, one per neuron.
    """

def small_world(n: int, neighbours: int, rewired: float, *, seed: int = 0) -> etrace._core.SparsePattern:
    """
    A ring in which each neuron reaches its nearest neighbours, and each of these connections goes elsewhere with probability `rewired` (Watts and Strogatz 1998, directed).
    """

def scale_free(n: int, links: int, *, seed: int = 0) -> etrace._core.SparsePattern:
    """
    Neurons come one by one, and each links to so many earlier ones, rather to those with many links (Barabási and Albert 1999). A link is a connection in both directions.
    """

def within(pre_positions: ArrayLike, post_positions: ArrayLike, radius: float, include_self: bool = True) -> etrace._core.SparsePattern:
    """Pairs that are no farther apart than the radius."""

def nonzero(matrix: ArrayLike) -> etrace._core.SparsePattern:
    """Where the matrix is not zero."""

def grid(sizes: int | Sequence[int], dtype: DtypeLike | None = None) -> etrace._core.Array:
    """
    Neurons on a grid of these sizes, spaced by 1: [neurons, dimensions], float64.
    """

def dale_signs(n: object, excitatory: int, dtype: DtypeLike | None = None) -> etrace._core.Array:
    """
    Dale's law: +1 for the first `excitatory` of n neurons, −1 for the others, as a column [n, 1] for SignedWLinear;
    of a pattern: one sign per entry, for SparseLinear(sign=…).
    """
