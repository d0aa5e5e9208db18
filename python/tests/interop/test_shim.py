"""etrace.braintrace: braintrace's names, return forms and defaults; its examples, written anew, run and learn."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

et = pytest.importorskip("etrace")
if not hasattr(et, "compile"):
    pytest.skip("the extension is not built", allow_module_level=True)
import etrace.braintrace as braintrace  # noqa: E402
from etrace.braintrace import brainpy, brainstate, braintools, u  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"
ANEW = bool(os.environ.get("ETRACE_RANDOM_STEPS"))


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"braintrace_{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_copying_learns():
    losses = example("copying")(epochs=300 if ANEW else 60, lag=2, n_rec=48, batch_size=32)
    assert np.mean(losses[-5:]) < (1.9 if ANEW else 2.15) < losses[0]


def test_integrator_learns():
    losses = example("integrator")(epochs=80, n_rec=30, batch_size=32)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


def test_evidence_is_accumulated():
    right = example("evidence")(epochs=60, n_rec=40, batch_size=32)
    assert np.mean(right[-10:]) > 0.8 > np.mean(right[:5])


def test_decisions_are_made():
    right = example("decision")(epochs=50, batch_size=32)
    assert np.mean(right[-10:]) > 0.9


class Net(brainstate.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = braintrace.nn.ValinaRNNCell(3, 4, activation="tanh", w_init=braintools.init.XavierNormal())
        self.out = braintrace.nn.Linear(4, 2, b_init=braintools.init.ZeroInit())

    def update(self, x):
        return x >> self.rnn >> self.out


XS, YS = np.random.default_rng(0).normal(size=(6, 2, 3)).astype(np.float32), np.ones((6, 2, 2), np.float32)


def compiled(rule=braintrace.D_RTRL, **options):
    model = Net()
    learner = braintrace.compile(model, rule, XS[0], batch_size=2, **options)
    return model, learner, lambda x, y: braintools.metric.squared_error(learner(x), y).mean()


def test_return_forms():
    _, learner, loss = compiled(fast_solve=True)
    assert isinstance(learner, braintrace.ETraceAlgorithm) and isinstance(learner, braintrace.SequenceDriverMixin)
    grads = learner.etrace_grad(XS, YS, step_fn=loss)
    assert set(grads) == {("rnn", "W", "weight"), ("out", "weight")}
    assert grads["out/weight"]["weight"].shape == grads["out", "weight"]["weight"].shape == (4, 2)
    grads, losses = learner.etrace_grad(XS, YS, step_fn=loss, return_value=True)
    assert losses.shape == (6,)
    mask = np.array([0, 0, 0, 1, 1, 1], np.float32)
    _, masked = learner.etrace_grad(XS, YS, step_fn=loss, mask=mask, return_value=True, loss_output="masked")
    assert (np.asarray(masked)[:3] == 0).all() and (np.asarray(masked)[3:] > 0).all()
    _, scalar, aux = learner.etrace_grad(XS, YS, step_fn=lambda x, y: (loss(x, y), x), has_aux=True, return_value=True,
                                         loss_output="scalar")
    assert scalar.shape == () and aux.shape == XS.shape
    assert learner.etrace_evolve(XS).shape == (6, 2, 2) and learner.etrace_evolve(XS, return_outputs=False) is None
    for bad in ({"weights": {}}, {"loss_output": "sum"}):
        with pytest.raises((et.NotSupportedError, et.ValueError)):
            learner.etrace_grad(XS, YS, step_fn=loss, **bad)
    assert set(learner.param_states) == set(grads) and list(learner.hidden_states) == [("rnn", "h")]


def test_numbers_are_etraces_own():
    model, learner, loss = compiled(braintrace.pp_prop, decay_or_rank=0.9)
    mine = et.compile(model, et.pp_prop(decay_or_rank=0.9), XS[0], batch_size=2)
    expected = mine.etrace_grad(XS, YS, et.loss.mse).grads
    learner.reset_state()
    learner.reset_model_state()
    found = learner.etrace_grad(XS, YS, step_fn=loss)
    np.testing.assert_array_equal(found["rnn/W/weight"]["weight"], expected["rnn/W/weight"]["weight"])


def test_the_long_way_and_names_of_rules():
    model = Net()
    brainstate.nn.init_all_states(model, batch_size=2)
    learner = braintrace.ParamDimVjpAlgorithm(model, vjp_method="single-step")
    with pytest.raises(et.ValueError, match="call compile_graph"):
        learner(XS[0])
    learner.compile_graph(XS[0])
    assert learner(XS[0]).shape == (2, 2)
    for rule in ("D_RTRL", "ES_D_RTRL", "IODimVjpAlgorithm", braintrace.SnAp, braintrace.UORO, braintrace.EProp,
                 braintrace.OSTLRecurrent(), braintrace.ETraceConfig()):
        options = {"decay_or_rank": 0.9} if isinstance(rule, str) and rule != "D_RTRL" else {}
        assert compiled(rule, **options)[1].graph is not None


def test_optimizers():
    model, learner, loss = compiled()
    for opt in (braintools.optim.Adam(1e-2, eps=1e-6, grad_clip_norm=1.0), braintools.optim.Momentum(1e-2),
                braintools.optim.SGD(braintools.optim.StepLR(0.1, 10, 0.5)), braintools.optim.AdamW(weight_decay=0.1),
                braintools.optim.RMSprop(braintools.optim.ConstantLR(1e-3)), braintools.optim.Lion(), braintools.optim.Adagrad()):
        with pytest.raises(et.ValueError, match="register_trainable_weights comes before"):
            opt.update({})
        opt.register_trainable_weights(model.states(brainstate.ParamState))
        before = np.array(model.out.weight["weight"])
        opt.update(learner.etrace_grad(XS, YS, step_fn=loss))
        assert not np.array_equal(before, model.out.weight["weight"])
    part = {("out", "weight"): None}
    some = model.states(brainstate.ParamState)
    for path in set(some) - set(part):
        del some[path]
    opt = braintools.optim.Adam(1e-2)
    opt.register_trainable_weights(some)
    before = np.array(model.rnn.W.weight["weight"])
    opt.update(learner.etrace_grad(XS, YS, step_fn=loss))
    np.testing.assert_array_equal(before, model.rnn.W.weight["weight"])  # only what was registered moves
    with pytest.raises(et.NotSupportedError, match="Adam has no counterpart for amsgrad"):
        braintools.optim.Adam(amsgrad=True)


def test_gradients_are_clipped():
    _, learner, loss = compiled()
    grads = learner.etrace_grad(XS, YS, step_fn=loss)
    clipped, norm = brainstate.nn.clip_grad_norm(grads, 1e-3, return_norm=True)
    total = np.sqrt(sum(float((np.asarray(leaf) ** 2).sum()) for v in clipped.values() for leaf in v.values()))
    assert norm > 1e-3 and abs(total - 1e-3) < 1e-5


@pytest.mark.parametrize("get,message", [
    (lambda: braintrace.MatMulOp, r"braintrace.MatMulOp has no counterpart here; use braintrace.matmul\(x, w, b\)"),
    (lambda: brainstate.nn.Vmap(None), "compile.*vmap=True"),
    (lambda: brainstate.transform.grad(None), "etrace_grad"),
    (lambda: brainstate.transform.scan, "use et.scan"),
    (lambda: brainpy.state.MorrisLecar, "et.jax.from_braintrace"),
    (lambda: brainpy.state.AlignPostProj, "et.nn.AlignPost"),
    (lambda: braintools.visualize, "matplotlib"),
    (lambda: brainpy.state.LIF(3, V_initializer=braintools.init.Constant(1.0)), "set the state's value"),
], ids=str)
def test_what_has_no_counterpart_says_what_to_use(get, message):
    with pytest.raises(et.NotSupportedError, match=message):
        get()
    assert not hasattr(braintrace, "no_such_name")


def test_dropout_and_first_states():
    for make in (braintrace.nn.Dropout, brainstate.nn.Dropout):
        layer = make(0.8)
        et.init_all_states(layer, 1000)
        values = np.asarray(layer(np.ones((1000, 3), np.float32)))
        assert set(np.unique(values)) == {0.0, 1.25} and abs((values > 0).mean() - 0.8) < 0.05  # kept, as there
        with pytest.raises(NotImplementedError, match="broadcast_dims"):
            make(0.8, broadcast_dims=(0,))
    assert braintrace.nn.LSTMCell(3, 4, state_init=braintools.init.ZeroInit()).h.shape == (4,)
    with pytest.raises(NotImplementedError, match="states start with the layer's own value"):
        braintrace.nn.LSTMCell(3, 4, state_init=braintools.init.Constant(1.0))


def test_environment_and_random_numbers():
    with pytest.raises(et.ValueError, match="there is no dt"):
        brainstate.environ.get_dt()
    with brainstate.environ.context(dt=0.5 * u.ms):
        fine = brainpy.state.LIF(2, tau=10.0 * u.ms)
    et.init_all_states(fine)
    fine(np.ones(2, np.float32))
    np.testing.assert_allclose(fine.V.value, 1 - np.exp(-0.05), rtol=1e-5)
    brainstate.random.seed(3)
    first = np.asarray(brainstate.random.randn(4))
    brainstate.random.seed(3)
    np.testing.assert_array_equal(first, brainstate.random.randn(4))
    assert brainstate.random.uniform(1 * u.ms, 2 * u.ms, 100).shape == (100,)
    assert brainstate.random.randint(5, size=(3,)).shape == (3,)
    assert braintools.init.KaimingNormal(unit=u.mA)((200, 100)).shape == (200, 100)


NEURONS = [("LIF", "mA", "V", 3)]
if ANEW:
    NEURONS += [("IF", "mA", "V", 3), ("LIFRef", "mA", "V", 3), ("ALIF", "mA", "V", 3), ("Gif", "mA", "V", 3),
                ("Expon", "mS", "g", 1), ("Alpha", "mS", "g", 1), ("DualExpon", "mS", "g_rise", 1), ("STD", None, "x", 1)]


@pytest.mark.parametrize("name,unit,state,scale", NEURONS)
def test_defaults_are_brainpys(name, unit, state, scale):
    jax = pytest.importorskip("jax")
    there, theirs = pytest.importorskip("brainpy"), pytest.importorskip("brainstate")
    import saiunit

    dt = 0.125  # whose multiples are exact: brainpy compares times, and 16.7 - 11.7 < 5 would be a question of rounding

    class Wrapped(theirs.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = getattr(there.state, name)(3)
            self.steps = theirs.ShortTermState(jax.numpy.zeros(()))

        def update(self, x):
            with theirs.environ.context(t=self.steps.value * dt * saiunit.ms, dt=dt * saiunit.ms):
                self.n(x * (getattr(saiunit, unit) if unit else 1.0))
            self.steps.value = self.steps.value + 1.0
            value = getattr(self.n, state).value
            return getattr(value, "mantissa", value)

    class Ours(brainstate.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = getattr(brainpy.state, name)(3)

        def update(self, x):
            self.n(x)
            return getattr(self.n, state).value
    with theirs.environ.context(dt=dt * saiunit.ms):
        imported = et.jax.from_braintrace(Wrapped(), jax.numpy.zeros((1, 3)), batch_size=1)
    dtype = np.dtype(str(et.states(imported)[f"n/{state}"].dtype))
    with brainstate.environ.context(dt=dt * u.ms, precision=dtype.itemsize * 8):
        mine = Ours()
    xs = (np.abs(np.random.default_rng(0).normal(size=(200, 1, 3))) * scale).astype(dtype)
    np.testing.assert_allclose(_run(mine, xs), _run(imported, xs), rtol=1e-4, atol=1e-4)


def _run(model, xs):
    et.init_all_states(model, 1)
    return np.stack([np.asarray(model(x)) for x in xs])
