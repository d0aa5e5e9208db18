"""Step functions of random structure, for comparison with JAX. Each part is a function that draws its parameters and
returns them with a function (parameters, h, x) -> array like h; `random_step` puts a few of them together."""

import dataclasses
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PARTS = []


def part(function):
    PARTS.append(function)
    return function


@dataclasses.dataclass
class Draw:
    rng: Any
    batch: Any  # None or a size
    inputs: int
    units: int

    def normal(self, *shape):
        return jnp.asarray(0.5 * self.rng.normal(size=shape))

    def choose(self, *items):
        return items[self.rng.integers(len(items))]


# Products ---------------------------------------------------------------------------------------------------
@part
def dense(d):
    p = {"W": d.normal(d.inputs + d.units, d.units)}
    if d.choose(True, False):
        p["b"] = d.normal(d.units)

    def apply(p, h, x):
        y = jnp.concatenate([x, h], -1) @ p["W"]
        return y + p["b"] if "b" in p else y
    return p, apply


@part
def transposed_weight(d):
    return {"W": d.normal(d.units, d.inputs)}, lambda p, h, x: x @ p["W"].T


@part
def weight_first(d):
    return {"W": d.normal(d.units, d.units)}, lambda p, h, x: jnp.einsum("oi,...i->...o", p["W"], h)


@part
def masked_weight(d):
    mask = jnp.asarray(d.rng.random((d.units, d.units)) < 0.6, float)
    return {"W": d.normal(d.units, d.units)}, lambda p, h, x: h @ (jnp.abs(p["W"]) * mask)


@part
def normalised_weight(d):
    return {"W": d.normal(d.units, d.units), "g": d.normal(d.units)}, \
        lambda p, h, x: h @ (p["g"] * p["W"] / jnp.linalg.norm(p["W"], axis=0))


@part
def low_rank(d):
    return {"A": d.normal(d.units, 2), "B": d.normal(2, d.units)}, lambda p, h, x: h @ p["A"] @ p["B"]


@part
def tokens(d):
    """Several positions share one weight."""
    p = {"W": d.normal(2, 2), "v": d.normal(2, d.units)}

    def apply(p, h, x):
        y = jnp.stack([x[..., :2], x[..., -2:], x[..., 1:3]], -2)
        return jnp.tanh(y @ p["W"]).sum(-2) @ p["v"]
    return p, apply


@part
def grouped(d):
    return {"W": d.normal(d.inputs, 2, d.units)}, \
        lambda p, h, x: jnp.einsum("...g,gkn->...n", x, p["W"] ** 2)


@part
def convolution(d):
    width = d.choose(2, 3)
    p = {"K": d.normal(width, 1, 1)}
    numbers = d.choose(("NWC", "WIO", "NWC"), ("NCW", "WIO", "NCW"))

    def apply(p, h, x):
        channel = -1 if numbers[0] == "NWC" else -2
        y = jnp.expand_dims(h if d.batch else h[None], channel)
        y = lax.conv_general_dilated(y, p["K"], (1,), "SAME", dimension_numbers=numbers)
        y = jnp.squeeze(y, channel)
        return y if d.batch else y[0]
    return p, apply


@part
def table(d):
    p = {"T": d.normal(5, d.units)}

    def apply(p, h, x):
        index = (jnp.abs(x[..., 0]) * 10).astype(jnp.int32) % 5
        return jnp.take(p["T"], index, axis=0) if d.units % 2 else p["T"][index]
    return p, apply


@part
def scalar_weight(d):
    return {"a": d.normal()}, lambda p, h, x: jax.nn.sigmoid(p["a"]) * h


@part
def element_wise(d):
    return {"a": d.normal(d.units), "b": d.normal(d.units)}, lambda p, h, x: jnp.sin(h * p["a"] + jnp.exp(p["b"]))


@part
def softplus_gain(d):
    return {"a": d.normal(d.units)}, lambda p, h, x: jnp.logaddexp(h, p["a"])


