"""Every expansion of _expand.py computes what the primitive of JAX computes."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from etrace.jax import _expand  # noqa: E402
from etrace.jax._expand import EXPANSIONS  # noqa: E402


def samples():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 6)))
    window = dict(window_dimensions=(1, 3), window_strides=(1, 2), padding=((0, 0), (1, 2)), base_dilation=(1, 1),
                  window_dilation=(1, 2))

    def reduced(init, f):
        return lambda x: lax.reduce_window(x, init, f, (1, 3), (1, 2), ((0, 0), (1, 2)), (1, 1), (1, 2))
    yield "reduce_window_sum", window, reduced(0.0, lax.add), (x,)
    yield "reduce_window_max", window, reduced(-jnp.inf, lax.max), (x,)
    yield "reduce_window_min", window, reduced(jnp.inf, lax.min), (x,)
    yield "top_k", {"k": 3}, lambda x: lax.top_k(x, 3), (x,)
    yield "top_k", {"k": 2}, lambda x: lax.top_k(x, 2), ((10 * x).astype(jnp.int32),)
    yield "unstack", {"axis": 1}, lambda x: [x[:, i] for i in range(6)], (x,)
    yield "tile", {"reps": (2, 3)}, lambda x: np.tile(x, (2, 3)), (x,)
    yield "one_minus_square", {}, lambda x: 1 - x**2, (x,)
    yield "polynomial", {}, lambda x, a, b, c: a + b * x + c * x**2, (x, jnp.float64(0.5), jnp.float64(-2.0), x[:1])
    yield "exprel", {}, lambda x: jnp.expm1(x) / x, (x,)
    yield "optimization_barrier", {}, lambda x: (x,), (x,)
    yield "le_to", {}, lambda a, b: a <= b, (x, x.at[0].set(0.0))
    yield "lt_to", {}, lambda a, b: a < b, (x, x.at[0].set(0.0))
    yield "population_count", {}, lax.population_count, (jnp.arange(-5, 9, dtype=jnp.int32),)
    yield "reduce_precision", {"exponent_bits": 11, "mantissa_bits": 52}, lambda x: x, (x,)


@pytest.mark.parametrize("name,params,expected,operands", list(samples()), ids=lambda v: v if isinstance(v, str) else "")
def test_expansion(name, params, expected, operands):
    function = EXPANSIONS[name](**params)
    jax.tree_util.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15),
                           list(function(*operands)) if isinstance(function(*operands), (list, tuple))
                           else function(*operands),
                           list(expected(*operands)) if isinstance(expected(*operands), (list, tuple))
                           else expected(*operands))


def test_total_order_of_zeros_and_nan():
    a, b = jnp.asarray([-0.0, 1.0, jnp.nan]), jnp.asarray([0.0, jnp.nan, 1.0])
    assert EXPANSIONS["lt_to"]()(a, b).tolist() == [True, True, False]


def test_every_expansion_has_a_sample():
    assert set(EXPANSIONS) - {"pvary", "random_clone"} == {s[0] for s in samples()}


def test_exprel_near_zero_with_its_derivative():
    x = jnp.asarray([0.0, 1e-300, 1e-9, -1e-5, 0.24, 0.26, -3.0, 30.0])
    with np.errstate(all="ignore"):
        exact = np.asarray([1.0, 1.0, 1 + 5e-10, 1 - 5e-6 + 1e-10 / 6, *np.expm1(np.asarray(x[4:])) / np.asarray(x[4:])])
    np.testing.assert_allclose(_expand.exprel(x), exact, rtol=1e-14)
    slope = jax.vmap(jax.grad(_expand.exprel))(x)
    direct = [((v - 1) * np.exp(v) + 1) / v**2 for v in np.asarray(x[4:])]
    np.testing.assert_allclose(slope, [0.5, 0.5, 0.5 + 1e-9 / 3, 0.5 - 1e-5 / 3 + 1e-10 / 8, *direct], rtol=1e-12)


def test_seeded_key():
    for seed in (0, 7, 2**31 - 1):
        made = _expand.seeded_key(jnp.asarray(seed))
        assert (made == jax.random.key_data(jax.random.key(seed))).all()
