"""Primitives of JAX that have no row in etrace, written by those that have one. Each entry takes the parameters of
the equation and gives a function of its operands; the walker traces it at the equation's types. To add one, add a
function here and a sample in python/tests/interop/test_expand.py."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

EXPANSIONS = {}


def _expands(*names):
    def register(rule):
        for name in names:
            EXPANSIONS[name] = rule
        return rule
    return register


@_expands("optimization_barrier", "pvary", "random_clone")
def _identity(**_):
    return lambda *x: x


@_expands("one_minus_square")
def _one_minus_square(**_):
    return lambda x: 1 - x * x


@_expands("polynomial")
def _polynomial(**_):
    def polynomial(x, *coefficients):  # from the lowest degree on
        value = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            value = value * x + c
        return jnp.broadcast_to(value, jnp.broadcast_shapes(x.shape, *(jnp.shape(c) for c in coefficients)))
    return polynomial


@_expands("unstack")
def _unstack(axis, **_):
    def unstack(x):
        parts = (lax.slice_in_dim(x, i, i + 1, axis=axis) for i in range(x.shape[axis]))
        return [lax.squeeze(p, (axis,)) for p in parts]
    return unstack


@_expands("tile")
def _tile(reps, **_):
    def tile(x):
        times = (*(1,) * (x.ndim - len(reps)), *reps)
        x = lax.reshape(x, (1,) * (len(times) - x.ndim) + x.shape)
        both = tuple(n for pair in zip(times, x.shape) for n in pair)
        spread = lax.broadcast_in_dim(x, both, tuple(range(1, 2 * x.ndim, 2)))
        return lax.reshape(spread, tuple(t * n for t, n in zip(times, x.shape)))
    return tile


@jax.custom_jvp
def exprel(x):
    """(eˣ − 1)/x."""
    at_zero = x == 0
    safe = lax.select_n(at_zero, x, jnp.ones_like(x))
    return lax.select_n(at_zero, lax.expm1(safe) / safe, jnp.ones_like(x))


@exprel.defjvp
def _exprel_jvp(primals, tangents):
    """((x − 1)eˣ + 1)/x², near 0 by its series Σ (n + 1)/(n + 2)! xⁿ: the closed form cancels there."""
    (x,), (dx,) = primals, tangents
    small = jnp.abs(x) < 0.25
    safe = lax.select_n(small, x, jnp.ones_like(x))
    series = jnp.zeros_like(x)
    for n in reversed(range(12)):
        series = series * x + (n + 1) / math.factorial(n + 2)
    slope = lax.select_n(small, ((safe - 1) * jnp.exp(safe) + 1) / (safe * safe), series)
    return exprel(x), slope * dx


@_expands("exprel")
def _exprel(**_):
    return exprel


# Windows ---------------------------------------------------------------------------------------------------
def _windows(x, fill, window_dimensions, window_strides, padding, base_dilation, window_dilation, **_):
    """The value at each position of the window, as arrays over all windows."""
    x = lax.pad(x, fill, [(low, high, d - 1) for (low, high), d in zip(padding, base_dilation)])
    reach = [(n - 1) * d for n, d in zip(window_dimensions, window_dilation)]
    for offset in itertools.product(*map(range, window_dimensions)):
        start = [o * d for o, d in zip(offset, window_dilation)]
        stop = [s + n - r for s, n, r in zip(start, x.shape, reach)]
        yield lax.slice(x, start, stop, window_strides)


@_expands("reduce_window_sum")
def _window_sum(**params):
    def window_sum(x):
        parts = _windows(x, x.dtype.type(0), **params)
        total = next(parts)
        for part in parts:
            total = total + part
        return total
    return window_sum


def _window_extreme(better, worst, params):
    def extreme(x):
        parts = _windows(x, worst(x.dtype), **params)
        best = next(parts)
        for part in parts:  # of equal ones the first; NaN wins
            best = lax.select_n(better(part, best) | (part != part), best, part)
        return best
    return extreme


def _least(dtype):
    return dtype.type(-np.inf) if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _greatest(dtype):
    return dtype.type(np.inf) if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


@_expands("reduce_window_max")
def _window_max(**params):
    return _window_extreme(lax.gt, _least, params)


@_expands("reduce_window_min")
def _window_min(**params):
    return _window_extreme(lax.lt, _greatest, params)


# Order -----------------------------------------------------------------------------------------------------
@_expands("top_k")
def _top_k(k, axis=-1, operand=None, **_):
    def top_k(x):
        dim = axis % x.ndim
        descending = -x if jnp.issubdtype(x.dtype, jnp.floating) else ~x
        index = lax.broadcasted_iota(np.int32, x.shape, dim)
        _, values, indices = lax.sort((lax.stop_gradient(descending), x, index), dimension=dim, num_keys=1)
        return [lax.slice_in_dim(v, 0, k, axis=dim) for v in (values, indices)]
    return top_k


def _in_total_order(x):
    """Whole numbers that are ordered as the floats are: −0 before 0, NaN last."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    kind = {4: np.int32, 8: np.int64}[wide.dtype.itemsize]
    bits = lax.bitcast_convert_type(wide, kind)
    return lax.select_n(bits < 0, bits, bits ^ np.iinfo(kind).max)


@_expands("le_to")
def _le_to(**_):
    return lambda a, b: lax.le(_in_total_order(a), _in_total_order(b))


@_expands("lt_to")
def _lt_to(**_):
    return lambda a, b: lax.lt(_in_total_order(a), _in_total_order(b))


@_expands("population_count")
def _population_count(**_):
    def count(x):
        one, total = x.dtype.type(1), jnp.zeros_like(x)
        for i in range(8 * x.dtype.itemsize):
            total = total + (lax.shift_right_logical(x, jnp.full_like(x, i)) & one)
        return total
    return count


@_expands("reduce_precision")
def _reduce_precision(exponent_bits, mantissa_bits, **_):
    def reduce_precision(x):
        info = jnp.finfo(x.dtype)
        if (exponent_bits, mantissa_bits) != (info.nexp, info.nmant):
            raise NotImplementedError(f"rounding of {x.dtype} to {exponent_bits} bits of exponent and "
                                      f"{mantissa_bits} of mantissa; convert to a type of that width and back")
        return x
    return reduce_precision


# Random keys: uint32[..., 2] -------------------------------------------------------------------------------
def seeded_key(seed):
    """The threefry key of a seed: its two halves."""
    low = lax.convert_element_type(seed, np.uint32)
    high = jnp.zeros_like(low)
    if seed.dtype.itemsize == 8:
        high = lax.convert_element_type(lax.shift_right_logical(seed, jnp.full_like(seed, 32)), np.uint32)
    return jnp.stack([high, low], -1)