# Control flow -----------------------------------------------------------------------------------------------
@part
def inner_scan(d):
    def apply(p, h, x):
        def body(c, s):
            return jnp.tanh(c @ p["W"] + s), c.sum()
        y, sums = lax.scan(body, h, jnp.arange(3.0), reverse=d.inputs % 2 == 0)
        return y + sums[1]
    return {"W": d.normal(d.units, d.units)}, apply


@part
def branches(d):
    p = {"W": d.normal(d.inputs, d.units), "V": d.normal(d.inputs, d.units)}
    return p, lambda p, h, x: lax.cond(x.sum() > 0, lambda v: v @ p["W"], lambda v: jnp.cos(v @ p["V"]), x)


@part
def switch(d):
    def apply(p, h, x):
        index = jnp.clip(jnp.floor(x.sum()), 0, 2).astype(jnp.int32)
        return lax.switch(index, [jnp.sin, jnp.tanh, lambda v: v * p["a"]], h)
    return {"a": d.normal(d.units)}, apply


@part
def while_loop(d):
    def apply(p, h, x):
        start = (0, lax.stop_gradient(h))  # JAX has no reverse mode through it
        return p["a"] * lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1]) + 0.1), start)[1]
    return {"a": d.normal(d.units)}, apply


@part
def fori(d):
    return {"a": d.normal(d.units)}, \
        lambda p, h, x: lax.fori_loop(0, 3, lambda i, v: 0.5 * v + jnp.cos(i * p["a"]), h)


# Derivatives of their own, calls, maps ----------------------------------------------------------------------
@jax.custom_vjp
def spike(x):
    return (x > 0).astype(x.dtype)


spike.defvjp(lambda x: (spike(x), x), lambda x, ct: (ct / (1 + jnp.abs(x)) ** 2,))


@jax.custom_jvp
def scaled(x, n):
    return x * n


scaled.defjvp(lambda primals, tangents: (scaled(*primals), 3.0 * tangents[0]))


@part
def surrogate(d):
    return {"W": d.normal(d.inputs, d.units)}, lambda p, h, x: spike(x @ p["W"] + h)


@part
def own_jvp(d):
    return {"a": d.normal(d.units)}, lambda p, h, x: scaled(h * p["a"], 2) + jax.nn.relu(h) + jax.nn.gelu(h)


@part
def checkpointed(d):
    f = jax.checkpoint(lambda p, h: jnp.tanh(h @ p["W"]) * jax.nn.silu(h))
    return {"W": d.normal(d.units, d.units)}, lambda p, h, x: f(p, h)


@part
def mapped(d):
    def apply(p, h, x):
        y = jax.vmap(lambda a: a * p["a"], in_axes=-1, out_axes=-1)(h)
        return jax.jit(jnp.cumsum, static_argnums=1)(y, -1)
    return {"a": d.normal()}, apply


# Shapes and order -------------------------------------------------------------------------------------------
@part
def pooled(d):
    def apply(p, h, x):
        y = jnp.repeat(h * p["a"], 2, -1)
        pick = lax.max if d.units % 2 else lax.add
        window = (1,) * (y.ndim - 1) + (2,)
        return lax.reduce_window(y, -jnp.inf if d.units % 2 else 0.0, pick, window, window, "VALID")
    return {"a": d.normal(d.units)}, apply


@part
def ordered(d):
    def apply(p, h, x):
        values, _ = lax.top_k(h + p["a"], d.units)
        return values - jnp.sort(h, -1) + jnp.flip(jax.nn.softmax(h, -1), -1)
    return {"a": d.normal(d.units)}, apply


@part
def normalised(d):
    def apply(p, h, x):
        mean, var = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
        return (h - mean) / jnp.sqrt(var + 1e-3) * p["g"] + p["b"]
    return {"g": d.normal(d.units), "b": d.normal(d.units)}, apply


