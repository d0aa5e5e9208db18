"""Derivatives through et.jit, in random nestings with every other transformation, are those of the plain function."""

import os

import numpy as np
import pytest
import random_functions

import etrace as et

# ETRACE_RANDOM_FUNCTIONS=10000 checks as many; ETRACE_RANDOM_FUNCTIONS_FROM is the first seed.
COUNT = int(os.environ.get("ETRACE_RANDOM_FUNCTIONS", "60"))
FIRST = int(os.environ.get("ETRACE_RANDOM_FUNCTIONS_FROM", "0"))


def test_random_functions_have_the_same_derivatives_through_jit():
    alive, faults = 0, []
    for seed in range(FIRST, FIRST + COUNT):
        try:
            alive += random_functions.check(seed)
        except AssertionError as error:
            faults.append(str(error))
    assert not faults, f"{len(faults)} of {COUNT}\n" + "\n".join(faults[:5])
    assert alive > COUNT // 3, f"only {alive} of {COUNT} have a gradient"


def stopped(x):
    return et.stop_gradient(x) * x


def spiked(x):
    return et.nn.spike(x - 2.1, "sigmoid")


RULES = {"stop_gradient": stopped, "surrogate": spiked, "custom_jvp": random_functions.own_jvp,
         "custom_vjp": lambda x: random_functions.own_vjp(x, x)}  # fmt: skip


def vjp_at(f, x):
    out = et.vjp(f, x)[1](et.asarray(np.float64(1.0)))
    return out[0] if isinstance(out, tuple) else out


WAYS = {
    "grad": lambda f, x: et.grad(f)(x),
    "jvp": lambda f, x: et.jvp(f, (x,), (et.asarray(np.float64(1.0)),))[1],
    "vjp": vjp_at,
    "jacfwd": lambda f, x: et.jacfwd(f)(x),
    "jacrev": lambda f, x: et.jacrev(f)(x),
    "vmap": lambda f, x: et.grad(lambda v: et.sum(et.vmap(f)(et.stack([v, v]))))(x),
    "scan": lambda f, x: et.grad(lambda v: et.scan(lambda c, _: (f(c), ()), v, None, 2)[0])(x),
    "cond": lambda f, x: et.grad(lambda v: et.cond(v > 0.0, f, lambda u: u, v))(x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_a_derivative_holds_through_jit(rule, way):
    x = et.asarray(np.float64(2.0))
    take, f = WAYS[way], RULES[rule]
    plain = take(f, x).item()
    assert plain != 0.0
    for g in (et.jit(f), et.jit(f, backend="interpreter"), et.jit(lambda v: et.jit(f)(v))):
        assert take(g, x).item() == pytest.approx(plain, rel=1e-14)
    assert et.jit(lambda v: take(f, v))(x).item() == pytest.approx(plain, rel=1e-14)


def test_a_learner_through_jit_has_the_gradient_without():
    class Net(et.Module):
        def __init__(self, jit):
            super().__init__()
            self.w, self.v = et.ParamState(np.ones((3, 4))), et.HiddenState(np.zeros(4))
            self.spike = et.jit(self.fire) if jit else self.fire
            self.jit = jit

        @staticmethod
        def fire(v):
            return et.nn.spike(v - 0.5, "sigmoid")

        def update(self, x):
            self.v.value = 0.9 * self.v.value + et.matmul(x, self.w.value)
            return self.spike(self.v.value)

    r = np.random.default_rng(0)
    xs, ys = r.normal(size=(8, 3)), np.ones((8, 4))
    plain, jit = (
        et.compile(Net(j), et.D_RTRL(), xs[0]).etrace_grad(xs, ys, et.loss.mse).grads.numpy()["w"] for j in (False, True)
    )
    assert np.linalg.norm(plain) > 1e-3
    np.testing.assert_allclose(jit, plain, rtol=1e-12)
