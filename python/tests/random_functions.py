"""Random functions of two vectors, nested at random: jit, grad, jvp, vjp, vmap, Jacobians, loops and branches around
operations that have derivatives of their own. One function is evaluated in three ways: as it is, without et.jit, and
without loops, branches and maps (`written`), which are then spelled out in Python.
"""

import contextlib

import numpy as np

import etrace as et

N = 3
SURROGATES = ("sigmoid", "relu_grad", "gaussian", "arctan")


class Way:
    jit = loops = True


@contextlib.contextmanager
def evaluated(*, jit, loops=True):
    before = Way.jit, Way.loops
    Way.jit, Way.loops = jit, loops
    try:
        yield
    finally:
        Way.jit, Way.loops = before


# --- derivatives of their own, wrong on purpose: where a rule is dropped, the numbers change -----------------------


@et.custom_jvp
def own_jvp(x):
    return et.sin(x)


@own_jvp.defjvp
def _own_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return et.sin(x), 3.0 * et.cos(0.5 * x) * dx


@et.custom_vjp
def own_vjp(x, y):
    return et.tanh(x) * y


own_vjp.defvjp(lambda x, y: (et.tanh(x) * y, (x, y)), lambda r, ct: (-0.5 * et.stop_gradient(r[1]) * ct, et.cos(r[0]) * ct))


@et.custom_jvp
def own_outer(x):
    return own_jvp(x) * et.stop_gradient(x)


@own_outer.defjvp
def _own_outer(primals, tangents):
    (x,), (dx,) = primals, tangents
    return own_outer.fun(x), own_jvp(0.3 * x) * dx


# --- functions (x, y) -> z, all of N values ------------------------------------------------------------------------


def bounded(x):
    return et.tanh(0.5 * x)


def leaf(rng):
    c = rng.normal(size=N)
    w = rng.normal(size=(N, N)) / N
    name = str(rng.choice(SURROGATES))
    leaves = {
        "sin": lambda x, y: et.sin(x) + c * y,
        "mul": lambda x, y: x * y,
        "stop": lambda x, y: et.stop_gradient(x) * y,
        "stop_tanh": lambda x, y: x * et.stop_gradient(et.tanh(y)),
        "matmul": lambda x, y: et.matmul(x, et.asarray(w)) + y,
        "spike": lambda x, y: et.nn.spike(x - c, name) * y,
        "own_jvp": lambda x, y: own_jvp(x) + 0.3 * y,
        "own_vjp": lambda x, y: own_vjp(x, y),
        "own_outer": lambda x, y: own_outer(x) - y,
        "where": lambda x, y: et.where(x > y, x * c, et.sin(y)),
        "exp": lambda x, y: et.exp(-x * x) * et.sum(y * c),
        "stop_own": lambda x, y: et.stop_gradient(own_jvp(x)) + own_jvp(et.stop_gradient(y) * x),
    }
    which = str(rng.choice(list(leaves)))
    return named(leaves[which], which)


def named(f, text):
    f.text = text
    return f


def chain(rng, depth):
    """A few functions in a row, each of two of the values there are."""
    parts = [random_function(rng, depth - 1) for _ in range(rng.integers(1, 4))]
    picks = rng.integers(0, 2**20, size=(len(parts), 2))

    def f(x, y):
        values = [x, y]
        for part, (i, j) in zip(parts, picks):
            values.append(bounded(part(values[-1 - i % len(values)], values[j % len(values)])))
        return values[-1]

    return named(f, f"chain({', '.join(part.text for part in parts)})")


def jitted(g, h, rng):
    compiled = et.jit(g, backend="interpreter")
    return lambda x, y: compiled(x, y) if Way.jit else g(x, y)


def scanned(g, h, rng):
    steps, reverse, every = int(rng.integers(1, 4)), bool(rng.integers(2)), int(rng.integers(3))
    data = rng.normal(size=(steps, N))

    def f(x, y):
        def step(c, d):
            new = bounded(g(c, y * d))
            return new, new * c

        if Way.loops:
            carry, ys = et.scan(step, x, et.asarray(data), reverse=reverse, checkpoint_every=every)
            return carry + et.sum(ys, 0)
        carry, total = x, 0.0
        for d in data[::-1] if reverse else data:
            carry, out = step(carry, d)
            total = total + out
        return carry + total

    return f


def fori(g, h, rng):
    steps = int(rng.integers(3))

    def f(x, y):
        if Way.loops:
            return et.fori_loop(0, steps, lambda i, v: bounded(g(v, y)), x)
        for _ in range(steps):
            x = bounded(g(x, y))
        return x

    return f


def whiled(g, h, rng):
    steps = int(rng.integers(3))

    def f(x, y):
        if Way.loops:
            return et.while_loop(lambda v: v[0] < steps, lambda v: (v[0] + 1, bounded(g(v[1], y))), (et.asarray(0), x))[1]
        for _ in range(steps):
            x = bounded(g(x, y))
        return x

    return f


