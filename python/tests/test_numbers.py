"""Functions at hard numbers: zeros of both signs, poles, the ends of each type, infinities, NaN, against NumPy and SciPy;
first and second derivatives there, against formulas; and constants, which must be what arguments are, on both engines."""

import numpy as np
import pytest

import etrace as et

special = pytest.importorskip("scipy.special")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FLOATS = (np.float32, np.float64)


def hard_numbers(dtype):
    info = np.finfo(dtype)
    ends = [info.tiny, info.smallest_subnormal, info.max, info.eps]
    sizes = [0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 2.5, 7.5, 0.1, 1e-3, 1e-8, 1e-20, 1e-38, 10.0, 30.0, 89.0, 104.0, 170.0, 745.5, 1e5, 1e10,
             2.0**52 + 1, 1e30, np.inf, 0.99, 1 - info.eps, 1 + info.eps, 1.4616321449683623, *ends]
    return np.array([*sizes, *(-s for s in sizes), np.nan], dtype)


def check(what, got, want, rtol, atol, *arguments):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    good = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= rtol * np.abs(want) + atol)
    assert good.all(), (what, [(*(a[i].item() for a in arguments), got[i], want[i]) for i in np.flatnonzero(~good)[:5]])


def digamma(x):  # SciPy has -inf at -inf, and loses all digits beside the poles -1, -2, …
    r = x - np.rint(x)
    beside = (x < -0.5) & (np.abs(r) < 1e-12) & (r != 0)
    return np.where(x == -np.inf, np.nan, np.where(beside, -1 / r, special.digamma(x)))


# Accuracy: 16 units in the last place, but where SciPy's own is less, or a formula cancels (gelu is JAX's).
UNARY = {
    "negative": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "logistic": special.expit, "erf": special.erf, "erfc": special.erfc, "erf_inv": special.erfinv,
    "lgamma": special.gammaln, "digamma": digamma, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt,
    "square": np.square, "relu": lambda x: np.maximum(x, 0), "softplus": lambda x: np.logaddexp(0, x),
    "silu": lambda x: x * special.expit(x), "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x), "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf, "logical_not": np.logical_not,
}
OF_SCIPY = {"logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma", "silu"}
ROOTS = {"lgamma", "digamma"}  # the error beside them is one of the terms


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name, dtype):
    x, info = hard_numbers(dtype), np.finfo(dtype)
    wide = x.astype(np.float64 if name in OF_SCIPY else np.longdouble)
    want = UNARY[name](wide).astype(dtype)
    atol = 4 * info.eps if name in ROOTS else info.smallest_subnormal * (1000 if name == "silu" else 2)
    check(name, getattr(et, name)(x), want, 1e-13 if name == "erfc" and dtype == np.float64 else 16 * info.eps, atol, x)


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "fmod": np.fmod, "power": np.power, "atan2": np.arctan2, "nextafter": np.nextafter,
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name, dtype):
    a, b = (m.ravel() for m in np.meshgrid(hard_numbers(dtype), hard_numbers(dtype)))
    got, want, info = np.asarray(getattr(et, name)(a, b)), BINARY[name](a, b), np.finfo(dtype)
    check(name, got, want, 4 * info.eps, 2 * info.smallest_subnormal, a, b)
    if name in ("floor_divide", "remainder", "fmod", "divide"):  # signs of zeros, too
        zero = (want == 0) & ~np.isnan(want)
        check("sign of " + name, np.signbit(got[zero]), np.signbit(want[zero]), 0, 0, a[zero], b[zero])


