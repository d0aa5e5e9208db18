"""Indexing against NumPy: reading and writing, concrete and traced."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import etrace as et


def numbered(shape):
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


@st.composite
def shape_and_index(draw, arrays=False):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    if not arrays:
        return shape, draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    # a mixture of arrays, slices, numbers and None
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    index = []
    for n in shape:
        kind = draw(st.sampled_from(["slice", "int", "array", "array", "none", "mask"]))
        if kind == "none":
            index.append(None)
            kind = "slice"
        if kind == "slice":
            index.append(draw(st.slices(n)))
        elif kind == "int":
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == "array":
            index.append(draw(hnp.arrays(np.int64, common, elements=st.integers(-n, n - 1))))
        else:
            index.append(draw(hnp.arrays(np.bool_, (n,))))
    cut = draw(st.integers(1, len(index)))
    return shape, tuple(index[:cut])


def same(got, want):
    got = np.asarray(got)
    assert got.shape == want.shape and got.dtype == want.dtype and np.array_equal(got, want)


@given(shape_and_index())
def test_basic_indices(case):
    shape, index = case
    x = numbered(shape)
    same(et.asarray(x)[index], x[index])
    same(et.jit(lambda a: a[index], backend="interpreter")(x), x[index])


@given(shape_and_index(arrays=True))
def test_arrays_of_positions(case):
    shape, index = case
    x = numbered(shape)
    try:
        want = x[index]
    except IndexError:
        with pytest.raises(IndexError):
            et.asarray(x)[index]
        return
    same(et.asarray(x)[index], want)
    ours = tuple(et.asarray(i) if isinstance(i, np.ndarray) else i for i in index)
    same(et.asarray(x)[ours], want)


@given(shape_and_index(arrays=True))
def test_writing_at_an_index(case):
    shape, index = case
    x = numbered(shape)
    try:
        picked = x[index]
    except IndexError:
        return
    values = -1 - np.arange(picked.size, dtype=np.float32).reshape(picked.shape)
    want = x.copy()
    want[index] = values
    same(et.asarray(x).at[index].set(values), want)
    want = x.copy()
    np.add.at(want, index, values)
    same(et.asarray(x).at[index].add(values), want)
    want = x.copy()
    want[index] = 5
    same(et.asarray(x).at[index].set(5), want)
    same(et.asarray(x).at[index].get(), picked)


def test_lists_and_masks():
    x = numbered((3, 4))
    a = et.asarray(x)
    for index in ([0, 2], ([0, 2], [1, 1]), (slice(None), [3, 0]), x > 4, (x > 4)[:, 0], ([[0], [1]], [0, 2]), []):
        want = x[np.array(index, int)] if isinstance(index, list) and not index else x[index]
        same(a[index], want)
    same(a[et.asarray(x > 4)], x[x > 4])
    same(a[np.int64(1)], x[1])
    same(a[np.array(1)], x[1])
    same(a[..., et.array(2)], x[..., 2])


@pytest.mark.parametrize("index, kind, text", [
    (3, IndexError, "position 3 of axis 0, which has 3 entries"),
    (-4, IndexError, "position -4"),
    ([0, 3], IndexError, "position 3"),
    ((0, 0, 0), IndexError, "for 3 axes"),
    ((..., ...), IndexError, "one ellipsis"),
    (([0, 1], [0, 1, 2]), IndexError, "broadcast"),
    (np.ones((2, 4), bool), IndexError, "truth values of shape"),
    (1.5, TypeError, "no index"),
    (np.ones(2), TypeError, "no index"),
    ("a", TypeError, "no array"),
    (True, NotImplementedError, "et.where"),
])
def test_what_an_index_cannot_be(index, kind, text):
    with pytest.raises(kind, match=text) as caught:
        et.asarray(numbered((3, 4)))[index]
    assert isinstance(caught.value, et.Error)


def test_traced_positions():
    x = numbered((4, 3))
    a = et.asarray(x)
    at = et.jit(lambda i: a[i], backend="interpreter")
    for i in (0, 3, -1):
        same(at(i), x[i])
    same(et.jit(lambda i, j: a[i, j])(np.array([0, -1]), np.array([2, 1])), x[[0, -1], [2, 1]])
    same(et.jit(lambda i: a[:, i])(np.array([2, 0])), x[:, [2, 0]])
    same(et.jit(lambda i: a[i, 1:])(np.array(2)), x[2, 1:])
    same(at(99), x[3])  # traced positions outside are moved to the nearest one inside
    same(at(-99), x[0])
    same(et.jit(lambda i, j: a[i, j])(99, -99), x[3, 0])
    same(et.jit(lambda v, i: v.at[i].set(7.0))(x, 1), np.where(np.arange(4)[:, None] == 1, np.float32(7), x))
    same(et.jit(lambda v: v.at[v > 5].set(0.0))(x), np.where(x > 5, 0, x))
    same(et.jit(lambda v: v.at[v > 5].add(1.0))(x), np.where(x > 5, x + 1, x))


def test_updates():
    a = et.asarray(numbered((4,)))
    assert a.at[1].multiply(3).tolist() == [0, 3, 2, 3] and a.at[1:3].divide(2).tolist() == [0, 0.5, 1, 3]
    assert a.at[[0, 3]].max(2).tolist() == [2, 1, 2, 3] and a.at[:].min(2).tolist() == [0, 1, 2, 2]
    assert a.at[2].power(3).tolist() == [0, 1, 8, 3] and a.at[2].subtract(1).tolist() == [0, 1, 1, 3]
    assert a.at[[1, 1]].add(1).tolist() == [0, 3, 2, 3]
    with pytest.raises(NotImplementedError, match="comes twice"):
        a.at[[1, 1]].multiply(2)
    with pytest.raises(ValueError, match="picked positions"):
        a.at[:2].set([1.0, 2, 3])
    with pytest.raises(TypeError, match="floats cannot be written"):
        et.array([1, 2]).at[0].set(0.5)
    with pytest.raises(ValueError, match="does not fit"):
        et.array([1, 2]).at[0].set(2**40)
    assert et.array([1, 2]).at[0].set(np.int64(5)).dtype == et.int32


def test_derivatives_pass_through_an_index():
    x = numbered((3, 4))
    w = et.asarray(np.linspace(0, 1, 3, dtype=np.float32))
    g = et.grad(lambda v: et.sum(v[[0, 0, 2], 1] * w))(x)
    want = np.zeros((3, 4), np.float32)
    np.add.at(want, ([0, 0, 2], 1), np.asarray(w))
    same(g, want)
    g = et.grad(lambda v: et.sum(et.asarray(x).at[1].set(v) * 2.0))(np.ones(4, np.float32))
    assert g.tolist() == [2, 2, 2, 2]


def test_what_an_index_raises_comes_through():
    class Odd:
        def __index__(self):
            raise LookupError("mine")

    for x in (et.ones(3), et.ones(3) * et.units.mV):
        with pytest.raises(LookupError, match="mine"):
            x[Odd()]
