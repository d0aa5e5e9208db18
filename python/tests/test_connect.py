"""Patterns of connections from Python: the same as in C++, by keywords."""

import numpy as np
import pytest

import etrace as et
from etrace.nn import connect


def test_types_decide_how_likely_a_connection_is():
    pattern = connect.by_type([0, 0, 1], [1, 0], [[0.0, 1.0], [1.0, 0.0]])
    assert list(zip(pattern.row, pattern.col)) == [(0, 0), (1, 0), (2, 1)]


def test_reach_leaves_far_pairs_out():
    line = np.arange(1000.0)[:, None]
    near = connect.by_distance(line, line, lambda d: 1.0, reach=2.0, include_self=False)
    assert near.nnz == connect.within(line, line, 2.0, include_self=False).nnz == 4 * 1000 - 6


def test_small_worlds_and_hubs():
    assert connect.small_world(50, 4, 0.0, seed=3).nnz == 200
    hubs = connect.scale_free(100, 2, seed=1)
    assert hubs.nnz == 2 * 2 * 98
    assert sorted(zip(hubs.row, hubs.col)) == sorted(zip(hubs.col, hubs.row))
    with pytest.raises(et.ValueError, match="even number"):
        connect.small_world(50, 3, 0.0)