INTEGERS = {
    np.int32: [0, 1, -1, 2, -2, 3, -3, 7, 31, 32, 2**24 + 1, 2**31 - 1, -(2**31), 12345],
    np.int64: [0, 1, -1, 2, -2, 3, 7, 63, 64, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 10**18 + 7],
    np.uint32: [0, 1, 2, 3, 7, 31, 32, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1],
}
OF_INTEGERS = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "equal": np.equal, "less": np.less, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod,
}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact(dtype):
    v = np.array(INTEGERS[dtype], dtype)
    a, b = (m.ravel() for m in np.meshgrid(v, v))
    for name, f in OF_INTEGERS.items():
        keep = b != 0 if name in ("floor_divide", "remainder", "fmod") else np.full(b.shape, True)
        np.testing.assert_array_equal(np.asarray(getattr(et, name)(a[keep], b[keep])), f(a[keep], b[keep]), name)
    inside = (b >= 0) & (b < 8 * v.itemsize)
    a, b = a[inside], b[inside]
    np.testing.assert_array_equal(np.asarray(et.shift_left(a, b)), np.left_shift(a, b))
    for got in (et.shift_right(a, b), et.asarray(a) >> et.asarray(b), np.right_shift(et.asarray(a), b)):
        np.testing.assert_array_equal(np.asarray(got), np.right_shift(a, b))
    for name, f in {"negative": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "bitwise_not": np.invert}.items():
        np.testing.assert_array_equal(np.asarray(getattr(et, name)(v)), f(v), name)
    # Nothing traps: a // 0 has all bits set, a % 0 is a.
    zero = np.zeros_like(v)
    np.testing.assert_array_equal(np.asarray(et.floor_divide(v, zero)), np.full_like(v, -1) if dtype != np.uint32 else ~zero)
    np.testing.assert_array_equal(np.asarray(et.remainder(v, zero)), v)


@pytest.mark.parametrize("other", INTEGERS)
def test_integers_of_64_bits_become_floats_of_64_bits(other):
    a = np.array([2**24 + 1, 2**31 - 1, 12345, 2**53 - 1], np.int64)
    b = np.array([2**24 + 1, 2**31 - 1, 2**24 + 3, 2**24 + 5], other)
    for p, q in ((a, b), (b, a)):
        got = et.divide(p, q)
        assert got.dtype == et.float64
        np.testing.assert_array_equal(np.asarray(got), p / q)
    for name in ("sqrt", "exp2", "log", "tanh", "mean"):
        got = getattr(et, name)(a)
        assert got.dtype == et.float64, name
        np.testing.assert_allclose(np.asarray(got), getattr(np, name)(a), rtol=1e-15)


# f, its first and its second derivative, and where: formulas that cancel nowhere.
def logistic(x):
    return special.expit(x)


SMALL = [0.0, 1e-20, -1e-20, 1e-8, -1e-8, 0.1, -0.1, 0.5, -0.5]
ALL = [*SMALL, 1.0, -1.0, 2.5, -2.5, 10.0, -10.0, 30.0, -30.0, 300.0, -300.0]
POSITIVE = [1e-20, 1e-8, 0.1, 0.5, 1.0, 2.5, 30.0, 1e10]
DERIVATIVES = {
    "exp": (np.exp, np.exp, ALL), "sin": (np.cos, lambda x: -np.sin(x), ALL), "cos": (lambda x: -np.sin(x), lambda x: -np.cos(x), ALL),
    "log": (lambda x: 1 / x, lambda x: -1 / x**2, POSITIVE), "log1p": (lambda x: 1 / (1 + x), lambda x: -1 / (1 + x)**2, SMALL),
    "sqrt": (lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5, POSITIVE),
    "rsqrt": (lambda x: -0.5 * x**-1.5, lambda x: 0.75 * x**-2.5, POSITIVE),
    "cbrt": (lambda x: x**(-2 / 3) / 3, lambda x: -2 / 9 * x**(-5 / 3), POSITIVE),
    "tanh": (lambda x: 1 / np.cosh(x)**2, lambda x: -2 * np.tanh(x) / np.cosh(x)**2, [x for x in ALL if abs(x) < 9]),
    "logistic": (lambda x: logistic(x) * logistic(-x), lambda x: logistic(x) * logistic(-x) * np.tanh(-x / 2), ALL),
    "softplus": (logistic, lambda x: logistic(x) * logistic(-x), ALL),
    "silu": (lambda x: logistic(x) * (1 + x * logistic(-x)), lambda x: logistic(x) * logistic(-x) * (2 + x * np.tanh(-x / 2)), ALL),
    "erf": (lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x), lambda x: -4 * x / np.sqrt(np.pi) * np.exp(-x * x), SMALL),
    "atan": (lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x)**2, ALL),
    "asinh": (lambda x: 1 / np.sqrt(1 + x * x), lambda x: -x * (1 + x * x)**-1.5, ALL),
    "sinh": (np.cosh, np.sinh, ALL), "cosh": (np.sinh, np.cosh, ALL), "square": (lambda x: 2 * x, lambda x: 2 + 0 * x, ALL),
    "lgamma": (special.digamma, lambda x: special.polygamma(1, x), [*POSITIVE, 1.4616321449683623]),
    "digamma": (lambda x: special.polygamma(1, x), lambda x: special.polygamma(2, x), POSITIVE),
}


