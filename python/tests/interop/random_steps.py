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
    squash = d.choose(jnp.tanh, jnp.arctan, jax.nn.soft_sign)
    if gate:
        params["gate"] = d.normal(d.inputs, d.units)
    if second:
        state["c"] = d.normal(*lead, d.units)
        params["leak"] = d.normal(d.units)
    if noisy:
        state["key"] = jax.random.key(seed)

    def step(p, s, x):
        h, new = s["h"], {}
        drive = sum(f(p[k], h, x) for k, (_, f) in made.items())
        if noisy:
            new["key"], use = jax.random.split(s["key"])
            drive = drive + 0.1 * jax.random.uniform(use, h.shape, jnp.float32).astype(h.dtype)
        if second:
            new["c"] = jax.nn.sigmoid(p["leak"]) * s["c"] + squash(drive)
            drive = drive - new["c"]
        z = jax.nn.sigmoid(x @ p["gate"]) if gate else 0.5
        new["h"] = z * h + (1 - z) * squash(drive)
        return new, new["h"] @ p["out"]

    return Case(step, params, state, jnp.zeros((*lead, d.inputs)), d.normal(steps, *lead, d.inputs),
                d.normal(steps, *lead, 2), batch, [c.__name__ for c in chosen])
