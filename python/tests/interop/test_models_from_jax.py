"""et.jax.from_step and from_braintrace as models: compiled, trained, verified, copied, and their parameters back."""

import copy
import os
import pickle

import numpy as np
import pytest

jax = pytest.importorskip("jax")
et = pytest.importorskip("etrace")
if not hasattr(et, "compile"):
    pytest.skip("the extension is not built", allow_module_level=True)
import jax.numpy as jnp  # noqa: E402

BATCH, STEPS = 2, 6


def normal(*shape, seed=0, dtype=jnp.float64):
    return 0.5 * jax.random.normal(jax.random.key(seed), shape, jnp.float32).astype(dtype)


def cell(params, state, x):
    """Nested parameters, a weight that is used twice, names that a module has itself, states named like parameters."""
    h = state["update"][0]
    h = jnp.tanh(x @ params["update"]["W"] + h @ params["update"]["V"] + 0.1 * h @ params["update"]["V"].T
                 + params["states"][0])
    state = {"update": (h,), "n": state["n"] + 1, "key": jax.random.split(state["key"])[0]}
    return state, (h @ params["out"], {"n": state["n"]})


PARAMS = {"update": {"W": normal(3, 4, seed=1), "V": normal(4, 4, seed=2)}, "states": [normal(4, seed=3)],
          "out": normal(4, 2, seed=4), "rows": jnp.arange(3)}


def start(batch=()):
    return {"update": (jnp.zeros((*batch, 4)),), "n": jnp.zeros((), jnp.int32), "key": jax.random.key(5)}


def data(*middle):
    rng = np.random.default_rng(7)
    return rng.normal(size=(STEPS, *middle, 3)), rng.normal(size=(STEPS, *middle, 2))


def in_jax(params, state, xs):
    return jax.lax.scan(lambda s, x: cell(params, s, x), state, jnp.asarray(xs))


def same(a, b, tolerance=1e-12):
    jax.tree_util.tree_map(lambda u, v: np.testing.assert_allclose(np.asarray(u, float), np.asarray(v, float),
                                                                   rtol=tolerance, atol=tolerance), a, b)


@pytest.mark.parametrize("batch", [(), (BATCH,)])
def test_a_step_becomes_a_model_that_learns_and_goes_back(batch):
    size = batch[0] if batch else None
    xs, ys = data(*batch)
    model = et.jax.from_step(cell, PARAMS, start(batch), jnp.zeros((*batch, 3)), batch_size=size)
    assert set(et.params(model)) == {"update/W", "update/V", "states/0", "out"}
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=size)
    same(learner.etrace_evolve(xs), in_jax(PARAMS, start(batch), xs)[1])
    same(model.state()["update"], in_jax(PARAMS, start(batch), xs)[0]["update"])
    optimizer = et.optim.Adam(model, 1e-2)

    def step(x, y):
        return et.loss.mse(learner(x)[0], y)
    losses = []
    for _ in range(10):
        learner.reset_state()
        learner.reset_model_state()
        losses.append(learner.etrace_train(xs, ys, step_fn=step, optimizer=optimizer).loss)
    assert losses[-1] < losses[0]
    learned = model.params()
    assert jax.tree_util.tree_structure(learned) == jax.tree_util.tree_structure(PARAMS)
    assert learned["rows"].dtype == PARAMS["rows"].dtype and not np.allclose(learned["update"]["V"], PARAMS["update"]["V"])
    learner.reset_model_state()
    same(learner.etrace_evolve(xs)[0], in_jax(learned, start(batch), xs)[1][0])  # what was learned, in JAX
    model.set_params(PARAMS)
    same(model.params(), PARAMS, 0)


def test_gradients_are_trees_and_agree_with_jax():
    xs, ys = data()

    def step(params, state, x):
        state, (y, _) = cell(params, state, x)
        return state, y
    model = et.jax.from_step(step, PARAMS, start(), jnp.zeros(3))
    assert et.verify(model, et.SnAp(n=4), xs, ys, et.loss.mse).met

    def loss(weights):
        outputs = in_jax({**weights, "rows": PARAMS["rows"]}, start(), xs)[1][0]
        return ((outputs - ys) ** 2).mean(-1).sum()
    weights = {k: v for k, v in PARAMS.items() if k != "rows"}
    learner = et.compile(model, et.SnAp(n=4), xs[0])
    found = model.params(learner.etrace_grad(xs, ys, et.loss.mse, reduction="sum").grads)
    same({k: found[k] for k in weights}, jax.grad(loss)(weights), 1e-9)