@part
def sliced(d):
    def apply(p, h, x):
        y = jnp.tile(x[..., :2] @ p["W"], 2)[..., 1:]
        y = jnp.concatenate([y, h], -1)[..., :d.units]
        return y.at[..., 0].add(1.0) * jnp.where(h > 0, 1.0, -0.5)
    return {"W": d.normal(2, 2)}, apply


# Weights shared, cut and put together ---------------------------------------------------------------------------
@part
def tied(d):
    return {"W": d.normal(d.inputs, d.units)}, lambda p, h, x: jnp.tanh(x @ p["W"] @ p["W"].T) @ p["W"]


@part
def used_twice(d):
    return {"W": d.normal(d.units, d.units)}, lambda p, h, x: h @ p["W"] + jnp.sin(h) @ p["W"] - h * p["W"][0]


@part
def gates(d):
    """One product, cut into uneven pieces behind what acts element by element; one of them is read whole, too."""
    p = {"W": d.normal(d.inputs + d.units, 2 * d.units + 1), "b": d.normal(2 * d.units + 1), "g": d.normal()}

    def apply(p, h, x):
        z = jnp.sin(jnp.concatenate([h, x], -1) @ p["W"] + p["b"]) * p["g"]
        a, b, c = jnp.split(z, [d.units, 2 * d.units], -1)
        return a * b + c + z[..., 1:d.units + 1] + z.sum(-1, keepdims=True)
    return p, apply


@part
def pieces_of_one_weight(d):
    p = {"W": d.normal(d.units + d.inputs, d.units)}
    return p, lambda p, h, x: h @ p["W"][:d.units] + x @ p["W"][d.units:] + h * p["W"][-1]


@part
def scanned_weights(d):
    def apply(p, h, x):
        return lax.scan(lambda c, w: (jnp.tanh(c @ w), None), h, p["W"])[0]
    return {"W": d.normal(2, d.units, d.units)}, apply


@part
def scaled_by_a_sum(d):
    """A product with a number, and one whose result no axis of the weight reaches."""
    return {"w": d.normal(d.units), "v": d.normal(d.units)}, \
        lambda p, h, x: jnp.einsum("u,...v->...v", p["w"], h) + jnp.einsum("u,...u->...", p["v"], h)[..., None]


@part
def broadcast_column(d):
    p = {"a": d.normal(3, 1), "b": d.normal(1, d.units)}
    return p, lambda p, h, x: (h[..., None, :] * p["a"] + p["b"]).sum(-2)


@part
def einsum_of_three(d):
    return {"A": d.normal(d.inputs, d.units, d.units)}, lambda p, h, x: jnp.einsum("...i,ijk,...j->...k", x, p["A"], h)


@part
def shared_axis(d):
    """dot_general with axes that both operands keep."""
    p = {"W": d.normal(d.units, 2, 2)}

    def apply(p, h, x):
        y = jnp.stack([h, jnp.cos(h)], -1)
        return jnp.einsum("...ua,uab->...ub", y, p["W"]).sum(-1)
    return p, apply


# Places ---------------------------------------------------------------------------------------------------------
@part
def modes(d):
    """Positions outside of an array: clipped, dropped, filled, counted from the end."""
    def apply(p, h, x):
        i = jnp.floor(x[..., :2] * 4).astype(jnp.int32)
        table = p["T"].at[i].get(mode=d.choice, fill_value=0.5).sum(-2)
        return table + jnp.take(p["a"], i[..., 0], mode="wrap")[..., None] * h
    d.choice = d.choose("clip", "fill")
    return {"T": d.normal(3, d.units), "a": d.normal(5)}, apply


def _vmap_clamps():
    """Up to JAX 0.6 the gradient of a cut under vmap loses what lies beyond the ends; cuts one by one keep it."""
    def cut(a, start):
        return lax.dynamic_slice(a, (start,), (2,)).sum()
    starts = jnp.array([9, 0], jnp.int32)
    return float(jax.grad(lambda a: jax.vmap(cut, (None, 0))(a, starts).sum())(jnp.zeros(3)).sum()) == 4.0


