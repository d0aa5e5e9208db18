"""Cells of Flax and Equinox, with trained weights, through et.jax.from_step: their outputs over 200 steps, learning here,
and back. By ./dev interop."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
et = pytest.importorskip("etrace")
if not hasattr(et, "compile"):
    pytest.skip("the extension is not built", allow_module_level=True)
import jax.numpy as jnp  # noqa: E402

STEPS, BATCH, INPUTS, UNITS = 200, 3, 5, 16


def flax_gru():
    linen = pytest.importorskip("flax.linen")
    cell, out = linen.GRUCell(UNITS, param_dtype=jnp.float32), linen.Dense(2, param_dtype=jnp.float32)
    h, x = jnp.zeros((BATCH, UNITS), jnp.float32), jnp.zeros((BATCH, INPUTS), jnp.float32)
    params = {"cell": cell.init(jax.random.key(0), h, x)["params"], "out": out.init(jax.random.key(1), h)["params"]}

    def step(params, state, x):
        h, y = cell.apply({"params": params["cell"]}, state["h"], x)
        return {"h": h}, out.apply({"params": params["out"]}, y)
    return step, params, {"h": h}


def flax_lstm():
    linen = pytest.importorskip("flax.linen")
    cell, out = linen.OptimizedLSTMCell(UNITS, param_dtype=jnp.float32), linen.Dense(2, param_dtype=jnp.float32)
    h, x = jnp.zeros((BATCH, UNITS), jnp.float32), jnp.zeros((BATCH, INPUTS), jnp.float32)
    params = {"cell": cell.init(jax.random.key(0), (h, h), x)["params"], "out": out.init(jax.random.key(1), h)["params"]}

    def step(params, state, x):
        state, y = cell.apply({"params": params["cell"]}, state, x)
        return state, out.apply({"params": params["out"]}, y)
    return step, params, (h, h)


def equinox_gru():
    eqx = pytest.importorskip("equinox")
    model = {"cell": eqx.nn.GRUCell(INPUTS, UNITS, key=jax.random.key(0), dtype=jnp.float32),
             "out": eqx.nn.Linear(UNITS, 2, key=jax.random.key(1), dtype=jnp.float32)}
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def step(params, h, x):
        model = eqx.combine(params, static)
        h = jax.vmap(model["cell"])(x, h)
        return h, jax.vmap(model["out"])(h)
    return step, params, jnp.zeros((BATCH, UNITS), jnp.float32)


def trained(step, params, state, xs, ys):
    """Some steps of gradient descent there, so that weights are not the initial ones."""
    def loss(p):
        _, out = jax.lax.scan(lambda s, x: step(p, s, x), state, xs)
        return ((out - ys) ** 2).mean()
    gradient = jax.jit(jax.grad(loss))
    for _ in range(5):
        params = jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradient(params))
    return params


@pytest.mark.parametrize("make", [flax_gru, flax_lstm, equinox_gru])
def test_trained_cells_come_learn_and_go_back(make):
    step, params, state = make()
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    ys = np.cumsum(xs[..., :2], 0).clip(-1, 1).astype(np.float32)
    params = trained(step, params, state, jnp.asarray(xs), jnp.asarray(ys))
    run = jax.jit(lambda p: jax.lax.scan(lambda s, x: step(p, s, x), state, jnp.asarray(xs))[1])
    model = et.jax.from_step(step, params, state, jnp.asarray(xs[0]), batch_size=BATCH)
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=BATCH)
    np.testing.assert_allclose(learner.etrace_evolve(xs), run(params), rtol=1e-6, atol=1e-6)
    online = {part for names in learner.graph.report.etrace_weights for part in names.split(", ")}
    assert {name for name in et.params(model) if name.startswith("cell")} <= online
    optimizer, losses = et.optim.Adam(model, 5e-3), []
    for _ in range(5):
        learner.reset_state()
        learner.reset_model_state()
        losses.append(learner.etrace_train(xs, ys, et.loss.mse, optimizer, update="window", window=20).loss)
    assert losses[-1] < losses[0]
    learner.reset_model_state()
    learned = model.params()
    assert jax.tree_util.tree_structure(learned) == jax.tree_util.tree_structure(params)
    np.testing.assert_allclose(run(learned), learner.etrace_evolve(xs), rtol=2e-6, atol=2e-6)