def test_unbatched_model_over_a_batch_by_vmap():
    xs, _ = data(BATCH)
    model = et.jax.from_step(cell, PARAMS, start(), jnp.zeros(3))
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=BATCH, vmap=True)
    same(learner.etrace_evolve(xs)[0], in_jax(PARAMS, start((BATCH,)), xs)[1][0])
    with pytest.raises(et.ValueError, match=r"imported for.*import it with an example .*vmap=True"):
        et.compile(model, et.D_RTRL(), xs[0], batch_size=BATCH)


def test_copies():
    model = et.jax.from_step(cell, PARAMS, start(), jnp.zeros(3))
    model.set_params(jax.tree_util.tree_map(lambda v: v + 1, PARAMS))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        same(other.params(), model.params(), 0)
        same(other(np.ones(3))[0], copy.deepcopy(model)(np.ones(3))[0], 0)


def test_wrong_parameters_are_refused():
    model = et.jax.from_step(cell, PARAMS, start(), jnp.zeros(3))
    with pytest.raises(et.ValueError, match="the model has parameters"):
        model.set_params({"W": 1})
    with pytest.raises(et.ValueError, match=r"the parameter out has shape \(4, 2\), the value \(2, 4\)"):
        model.set_params({**PARAMS, "out": PARAMS["out"].T})
    with pytest.raises(et.ValueError, match="there is no value for the parameter out"):
        model.params({"update/W": 0, "update/V": 0, "states/0": 0})
    with pytest.raises(et.ValueError, match="imported for arguments"):
        model(np.ones(3), np.ones(3))
    with pytest.raises(et.ValueError, match=r"argument 0 is f64\[2\], but the step was imported for f64\[3\]"):
        model(np.ones(2))


def test_samples_that_start_apart_are_refused():
    state = {"h": jnp.arange(2.0)[:, None] * jnp.ones((2, 4))}
    with pytest.raises(et.NotSupportedError, match="samples of the hidden state h start from different values"):
        et.jax.from_step(lambda p, s, x: (s, s["h"] * x), {}, state, jnp.zeros((2, 4)), batch_size=2)


def test_start_values_are_kept_over_resets():
    state = {"h": jnp.full((2, 4), 0.25)}
    model = et.jax.from_step(lambda p, s, x: ({"h": s["h"] + x @ p}, s["h"]), normal(3, 4), state, jnp.zeros((2, 3)),
                             batch_size=2)
    assert set(et.params(model)) == {"params"}
    learner = et.compile(model, et.D_RTRL(), np.zeros((2, 3)), batch_size=2)
    for _ in range(2):
        np.testing.assert_array_equal(learner(np.ones((2, 3))), state["h"])
        learner.reset_model_state()


def test_no_parameters_and_not_finite_weights():
    model = et.jax.from_step(lambda p, s, x: (s + x, s), {}, jnp.zeros(3), jnp.zeros(3))
    assert model.params() == {} and not list(et.params(model))
    np.testing.assert_array_equal(model(np.ones(3)), np.zeros(3))
    bad = {**PARAMS, "out": jnp.full((4, 2), jnp.nan)}
    model = et.jax.from_step(cell, bad, start(), jnp.zeros(3))
    assert np.isnan(model.params()["out"]).all() and np.isnan(np.asarray(model(np.ones(3))[0])).all()


def test_element_types():
    single = jax.tree_util.tree_map(lambda v: v.astype(jnp.float32) if v.dtype == jnp.float64 else v, PARAMS)
    state = {**start(), "update": (jnp.zeros(4, jnp.float32),)}
    model = et.jax.from_step(cell, single, state, jnp.zeros(3, jnp.float32))
    assert str(et.params(model)["out"].dtype) == "float32"
    out = model(np.ones(3))[0]  # float64 of NumPy becomes the model's
    same(out, cell(single, state, jnp.ones(3, jnp.float32))[1][0], 1e-6)
    with pytest.raises(et.Error):
        model(np.ones(3, np.int32))