@part
def clamped_slice(d):
    at_once = _vmap_clamps()

    def one(p, h, x):
        start = (x[0] * 20).astype(jnp.int32)
        y = lax.dynamic_slice(p["a"], (start,), (d.units,)) * h
        return y + lax.dynamic_update_slice(h, p["b"], (-start,)) + lax.dynamic_index_in_dim(h, start, keepdims=False)

    def apply(p, h, x):
        if not d.batch:
            return one(p, h, x)
        if at_once:
            return jax.vmap(one, (None, 0, 0))(p, h, x)
        return jnp.stack([one(p, h[k], x[k]) for k in range(d.batch)])
    return {"a": d.normal(d.units + 3), "b": d.normal(2)}, apply


@part
def written(d):
    def apply(p, h, x):
        y = h.at[..., 1].set(p["a"][0]).at[..., jnp.array([0, 0])].add(p["a"])
        return y.at[..., -1].add(x[..., 0])
    return {"a": d.normal(2)}, apply


@part
def chosen(d):
    """Several conditions, which JAX turns into a position among the cases."""
    def apply(p, h, x):
        return jnp.select([h > 0.5, h < -0.5], [h * p["a"], jnp.broadcast_to(p["b"], h.shape)], jnp.sin(h))
    return {"a": d.normal(d.units), "b": d.normal(d.units)}, apply


@part
def ranked(d):
    def apply(p, h, x):
        y = h * p["a"]
        order = jnp.argsort(y, -1)
        return jnp.take_along_axis(y, order, -1) + jnp.argmax(y, -1)[..., None] + order * y
    return {"a": d.normal(d.units)}, apply


@part
def running(d):
    def apply(p, h, x):
        y, axis = h * p["a"], h.ndim - 1
        return lax.cumsum(y, axis, reverse=True) + lax.cumprod(1 + 0.1 * y, axis) + lax.cummax(h, axis) \
            + lax.cumlogsumexp(y, axis, reverse=True)
    return {"a": d.normal(d.units)}, apply


@part
def windows(d):
    def apply(p, h, x):
        y = (h * p["a"])[..., None] * h[..., None, :]
        lead = (1,) * (h.ndim - 1)
        a = lax.reduce_window(y, -jnp.inf, lax.max, (*lead, 2, 2), (*lead, 1, 1), "SAME").sum(-2)
        pad = ((0, 0),) * len(lead) + ((1, 0), (0, 1))
        b = lax.reduce_window(y, 0.0, lax.add, (*lead, 2, 2), (*lead, 2, 1), pad, window_dilation=(*lead, 2, 1))
        return a + b.sum((-1, -2))[..., None]
    return {"a": d.normal(d.units)}, apply