def first(f):
    return et.grad(lambda x: et.sum(f(x)))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    f = getattr(et, name)
    once, twice, where = DERIVATIVES[name]
    x = np.array(where)
    # y·(1 − y) cancels far to the right; ψ beside its root.
    atol = {"silu": 1e-14, "lgamma": 1e-15}.get(name, 1e-16)
    check(name, first(f)(x), once(x), 1e-12, atol, x)
    check(name + ", twice", first(first(f))(x), twice(x), 1e-12, atol, x)
    forward = et.jvp(lambda x: et.jvp(f, (x,), (et.ones_like(x),))[1], (et.asarray(x),), (et.ones_like(x),))[1]
    check(name + ", twice, forward", forward, twice(x), 1e-12, atol, x)


def test_the_pole_of_lgamma():
    x = np.array([1e-3, -1e-3, 1e-8, -1e-8, 1e-20, -1e-20, 1e-150, -1e-150])
    euler = 0.57721566490153286
    near = -1 / x - euler + np.pi**2 / 6 * x
    check("digamma", et.digamma(x), near, 1e-8, 0, x)
    check("lgamma'", first(et.lgamma)(x), near, 1e-8, 0, x)
    check("digamma'", first(et.digamma)(x), 1 / x**2 + np.pi**2 / 6, 1e-5, 0, x)
    check("digamma", et.digamma(np.array([0.0, -0.0, -1.0, -2.0])), np.array([-np.inf, np.inf, np.nan, np.nan]), 0, 0)
    narrow = np.array([1e-3, -1e-3, 1e-30, -1e-30, -0.49999997], np.float32)
    check("digamma", et.digamma(narrow), special.digamma(narrow.astype(np.float64)).astype(np.float32), 3e-7, 0, narrow)


def test_derivatives_of_remainder_and_floor_divide():
    a, b = np.array([-1.0, 7.5, 6.0, -6.0, 3.0]), np.array([np.inf, -2.0, 3.0, 3.0, -np.inf])
    whole = np.floor_divide(a, b)
    by_a, by_b = (et.grad(lambda a, b: et.sum(et.remainder(a, b)), argnums=i)(a, b) for i in (0, 1))
    np.testing.assert_array_equal(np.asarray(by_a), np.ones(5))
    np.testing.assert_array_equal(np.asarray(by_b), -whole)
    for i in (0, 1):
        assert not np.asarray(et.grad(lambda a, b: et.sum(et.floor_divide(a, b)), argnums=i)(a, b)).any()


CONSTANTS = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, 1.5, 1 / 3, 0.25, np.inf, -np.inf, np.nan, 1e-40, 1e30)


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_are_what_arguments_are(dtype):
    """The compiler behind the native engine knows the functions of C: pow(x, 2) must not become x·x there alone."""
    x = np.concatenate([hard_numbers(dtype), np.random.default_rng(0).lognormal(size=2000).astype(dtype)])
    cases = [(name, c, first) for name in ("power", "atan2", "fmod", "remainder", "maximum", "divide") for c in CONSTANTS
             for first in (True, False)]

    def value(name, c, first, x):
        return getattr(et, name)(c, x) if first else getattr(et, name)(x, c)

    def written_out(x):
        return tuple(value(n, np.full((), c, dtype), first, x) for n, c, first in cases)

    def given(x, *constants):
        return tuple(value(n, c, first, x) for (n, _, first), c in zip(cases, constants))

    arguments = [np.full((), c, dtype) for _, c, _ in cases]
    want = et.jit(given, backend="interpreter")(x, *arguments)
    for got in (et.jit(written_out, backend="interpreter")(x), et.jit(written_out, backend="native")(x),
                et.jit(given, backend="native")(x, *arguments)):
        for case, g, w in zip(cases, got, want):
            g, w = np.asarray(g), np.asarray(w)
            same = (g == w) & (np.signbit(g) == np.signbit(w)) | (np.isnan(g) & np.isnan(w))
            assert same.all(), (case, [(x[i].item(), g[i].item(), w[i].item()) for i in np.flatnonzero(~same)[:3]])