def test_braintrace_models_learn_and_go_back():
    pytest.importorskip("braintrace")
    pytest.importorskip("brainpy")
    import brainstate
    import braintrace_models as models

    source = models.make("LIF")
    model = et.jax.from_braintrace(source, jnp.zeros((BATCH, models.INPUTS)), batch_size=BATCH)
    assert set(et.params(model)) == {"into/weight", "out/weight"}
    xs = 3 * np.random.default_rng(0).normal(size=(STEPS, BATCH, models.INPUTS))
    ys = np.ones((STEPS, BATCH, models.OUTPUTS))
    learner = et.compile(model, et.pp_prop(decay_or_rank=0.9), xs[0], batch_size=BATCH)

    def there():
        brainstate.nn.init_all_states(source, batch_size=BATCH)
        return brainstate.transform.for_loop(source, jnp.asarray(xs))
    same(learner.etrace_evolve(xs), there())
    optimizer = et.optim.Adam(model, 1e-2)
    for _ in range(5):
        learner.reset_state()
        learner.reset_model_state()
        learner.etrace_train(xs, ys, et.loss.mse, optimizer)
    before = np.asarray(source.into.weight.value["weight"])
    assert not np.allclose(model.params()["into/weight"]["weight"], before)
    np.testing.assert_array_equal(source.into.weight.value["weight"], before)  # until it is put back
    model.put_back()
    np.testing.assert_array_equal(source.into.weight.value["weight"], model.params()["into/weight"]["weight"])
    learner.reset_model_state()
    same(learner.etrace_evolve(xs), there())
    assert model.units == {"neuron/V": "mV"}


def stacked(params, h, x):
    """Gates as frameworks stack them: one product, cut into pieces, with the bias before the cut."""
    a, b = jnp.split(x @ params["W"] + params["b"] + h @ params["V"], 2, -1)
    z = jax.nn.sigmoid((params["U"] @ h.T)[:4].T + (params["U"] @ h.T)[4:].T)
    h = jnp.tanh(a) * z + jax.nn.sigmoid(b) * h
    return h, h @ params["out"]


@pytest.mark.parametrize("batch", [1, BATCH] if os.environ.get("ETRACE_RANDOM_STEPS") else [BATCH])
def test_stacked_gates_are_learned_online(batch):
    params = {"W": normal(3, 8, seed=1), "b": normal(8, seed=2), "V": normal(4, 8, seed=3), "U": normal(8, 4, seed=5),
              "out": normal(4, 2, seed=4)}
    xs, ys = data(batch)
    model = et.jax.from_step(stacked, params, jnp.zeros((batch, 4)), jnp.zeros((batch, 3)), batch_size=batch)
    learner = et.compile(model, et.SnAp(n=4), xs[0], batch_size=batch)
    assert set(learner.graph.report.etrace_weights) == {"W", "b", "V", "U"}

    def loss(p):
        outputs = jax.lax.scan(lambda s, x: stacked(p, s, x), jnp.zeros((batch, 4)), jnp.asarray(xs))[1]
        return ((outputs - ys) ** 2).mean((1, 2)).sum()
    found = model.params(learner.etrace_grad(xs, ys, et.loss.mse, reduction="sum").grads)
    same(found, jax.grad(loss)(params), 1e-9)


def test_products_of_two_types():
    def step(p, h, x):
        h = jnp.tanh(jax.lax.dot(x, p, preferred_element_type=jnp.float64) + h)
        return h, h
    W = normal(3, 4)
    model = et.jax.from_step(step, W, jnp.zeros(4), jnp.zeros(3, jnp.float32))
    x = np.ones(3, np.float32)
    same(model(x), step(W, jnp.zeros(4), jnp.asarray(x))[1])
    learner = et.compile(model, et.D_RTRL(), x)
    assert set(learner.graph.report.etrace_weights) == {"params"}