@part
def wide_convolution(d):
    """Groups, steps, gaps in data and kernel, uneven and negative padding, layouts in another order."""
    numbers = d.choose(("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OIHW", "NCHW"))
    groups = d.choose(1, 2)
    sizes = {"O": 2, "I": 2 // groups, "H": 2, "W": 2}
    options = dict(window_strides=d.choose((1, 1), (2, 1)), padding=d.choose("SAME", ((1, 0), (-1, 2))),
                   rhs_dilation=d.choose((1, 1), (2, 1)), feature_group_count=groups)
    if options["padding"] != "SAME":
        options["lhs_dilation"] = d.choose((1, 1), (1, 2))

    def apply(p, h, x):
        y = h if d.batch else h[None]
        y = jnp.stack([y[..., None] * y[..., None, :], jnp.sin(y)[..., None] + y[..., None, :]], -1)  # NHWC
        y = jnp.transpose(y, ["NHWC".index(c) for c in numbers[0]])
        z = lax.conv_general_dilated(y, p["K"], dimension_numbers=numbers, **options)
        z = z.sum([i for i, c in enumerate(numbers[2]) if c in "HW"]).sum(-1, keepdims=True)
        return h * (z if d.batch else z[0])
    return {"K": d.normal(*(sizes[c] for c in numbers[1]))}, apply


# More control flow ----------------------------------------------------------------------------------------------
@part
def scan_in_scan(d):
    def apply(p, h, x):
        def outer(c, s):
            y, sums = lax.scan(lambda c, t: (jnp.tanh(c @ p["W"] + s * t), c.sum()), c, jnp.arange(2.0))
            return y, sums.sum()
        y, sums = lax.scan(outer, h, jnp.moveaxis(x[..., :2], -1, 0)[..., None])
        return y + sums[-1]
    return {"W": d.normal(d.units, d.units)}, apply


@part
def while_with_captures(d):
    def apply(p, h, x):
        bound, gain = jnp.abs(x).sum(), lax.stop_gradient(p["a"])

        def body(c):
            n, v = c
            return n + 1, lax.cond(n % 2 == 0, jnp.sin, lambda v: v * gain, v)
        end = lax.while_loop(lambda c: (c[0] < 4) & (c[0] < bound + 2), body, (0, lax.stop_gradient(h)))
        return p["a"] * end[1] + end[0]
    return {"a": d.normal(d.units)}, apply


@part
def while_per_sample(d):
    def one(h, x):
        go = (lambda c: (c[0] < 4) & (jnp.abs(c[1]).sum() < x[0] + 2))
        return lax.while_loop(go, lambda c: (c[0] + 1, 1.3 * c[1] + 0.1 * x[1]), (0, h))

    def apply(p, h, x):
        h, x = lax.stop_gradient(h), lax.stop_gradient(x)
        n, y = jax.vmap(one)(h, x) if d.batch else one(h, x)
        return p["a"] * y + n[..., None] if d.batch else p["a"] * y + n
    return {"a": d.normal(d.units)}, apply


@part
def closures(d):
    p = {"W": d.normal(d.units, d.units)}
    return p, lambda p, h, x: lax.cond(x.sum() > 0, lambda: h @ p["W"], lambda: h * p["W"][0])


@part
def gradient_inside(d):
    def apply(p, h, x):
        return h - 0.1 * jax.grad(lambda v: jnp.sum(jnp.tanh(v @ p["W"]) ** 2))(h)
    return {"W": d.normal(d.units, d.units)}, apply


@part
def associative(d):
    def apply(p, h, x):
        gain = jnp.broadcast_to(jax.nn.sigmoid(p["a"]), h.shape)
        return lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (gain, h), axis=-1)[1]
    return {"a": d.normal(d.units)}, apply


@jax.custom_vjp
def two_results(x, n):
    return x * n, jnp.sin(x)


two_results.defvjp(lambda x, n: (two_results(x, n), (x, n)),
                   lambda r, ct: (ct[0] * r[1] + 3.0 * ct[1] * r[0], None))


@part
def own_vjp_of_two(d):
    def apply(p, h, x):
        a, b = two_results(h * p["a"], jnp.where(x[..., 0].sum() > 0, 2, 1))
        return a - b
    return {"a": d.normal(d.units)}, apply


# Numbers --------------------------------------------------------------------------------------------------------
@part
def whole_numbers(d):
    def apply(p, h, x):
        i = (x * 30).astype(d.kind)
        n = i // 7 + i % -5 + lax.rem(i, jnp.full_like(i, 7)) + lax.div(i, jnp.full_like(i, -3))
        n = n.sum(-1, keepdims=True)
        return jnp.sin(n * 0.1) * p["a"] + (i << 1 ^ 3).sum(-1, keepdims=True) * 1e-3 * h
    d.kind = d.choose(jnp.int32, jnp.int64)
    return {"a": d.normal(d.units)}, apply


@part
def special_functions(d):
    def apply(p, h, x):
        y, s = h * p["a"], jax.scipy.special
        return s.erf(y) + s.gammaln(jnp.abs(y) + 1) + jnp.sinc(h) + jnp.hypot(h, p["a"]) + jnp.cbrt(y) \
            + jnp.arctan2(h, p["a"]) + jnp.mod(h, 0.3) + jnp.abs(y) ** p["a"] + (h + 3) ** -2 + jnp.round(y)
    return {"a": d.normal(d.units)}, apply