def branched(g, h, rng):
    at = float(rng.normal())

    def f(x, y):
        chosen = et.sum(x) > at
        if Way.loops:
            return et.cond(chosen, g, h, x, y)
        return et.where(chosen, g(x, y), h(x, y))

    return f


def switched(g, h, rng):
    at = float(rng.normal())

    def f(x, y):
        index = et.where(et.sum(y) > at, 1, 0)
        if Way.loops:
            return et.switch_case(index, [g, h], x, y)
        return et.where(index == 1, h(x, y), g(x, y))

    return f


def mapped(g, h, rng):
    scales = rng.normal(size=(2, 1))
    both = bool(rng.integers(2))

    def f(x, y):
        xs = x * scales
        if Way.loops:
            return et.sum(et.vmap(g, in_axes=(0, 0 if both else None))(xs, y * scales if both else y), 0)
        return g(xs[0], y * scales[0] if both else y) + g(xs[1], y * scales[1] if both else y)

    return f


def gradient(g, h, rng):
    return lambda x, y: et.grad(lambda v: et.sum(g(v, y)))(x)


def both_gradients(g, h, rng):
    def f(x, y):
        value, (a, b) = et.value_and_grad(lambda v, w: et.sum(g(v, w) * et.cos(v)), argnums=(0, 1))(x, y)
        return value * a + b

    return f


def pushed(g, h, rng):
    c = rng.normal(size=N)
    return lambda x, y: et.jvp(g, (x, y), (y, et.asarray(c)))[1]


def pulled(g, h, rng):
    return lambda x, y: et.vjp(g, x, y)[1](y)[0]


def jacobian(g, h, rng):
    take = et.jacfwd if rng.integers(2) else et.jacrev
    return lambda x, y: et.sum(take(lambda v: g(v, y))(x) * y, 1)


WRAPPERS = [jitted] * 4 + [
    scanned, fori, whiled, branched, switched, mapped, gradient, both_gradients, pushed, pulled, jacobian,
]  # fmt: skip


def random_function(rng, depth):
    if depth <= 0 or rng.random() < 0.15:
        return leaf(rng)
    if rng.random() < 0.35:
        return chain(rng, depth)
    wrap = WRAPPERS[rng.integers(len(WRAPPERS))]
    g, h = random_function(rng, depth - 1), random_function(rng, depth - 1)
    two = wrap in (branched, switched)
    return named(wrap(g, h, rng), f"{wrap.__name__}({g.text}{', ' + h.text if two else ''})")


# --- what is taken of them -----------------------------------------------------------------------------------------


def taken(f, rng):
    """Value, gradients and tangents of a function, its outermost transformations through et.jit as well."""
    x, y = (et.asarray(v) for v in rng.normal(size=(2, N)))
    g = jitted(f, None, rng)

    def loss(v, w):
        return et.sum(g(v, w) * et.cos(v))

    steep = jitted(et.grad(loss, argnums=(0, 1)), None, rng)
    return {
        "value": g(x, y),
        "grad": steep(x, y),
        "jvp": et.jvp(g, (x, y), (y, x)),
        "vmap": et.vmap(steep)(et.stack([x, y]), et.stack([y, x])) if Way.loops else _stacked(steep, x, y),
    }


def _stacked(f, x, y):
    return [et.stack(list(pair)) for pair in zip(f(x, y), f(y, x))]


def numbers(seed):
    """(what, [as it is, without jit, written]) of the function of this seed; None where it is not supported.

    Whatever is refused must be refused in every way alike.
    """
    depth = 1 + seed % 4
    f = random_function(np.random.default_rng([seed]), depth)
    found = []
    for jit, loops in ((True, True), (False, True), (False, False)):
        with evaluated(jit=jit, loops=loops):
            try:
                out = taken(f, np.random.default_rng([seed, 1]))
            except et.NotSupportedError as error:
                out = error
        found.append(out)
    if isinstance(found[1], et.NotSupportedError):
        assert isinstance(found[0], et.NotSupportedError), f"seed {seed}: refused only without et.jit: {found[1]}"
        return None
    for out, how in zip(found, ("through et.jit", "", "spelled out")):
        if isinstance(out, et.NotSupportedError):
            raise AssertionError(f"seed {seed}: refused {how}, but not otherwise") from out
    return {k: [np.concatenate([a.numpy().ravel() for a in flat(out[k])]) for out in found] for k in found[0]}


def flat(tree):
    return [a for t in tree for a in flat(t)] if isinstance(tree, (tuple, list)) else [tree]


def check(seed):
    """Differences beyond rounding are faults. True if anything was compared whose gradient is not zero."""
    found = numbers(seed)
    if found is None:
        return False
    for what, (jit, plain, written) in found.items():
        assert np.all(np.isfinite(plain)), f"seed {seed}, {what}: {plain}"
        scale = max(1.0, np.max(np.abs(plain)))
        for other, name, bound in ((jit, "through et.jit", 1e-12), (written, "spelled out", 1e-10)):
            error = np.max(np.abs(other - plain)) / scale
            assert error <= bound, f"seed {seed}, {what} {name}: off by {error}\n{other}\n{plain}"
    return bool(np.any(found["grad"][1]))
