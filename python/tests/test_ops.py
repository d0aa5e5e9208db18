"""The functions of et against NumPy, on numbers and while tracing."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import etrace as et

scipy_special = pytest.importorskip("scipy.special")

X = np.array([[0.3, -1.2, 2.5], [0.0, 0.9, -0.4]])
POSITIVE = np.array([[0.3, 1.2, 2.5], [0.7, 0.9, 1.4]])
UNIT = np.array([[0.3, -0.2, 0.5], [0.7, -0.9, 0.4]])

UNARY = {
    "negative": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "trunc": np.trunc, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "atan": np.arctan, "square": np.square,
    "cbrt": np.cbrt, "erf": scipy_special.erf, "erfc": scipy_special.erfc, "logistic": scipy_special.expit,
    "sigmoid": scipy_special.expit, "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf,
    "relu": lambda x: np.maximum(x, 0), "softplus": lambda x: np.log1p(np.exp(x)),
    "silu": lambda x: x * scipy_special.expit(x), "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x), "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
}
UNARY_POSITIVE = {
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "lgamma": scipy_special.gammaln, "digamma": scipy_special.digamma,
}
UNARY_UNIT = {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh, "erf_inv": scipy_special.erfinv}


def check(name, f, x):
    ours = getattr(et, name)
    want = f(x)
    got = ours(x)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-7 if want.dtype == np.float64 else 0, atol=1e-12)
    jaxpr = et.make_jaxpr(ours)(x)
    np.testing.assert_array_equal(np.asarray(jaxpr(x)[0]), np.asarray(got))
    assert jaxpr.eqns and all(e.origin.file.endswith("test_ops.py") for e in jaxpr.eqns if e.origin.file)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    check(name, UNARY[name], X)


@pytest.mark.parametrize("name", UNARY_POSITIVE)
def test_unary_positive(name):
    check(name, UNARY_POSITIVE[name], POSITIVE)


@pytest.mark.parametrize("name", UNARY_UNIT)
def test_unary_unit(name):
    check(name, UNARY_UNIT[name], UNIT)


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "remainder": np.remainder,
    "fmod": np.fmod, "floor_divide": np.floor_divide, "atan2": np.arctan2, "maximum": np.maximum,
    "minimum": np.minimum, "equal": np.equal, "less": np.less, "greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    y = np.array([1.5, -0.5, 2.0])
    want = BINARY[name](X, y)
    for got in (getattr(et, name)(X, y), getattr(et, name)(et.asarray(X), y)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
        assert got.dtype == want.dtype


REDUCTIONS = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min, "all": np.all,
              "any": np.any, "var": np.var, "std": np.std, "argmax": None, "argmin": None}


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=10)
@given(data=st.data())
def test_reductions(name, data):
    x = data.draw(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=3), elements=st.floats(-3, 3)))
    keep = data.draw(st.booleans())
    if name.startswith("arg"):
        axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
        f = getattr(np, name)
    else:
        axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1), hnp.valid_tuple_axes(x.ndim)))
        f = REDUCTIONS[name]
    want = np.asarray(f(x, axis=axis, keepdims=keep))
    for got in (getattr(et, name)(x, axis=axis, keepdims=keep), getattr(et.asarray(x), name)(axis=axis, keepdims=keep)):
        assert got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-9, atol=1e-9)


def test_reductions_of_integers_and_truth_values():
    x = np.array([[1, 2], [3, 5]], np.int32)
    assert et.sum(x).dtype == et.int32 and et.sum(x).item() == 11
    assert et.mean(x).dtype == et.float32 and et.mean(x).item() == 2.75
    assert et.sum(x > 2).item() == 2 and et.sum(x > 2).dtype == et.int32
    assert et.all(x).item() is True and et.any(x > 9).item() is False
    assert et.var(x, correction=1).item() == pytest.approx(np.var(x, ddof=1))
    assert et.cumsum(x).tolist() == [1, 3, 6, 11] and et.cumsum(x, axis=1).tolist() == [[1, 3], [3, 8]]
    assert et.cumsum(x, axis=0, reverse=True).tolist() == [[4, 7], [3, 5]]
    assert et.cumprod(x, 0).tolist() == [[1, 2], [3, 10]] and et.cummax(x, 1).tolist() == [[1, 2], [3, 5]]
    for axis in (2, -3, (0, 0)):
        with pytest.raises(ValueError):
            et.sum(x, axis=axis)
    with pytest.raises(TypeError, match="integers"):
        et.sum(x, axis="a")


def test_numbers_beyond_32_bits_never_wrap():
    big = 2**40
    assert et.full(2, big).tolist() == [big, big] and et.add(big, 1).item() == big + 1
    assert et.where(True, big, 0).item() == big and et.maximum(big, 1).item() == big
    assert et.arange(big, big + 2).tolist() == [big, big + 1] and et.abs(-big).item() == big
    assert et.stack([1, big]).tolist() == [1, big]
    for bad in (lambda: et.full_like(et.array([1]), big), lambda: et.add(et.array([1]), big), lambda: et.where([True], et.array([1]), big)):
        with pytest.raises(ValueError, match="does not fit"):
            bad()


def test_softmax_and_friends():
    p = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(et.softmax(X)), p)
    np.testing.assert_allclose(np.asarray(et.log_softmax(X)), np.log(p))
    np.testing.assert_allclose(np.asarray(et.logsumexp(X, axis=0)), np.log(np.exp(X).sum(0)))
    assert et.l2_norm([3.0, 4.0]).item() == 5
    np.testing.assert_allclose(np.asarray(et.gelu(X)), X * scipy_special.ndtr(X), atol=2e-3)


def test_shapes():
    x = np.arange(24.0).reshape(2, 3, 4)
    a = et.asarray(x)

    def same(got, want):
        assert got.shape == want.shape and np.array_equal(np.asarray(got), want)

    same(a.reshape(6, 4), x.reshape(6, 4))
    same(a.reshape((4, -1)), x.reshape(4, -1))
    same(et.reshape(x, -1), x.ravel())
    same(a.transpose(), x.transpose())
    same(a.transpose((1, 0, 2)), x.transpose(1, 0, 2))
    same(et.transpose(a, (-1, 0, 1)), x.transpose(-1, 0, 1))
    same(a.swapaxes(0, -1), x.swapaxes(0, -1))
    same(et.moveaxis(a, 0, -1), np.moveaxis(x, 0, -1))
    same(et.expand_dims(a, 1), np.expand_dims(x, 1))
    same(et.squeeze(et.expand_dims(a, (0, 2))), x)
    same(et.squeeze(x[:1], 0), x[0])
    same(et.broadcast_to(x[0], (5, 3, 4)), np.broadcast_to(x[0], (5, 3, 4)))
    same(et.concatenate([a, x], axis=-1), np.concatenate([x, x], -1))
    same(et.stack([a, a], axis=1), np.stack([x, x], 1))
    for got, want in zip(et.split(a, 2, axis=2), np.split(x, 2, axis=2)):
        same(got, want)
    for got, want in zip(et.split(a, [1, 3], axis=2), np.split(x, [1, 3], axis=2)):
        same(got, want)
    same(et.pad(x, ((1, 0), (0, 2), (0, 0)), 9), np.pad(x, ((1, 0), (0, 2), (0, 0)), constant_values=9))
    same(et.pad(x, 1), np.pad(x, 1))
    same(et.roll(x, 2, 1), np.roll(x, 2, 1))
    same(et.roll(x, 5), np.roll(x, 5))
    same(et.flip(x), np.flip(x))
    same(et.flip(x, (0, -1)), np.flip(x, (0, -1)))
    same(et.tile(x[0, 0], (2, 3)), np.tile(x[0, 0], (2, 3)))
    same(et.repeat(x, 2, 1), np.repeat(x, 2, 1))
    same(et.slice_axis(x, 1, 1, 3), x[:, 1:3])
    assert a.flatten().shape == (24,) and a.ravel().shape == (24,)
    assert et.concatenate([np.ones(2, np.float32), np.ones(1)]).dtype == et.float64
    assert et.stack([1, 2.5]).tolist() == [1, 2.5]
    for bad in (lambda: a.reshape(5, 5), lambda: et.squeeze(a, 0), lambda: et.concatenate([]), lambda: et.split(a, 5, 2),
                lambda: et.transpose(a, (0, 0, 1)), lambda: et.pad(a, ((1, 1),)), lambda: et.stack([a, x[0]]),
                lambda: et.broadcast_to(a, (3, 3)), lambda: et.zeros((-1,)), lambda: a.swapaxes(0, 5)):
        with pytest.raises(ValueError) as caught:
            bad()
        assert isinstance(caught.value, et.Error)


def test_creation():
    assert et.zeros(3).tolist() == [0, 0, 0] and et.ones((1, 2), "int32").tolist() == [[1, 1]]
    assert et.full((2,), 1.5).tolist() == [1.5, 1.5] and et.full(2, 3).dtype == et.int32
    assert et.full((2, 2), [1.0, 2.0]).tolist() == [[1, 2], [1, 2]]
    assert et.eye(2).tolist() == [[1, 0], [0, 1]] and et.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert et.arange(3).tolist() == [0, 1, 2] and et.arange(1, 6, 2).tolist() == [1, 3, 5]
    assert et.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75] and et.arange(3, dtype="float64").dtype == et.float64
    assert et.zeros_like(X).dtype == et.float64 and et.ones_like(X, dtype="int32").dtype == et.int32
    assert et.full_like(X, 2).tolist() == [[2, 2, 2], [2, 2, 2]]
    assert et.one_hot([0, 2], 3).tolist() == [[1, 0, 0], [0, 0, 1]]
    m = np.arange(9.0).reshape(3, 3)
    for name in ("tril", "triu", "diag", "trace"):
        assert np.array_equal(np.asarray(getattr(et, name)(m)), getattr(np, name)(m))
    assert et.diag([1, 2]).tolist() == [[1, 0], [0, 2]]


def test_picking_and_ordering():
    x = np.array([[3.0, 1.0, 2.0], [0.5, 4.0, 0.5]])
    assert np.array_equal(np.asarray(et.sort(x)), np.sort(x)) and np.array_equal(np.asarray(et.sort(x, 0)), np.sort(x, 0))
    assert np.array_equal(np.asarray(et.argsort(x)), np.argsort(x, kind="stable"))
    assert np.array_equal(np.asarray(et.take(x, [2, 0], 1)), np.take(x, [2, 0], 1))
    i = np.argsort(x)
    assert np.array_equal(np.asarray(et.take_along_axis(x, i, 1)), np.take_along_axis(x, i, 1))
    assert et.scatter_add(et.zeros(3), [0, 0, 2], [1.0, 2.0, 3.0]).tolist() == [3, 0, 3]
    assert et.scatter_set(et.zeros(3), [0, 2], [1.0, 3.0]).tolist() == [1, 0, 3]
    assert et.dynamic_slice(x, [0, 1], [2, 2]).tolist() == x[:, 1:].tolist()
    assert et.dynamic_update_slice(et.zeros((2, 3)), et.ones((1, 1)), [1, 2]).tolist() == [[0, 0, 0], [0, 0, 1]]
    assert et.dynamic_index(x, 1).tolist() == x[1].tolist()
    assert et.where(x > 1, x, 0).tolist() == np.where(x > 1, x, 0).tolist()
    assert et.where([True, False], 1, 2.5).tolist() == [1, 2.5]
    assert et.clip(x, 1, 2).tolist() == np.clip(x, 1, 2).tolist() and et.clip(x, high=2).tolist() == np.minimum(x, 2).tolist()
    assert et.select_n(et.array([0, 1], dtype="int32"), [et.zeros(2), et.ones(2)]).tolist() == [0, 1]


def test_products():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for got, want in [
        (et.matmul_plain(a, b), a @ b), (et.dot(a, b), a @ b), (et.outer(a[0], b[0]), np.outer(a[0], b[0])),
        (et.einsum_plain("ij,jk->ki", a, b), (a @ b).T), (et.asarray(a).dot(b), a @ b),
        (et.dot_general(a, b, 1, 0), a @ b), (et.dot_general(a, a, [1], [1], [0], [0]), (a * a).sum(1)),
    ]:
        np.testing.assert_array_equal(np.asarray(got), want)
    x, k = np.arange(10.0).reshape(1, 1, 10), np.array([[[1.0, 0, -1]]])
    np.testing.assert_array_equal(np.asarray(et.conv_general_dilated(x, k))[0, 0], np.correlate(x[0, 0], k[0, 0]))
    y = et.conv_general_dilated(x, k, strides=2, padding=[(1, 1)])
    assert y.shape == (1, 1, 5)
    with pytest.raises(ValueError, match="do not fit: the last axis of the first"):
        et.matmul_plain(a, a)
    with pytest.raises(ValueError, match="do not fit"):  # no broadcast over what is summed, as in NumPy
        et.ones((4, 8)) @ et.ones((1, 2))


def test_random_numbers():
    key = et.random.key(3)
    assert key.dtype == et.uint32 and key.shape == (2,)
    a, b = et.random.split(key)
    assert a.tolist() != b.tolist()
    u = np.asarray(et.random.uniform(a, (1000,), low=2, high=3))
    assert (2 <= u).all() and (u < 3).all() and abs(u.mean() - 2.5) < 0.05
    assert np.array_equal(u, np.asarray(et.random.uniform(a, (1000,), low=2, high=3)))
    n = np.asarray(et.random.normal(b, 2000, "float64"))
    assert abs(n.mean()) < 0.1 and abs(n.std() - 1) < 0.1
    assert sorted(et.random.permutation(a, 9).tolist()) == list(range(9))
    assert set(et.random.randint(a, (100,), 3, 6).tolist()) == {3, 4, 5}
    assert abs(np.asarray(et.random.bernoulli(a, 0.25, (1000,))).mean() - 0.25) < 0.06
    assert et.random.uniform(a).shape == () and et.random.bits(a, 2).dtype == et.uint32
    for bad, kind in ((-1, ValueError), (2**64, ValueError), (0.5, TypeError)):
        with pytest.raises(kind, match="a seed is an integer"):
            et.random.key(bad)
    assert et.random.key(np.int64(3)).tolist() == key.tolist()
    with pytest.raises(TypeError, match="integers"):
        et.one_hot([0.5], 3)
    assert et.random.fold_in(a, 1).tolist() != et.random.fold_in(a, 2).tolist()


def test_surrogate_gradient():
    g = et.grad(lambda x: et.sum(et.heaviside_surrogate(x, 3.0 * et.ones(2))))(np.array([1.0, -1.0], np.float32))
    assert g.tolist() == [3, 3]
    assert et.heaviside_surrogate([0.0, -1.0], [1.0, 1.0]).tolist() == [1, 0]


def test_every_function_has_a_docstring():
    """What is exported is documented: at least a sentence, and arguments that have names."""
    bare = []
    for space in (et, et.random):
        for name, value in vars(space).items():
            if name.startswith("_") or not callable(value) or inspect.isclass(value) or inspect.ismodule(value):
                continue
            if not (value.__doc__ or "").strip() or (value.__doc__ or "").count("arg0"):
                bare.append(name)
    assert not bare, bare


def test_bitcast_and_integer_pow():
    assert et.bitcast(et.ones(1), "int32").item() == 0x3F800000
    assert et.integer_pow(et.array([2.0]), -2).item() == 0.25
    assert math.isclose(et.pow(2.0, 0.5).item(), math.sqrt(2), rel_tol=1e-6)