@part
def activations(d):
    n = jax.nn

    def apply(p, h, x):
        y = h * p["a"]
        return n.selu(y) + n.celu(h) + n.elu(y) + n.hard_swish(h) + n.leaky_relu(y) + n.mish(h) + n.squareplus(y) \
            + n.glu(jnp.concatenate([h, y], -1)) + n.log_softmax(y, -1) + n.one_hot(1, d.units) * h + n.relu6(y)
    return {"a": d.normal(d.units)}, apply


# A whole step -----------------------------------------------------------------------------------------------
@dataclasses.dataclass
class Case:
    step: Callable
    params: Any
    state: Any
    example: Any
    xs: Any
    targets: Any
    batch: Any
    parts: list


def random_step(seed, steps=5, only=None):
    rng = np.random.default_rng(seed)
    batch = [None, 2, 3][rng.integers(3)]
    d = Draw(rng, batch, int(rng.integers(3, 5)), int(rng.integers(2, 6)))
    lead = () if batch is None else (batch,)
    chosen = [only] if only else [PARTS[i] for i in rng.choice(len(PARTS), rng.integers(1, 4), replace=False)]
    made = {f"{i}_{c.__name__}": c(d) for i, c in enumerate(chosen)}
    params = {k: p for k, (p, _) in made.items()}
    params["out"] = d.normal(d.units, 2)
    state = {"h": d.normal(*lead, d.units)}
    gate, second, noisy = d.choose(True, False), d.choose(True, False), d.choose(True, False, False)
    delayed, keys = d.choose(True, False, False), d.choose(True, False, False)
    squash = d.choose(jnp.tanh, jnp.arctan, jax.nn.soft_sign)
    if gate:
        params["gate"] = d.normal(d.inputs, d.units)
    if second:
        state["c"] = d.normal(*lead, d.units)
        params["leak"] = d.normal(d.units)
    if noisy:
        state["key"] = jax.random.key(seed)
    if delayed:  # a ring of the last values, and the count of steps; leaves that are None
        state["ring"], state["n"] = jnp.zeros((*lead, 3, d.units)), jnp.int32(0)
        state["none"] = params["none"] = None
    if keys:
        state["keys"] = jax.random.split(jax.random.key(seed), d.units)

    def step(p, s, x):
        h, new = s["h"], {}
        drive = sum(f(p[k], h, x) for k, (_, f) in made.items())
        if noisy:
            new["key"], use = jax.random.split(s["key"])
            drive = drive + 0.1 * jax.random.uniform(use, h.shape, jnp.float32).astype(h.dtype)
        if second:
            new["c"] = jax.nn.sigmoid(p["leak"]) * s["c"] + squash(drive)
            drive = drive - new["c"]
        if delayed:
            drive = drive + 0.5 * s["ring"][..., (s["n"] + 1) % 3, :]
        if keys:
            new["keys"] = jax.vmap(jax.random.fold_in, (0, None))(s["keys"], 3)
            noise = jax.vmap(lambda k: jax.random.uniform(k, (), jnp.float32))(new["keys"])
            drive = drive + 0.1 * noise.astype(h.dtype)
        z = jax.nn.sigmoid(x @ p["gate"]) if gate else 0.5
        new["h"] = z * h + (1 - z) * squash(drive)
        if delayed:
            new["ring"] = s["ring"].at[..., s["n"] % 3, :].set(new["h"])
            new["n"], new["none"] = s["n"] + 1, None
        return new, new["h"] @ p["out"]

    return Case(step, params, state, jnp.zeros((*lead, d.inputs)), d.normal(steps, *lead, d.inputs),
                d.normal(steps, *lead, 2), batch, [c.__name__ for c in chosen])
