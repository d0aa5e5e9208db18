"""Learners: gradients, training, rules, values, checkpoints, files."""

import copy
import os
import pickle
import subprocess

import numpy as np
import pytest

import etrace as et
from models import GruNet, Leaky, Linear, mse, normal, optimizer


@pytest.fixture
def data():
    return normal(1, (12, 2, 3)), normal(2, (12, 2, 2))


def gru(rule=et.D_RTRL, **options):
    net = GruNet()
    options = {"batch_size": 2, "backend": "interpreter", **options}
    return net, et.compile(net, rule, et.zeros((2, 3)), **options)


# The C++ twin --------------------------------------------------------------------------------------------------------
def test_a_python_model_is_its_cpp_twin(tmp_path, data):
    """Graph, fingerprint, checkpoint and every bit of the gradients of the built-in model that C++ made."""
    program = os.environ.get("ETRACE_CLI")
    if not program:
        pytest.skip("ETRACE_CLI names no program")
    file = tmp_path / "gru.json"
    subprocess.run([program, "print", "gru", "--sizes", "3,8,2", "--batch", "2", "--save", file], check=True)
    twin = et.compile(et.read_model(file), et.D_RTRL(), backend="interpreter")
    net, learner = gru()
    assert learner.fingerprint == twin.fingerprint
    assert [(g["hidden_paths"], g["varshape"]) for g in learner.graph.hidden_groups] == [
        (g["hidden_paths"], g["varshape"]) for g in twin.graph.hidden_groups
    ]
    et.set_params(net, twin.params.numpy())
    ours, theirs = learner.etrace_grad(*data, mse), twin.etrace_grad(*data, mse)
    assert ours.loss == theirs.loss
    for name, value in theirs.grads.numpy().items():
        assert np.array_equal(ours.grads.numpy()[name], value), name
    twin.save(tmp_path / "twin.ckpt", notes={"epoch": "3"})
    assert learner.load(tmp_path / "twin.ckpt") == {"epoch": "3"}
    again = [x.etrace_grad(*data, mse).grads.numpy() for x in (learner, twin)]
    assert all(np.array_equal(again[0][k], again[1][k]) for k in again[0])


# Gradients -----------------------------------------------------------------------------------------------------------
def test_the_gradient_is_that_of_bptt():
    """Windows shorter than the sequence, in float64; a rule without memory is not exact."""
    net = Leaky()
    xs, ys = normal(1, (6, 3), "float64"), normal(2, (6, 4), "float64")
    report = et.verify(net, et.D_RTRL(), xs, ys, mse, windows=[1, 2])
    assert report.met() and report.failures() == []
    measures = report.to_dict()["parameters"][0]["measures"] if "parameters" in report.to_dict() else None
    assert measures is None or all(m["deviation"] < 1e-9 for m in measures)

    def total(w):
        h, loss = np.zeros(4), 0.0
        for x, y in zip(xs, ys):
            h = 0.9 * h + x @ w
            loss += np.mean((h - y) ** 2)
        return loss

    learner = et.compile(net, et.D_RTRL, np.zeros(3), execution_window=2)
    found = np.asarray(learner.etrace_grad(xs, ys, mse, reduction="sum").grads["w"])
    w, step = np.asarray(net.w.value).copy(), 1e-6
    expected = np.zeros_like(w)
    for i in np.ndindex(*w.shape):
        up, down = w.copy(), w.copy()
        up[i] += step
        down[i] -= step
        expected[i] = (total(up) - total(down)) / (2 * step)
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-8)
    forgetful = et.compile(net, et.OSTLFeedforward, np.zeros(3))
    net.h.reset()
    other = np.asarray(forgetful.etrace_grad(xs, ys, mse, reduction="sum").grads["w"])
    assert np.abs(other - expected).max() > 1e-3


def test_step_functions_and_losses_give_the_same(data):
    xs, ys = data
    _, a = gru()
    _, b = gru()
    one = a.etrace_grad(xs, ys, mse)
    two = b.etrace_grad(xs, ys, step_fn=lambda x, y: (mse(b(x), y), {"double": 2.0 * x}))
    assert one.loss == two.loss and one.losses.shape == (12,) and one.aux == ()
    assert np.array_equal(np.asarray(two.aux["double"]), 2 * xs)
    for name, value in one.grads.numpy().items():
        assert np.array_equal(two.grads.numpy()[name], value)


def test_options_of_sequences(data):
    xs, ys = data
    _, learner = gru()
    mask = np.ones(12, "float32")
    mask[6:] = 0
    masked = learner.etrace_grad(xs, ys, mse, mask=mask, freeze=True)
    assert learner.age == 6
    _, other = gru()
    short = other.etrace_grad(xs[:6], ys[:6], mse)
    assert masked.loss == pytest.approx(short.loss, rel=1e-6)
    per_sample = learner.etrace_grad(xs, ys, mse, mask=np.ones((12, 2)).tolist())
    assert per_sample.losses.shape == (12, 2)
    _, multi = gru(vjp_method="multi-step")
    assert multi.etrace_grad(xs, ys, mse, chunk_size=4).losses.shape == (12,)
    assert multi.running_index == 3


def test_float64_data_adapts_to_the_model(data):
    xs, ys = data
    _, a = gru()
    _, b = gru()
    assert a.etrace_grad(xs, ys, mse).loss == b.etrace_grad(xs.astype("float64"), ys.astype("float64"), mse).loss
    with pytest.raises(ValueError, match="i32.* expected f32.*; convert it to float32"):
        a.etrace_grad(xs.astype("int32"), ys, mse)


def test_training_lowers_the_loss_and_updates_the_model(data):
    xs, ys = data
    net, learner = gru()
    adam = optimizer("adam", net, 0.02)
    before = np.asarray(net.out.weight["bias"]).copy()
    first = learner.etrace_train(xs, ys, mse, adam)
    assert first.updates == 1 and adam.step == 1
    for _ in range(60):
        last = learner.etrace_train(xs, ys, mse, adam, update="window", window=4)
    assert last.updates == 3 and last.loss < 0.7 * first.loss
    assert not np.array_equal(before, np.asarray(net.out.weight["bias"]))


def test_evolving_and_updating(data):
    xs, _ = data
    net, learner = gru()
    out = learner.etrace_evolve(xs)
    assert out.shape == (12, 2, 2) and learner.age == 12
    learner.reset_model_state()
    learner.reset_state()
    single = [np.asarray(learner(x)) for x in xs]
    assert np.allclose(np.asarray(out), single, atol=1e-6)
    assert np.array_equal(np.asarray(learner.get_state("rnn/h")), np.asarray(net.rnn.h.value))
    several = learner.update(et.MultiStepData(xs))
    assert several.shape == (12, 2, 2)


def test_solve_and_traces(data):
    xs, _ = data
    _, learner = gru()
    learner.etrace_evolve(xs)
    traces = learner.get_etrace_of("rnn/Wz/weight")
    assert traces and traces[0].params == ["rnn/Wz/weight"]
    assert learner.get_etrace_of(("rnn", "Wz", "weight"))[0].name == traces[0].name
    grads = learner.solve([np.ones((2, 8, 1), "float32")])
    assert np.asarray(grads["rnn/Wz/weight"]["weight"]).any()
    with pytest.raises(ValueError, match="traced are"):
        learner.get_etrace_of("nothing")


def test_solve_names_what_has_a_trace(data):
    """The readout and the reset gate have none: 0 would be taken for their gradient."""
    xs, ys = data
    net, learner = gru(batch_size=2)
    optimizer = et.optim.SGD(net, 0.1)
    grads = learner.etrace_grad(xs, ys, mse, mask=[0.0] * 11 + [1.0], reduction="sum").grads
    signal = normal(3, (2, 8, 1))
    solved = learner.solve([signal])
    untraced = {"out/weight", "rnn/Wr/weight"}
    assert set(solved) == set(grads) - untraced and untraced < set(grads)
    with pytest.raises(KeyError, match="there are: rnn"):
        solved["out/weight"]
    for total in (grads + solved, solved + grads):
        for name, value in total.numpy().items():
            more = solved.numpy().get(name, 0)
            assert np.array_equal(value, grads.numpy()[name] + more) and grads.numpy()[name].any(), name
    before = et.params(net).numpy()
    optimizer.update(solved)
    after = et.params(net).numpy()
    assert all(np.array_equal(before[n], after[n]) == (n.split(".")[0] in untraced) for n in before)


def test_vmap():
    class One(Leaky):
        pass

    learner = et.compile(One(), et.D_RTRL, np.zeros((5, 3)), vmap=True, batch_size=5)
    assert learner(np.ones((5, 3))).shape == (5, 4)


# Rules ---------------------------------------------------------------------------------------------------------------
def test_rules_by_class_name_instance_and_coordinates(data):
    xs, ys = data
    for rule in (et.D_RTRL, et.D_RTRL(), "D_RTRL", "d-rtrl", et.ETraceConfig(), et.pp_prop(decay_or_rank=0.9), et.UORO):
        _, learner = gru(rule)
        assert np.isfinite(learner.etrace_grad(xs, ys, mse).loss)
    assert et.ES_D_RTRL is et.pp_prop
    _, learner = gru("pp_prop", decay_or_rank=0.5)
    assert "0.5" in learner.describe()
    with pytest.raises(TypeError, match="D_RTRL has no option 'decay'"):
        gru(et.D_RTRL, decay=0.5)
    with pytest.raises(ValueError, match="D_RTRL"):
        gru("D_RTRLL")
    with pytest.raises(TypeError, match="a learning rule is"):
        gru(3)
    with pytest.raises(TypeError, match="where it is made"):
        gru(et.D_RTRL(), trace_dtype="float16")


def test_rules_are_documented_and_are_values():
    assert "Options" in et.pp_prop.__doc__ and "decay_or_rank" in str(et.pp_prop.__signature__)
    assert set(et.rules()) >= {"D_RTRL", "pp_prop", "EProp", "SnAp", "UORO"}
    rule = et.pp_prop(decay_or_rank=0.9)
    assert pickle.loads(pickle.dumps(rule)) == rule and repr(rule) == "pp_prop(decay_or_rank=0.9)"
    config = et.ETraceConfig(recurrence_scope="coupled")
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.replace(recurrence_scope="diagonal") == et.ETraceConfig()
    with pytest.raises(ValueError, match="coupled"):
        et.ETraceConfig(recurrence_scope="copled")


def test_three_factors(data):
    xs, ys = data
    _, learner = gru(et.ThreeFactor)
    with pytest.raises(ValueError, match="needs a modulator"):
        learner.etrace_grad(xs, ys, mse)
    one = learner.etrace_grad(xs, ys, mse, modulator=1.0)
    learner.reset_state()
    learner.reset_model_state()
    learner.set_modulator(2.0)
    two = learner.etrace_grad(xs, ys, mse)
    a, b = (g.grads.numpy()["rnn/Wz/weight.weight"] for g in (one, two))
    assert np.allclose(2 * a, b, rtol=1e-5) and a.any()


class Reversed(et.CustomRule):
    """D_RTRL whose signals are turned round."""

    theory = "the signal is not the gradient"

    def learning_signal(self, signal, group, to):
        return -1.0 * signal


def test_rules_written_in_python(data):
    xs, ys = data
    net, plain = gru()
    _, other = gru(Reversed())
    a, b = (l.etrace_grad(xs, ys, mse).grads.numpy()["rnn/Wz/weight.weight"] for l in (plain, other))
    assert np.allclose(a, -b, rtol=1e-4, atol=1e-7) and a.any()
    assert other.describe().startswith("Reversed")

    class Same(et.CustomRule):
        def jacobian(self, d):
            return d

    _, same = gru(Same)
    c = same.etrace_grad(xs, ys, mse).grads.numpy()["rnn/Wz/weight.weight"]
    assert np.allclose(a, c, rtol=1e-5, atol=1e-8)

    class Wrong(et.CustomRule):
        def learning_signal(self, signal, group, to):
            return et.sum(signal)

    with pytest.raises(ValueError, match="Wrong.learning_signal returned"):
        gru(Wrong())[1].etrace_grad(xs, ys, mse)
    report = et.verify(net, Reversed(), xs, ys, mse, windows=[2])
    assert "Reversed" in str(report)
    assert isinstance(pickle.loads(pickle.dumps(Reversed())), Reversed)
    with pytest.raises(TypeError, match="use one of the rules"):
        et.LearningRule()


def test_a_rule_that_changes_nothing_is_refused():
    class Other(et.CustomRule):
        def signal(self, signal):
            return -signal

    with pytest.raises(TypeError, match="Other changes nothing of D_RTRL; define one of learning_signal, jacobian"):
        Other()

    class Misspelt(Reversed):
        def jacobain(self, d):
            return d

    with pytest.raises(TypeError, match="Misspelt defines jacobain; did you mean jacobian"):
        gru(Misspelt)


# Options and errors --------------------------------------------------------------------------------------------------
def test_options_are_checked():
    with pytest.raises(ValueError, match="'multi-step'"):
        gru(vjp_method="multistep")
    with pytest.raises(TypeError, match="batch_size is a whole number"):
        gru(batch_size="two")
    with pytest.raises(TypeError, match="did you mean batch_size"):
        gru(batch_siz=2)
    with pytest.raises(ValueError, match="interpreter"):
        gru(backend="nothing")
    _, learner = gru()
    x = np.zeros((3, 2, 3), "float32")
    with pytest.raises(TypeError, match="chunksize"):
        learner.etrace_grad(x, x, mse, chunksize=2)
    with pytest.raises(TypeError, match="takes a loss"):
        learner.etrace_grad(x, x)
    with pytest.raises(TypeError, match="two arrays, not 1"):
        learner.etrace_grad(x, mse)
    with pytest.raises(TypeError, match="is a function"):
        learner.etrace_grad(x, x, loss=3)
    with pytest.raises(TypeError, match="needs an optimiser"):
        learner.etrace_train(x, x, mse)
    with pytest.raises(TypeError, match="chunk_size is a whole number"):
        learner.etrace_grad(x, x, mse, chunk_size="2")
    with pytest.raises(ValueError, match="'sum'"):
        learner.etrace_grad(x, x, mse, reduction="avg")


def test_data_is_checked_and_nothing_changes(data):
    xs, ys = data
    _, learner = gru()
    bad = xs.copy()
    bad[3, 0, 0] = np.nan
    with pytest.raises(ValueError, match="nan at step 3; nothing was changed"):
        learner.etrace_grad(bad, ys, mse)
    with pytest.raises(ValueError):
        learner.etrace_grad(xs[..., :2], ys, mse)
    with pytest.raises(ValueError, match="has 11 steps"):
        learner.etrace_grad(xs, ys[:11], mse)
    assert learner.age == 0


def test_step_functions_are_checked(data):
    xs, ys = data
    _, learner = gru()
    with pytest.raises(et.CompilationError, match="once"):
        learner.etrace_grad(xs, ys, step_fn=lambda x, y: mse(x[..., :2], y))
    with pytest.raises(et.CompilationError, match="once|twice|second"):
        learner.etrace_grad(xs, ys, step_fn=lambda x, y: mse(learner(x) + learner(x), y))
    with pytest.raises(ValueError, match="loss"):
        learner.etrace_grad(xs, ys, lambda y, t: y)
    with pytest.raises(TypeError, match="returned a str"):
        learner.etrace_grad(xs, ys, lambda y, t: "low")
    with pytest.raises(ZeroDivisionError):
        learner.etrace_grad(xs, ys, lambda y, t: 1 / 0)
    with pytest.raises(et.NotSupportedError, match="at work already"):
        learner.etrace_grad(xs, ys, step_fn=lambda x, y: learner.etrace_evolve(xs))
    assert np.isfinite(learner.etrace_grad(xs, ys, mse).loss)


def test_nothing_to_learn_is_explained():
    class Plain(et.Module):
        def __init__(self):
            super().__init__()
            self.h = et.HiddenState(et.zeros(3))

        def update(self, x):
            self.h.value = 0.5 * self.h.value + x
            return self.h.value

    with pytest.raises(et.CompilationError, match="no parameter is learned online"):
        et.compile(Plain(), et.D_RTRL, et.zeros(3))


def test_not_finite_is_an_error_or_left_out():
    class Log(Leaky):
        def update(self, x):
            self.h.value = 0.5 * self.h.value + et.matmul(et.log(x), self.w.value)
            return self.h.value

    good, bad = np.ones((3, 3)), np.array([[1.0] * 3, [-1.0] * 3, [1.0] * 3])
    strict = et.compile(Log(), et.D_RTRL, np.zeros(3), execution_window=1)
    with pytest.raises(ValueError, match="would not be finite"):
        strict.etrace_grad(bad, np.zeros((3, 4)), mse)
    lenient = et.compile(Log(), et.D_RTRL, np.zeros(3), execution_window=1, not_finite="skip")
    lenient.etrace_grad(bad, np.zeros((3, 4)), mse)
    assert lenient.skipped == 1 and np.isfinite(lenient.etrace_grad(good, np.zeros((3, 4)), mse).loss)


# Values and files ----------------------------------------------------------------------------------------------------
def test_parameters_and_states_are_the_models(data):
    net, learner = gru()
    learner.params = learner.params * 0.0
    assert not np.asarray(net.out.weight["weight"]).any()
    net.out.weight["bias"] = 2.0
    assert np.asarray(learner.params["out/weight.bias"]).tolist() == [2, 2]
    learner.params = {"out/weight.bias": [1.0, 2.0]}
    assert np.asarray(net.out.weight["bias"]).tolist() == [1, 2]
    with pytest.raises(TypeError, match="a dictionary of arrays by name"):
        learner.params = 3
    learner.set_state("rnn/h", np.ones((2, 8)))
    assert np.asarray(net.rnn.h.value).all()
    with pytest.raises(ValueError, match="there are: rnn/h"):
        learner.get_state("rnn/hh")


def test_a_learner_outlives_its_model(data):
    net, learner = gru()
    adam = optimizer("adam", net)
    del net
    assert np.isfinite(learner.etrace_train(*data, mse, adam).loss)


def test_checkpoints(tmp_path, data):
    net, learner = gru()
    adam = optimizer("adam", net)
    learner.etrace_train(*data, mse, adam)
    learner.save(tmp_path / "a.ckpt", adam, {"epoch": "1"})
    in_memory = learner.checkpoint(adam)
    expected = learner.etrace_train(*data, mse, adam).loss
    net2, other = gru()
    adam2 = optimizer("adam", net2)
    assert other.load(tmp_path / "a.ckpt", adam2) == {"epoch": "1"}
    assert other.etrace_train(*data, mse, adam2).loss == expected
    other.restore(in_memory, adam2)
    assert other.etrace_train(*data, mse, adam2).loss == expected
    _, wrong = gru(et.pp_prop)
    with pytest.raises(ValueError):
        wrong.load(tmp_path / "a.ckpt")
    with pytest.raises(OSError, match="nowhere"):
        learner.save(tmp_path / "nowhere" / "a.ckpt")
    with pytest.raises(TypeError, match="json.dumps"):
        learner.save(tmp_path / "b.ckpt", adam, {"epoch": 1})
    (tmp_path / "a.ckpt").write_bytes(b"nonsense")
    with pytest.raises(et.Error):
        other.load(tmp_path / "a.ckpt", adam2)


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_parameters_as_files(tmp_path, kind):
    net, other = GruNet(), GruNet()
    et.set_params(net, {k: v * 2 for k, v in et.params(net).numpy().items()})
    et.save_parameters(net, tmp_path / f"p.{kind}")
    et.load_parameters(other, tmp_path / f"p.{kind}")
    for name, value in et.params(net).numpy().items():
        assert np.array_equal(value, et.params(other).numpy()[name])
    with pytest.raises(ValueError):
        et.load_parameters(Linear(2, 2), tmp_path / f"p.{kind}")


def test_tensors_as_files(tmp_path):
    tensors = {"a": np.arange(6, dtype="int64").reshape(2, 3), "b": et.ones(3)}
    et.save_safetensors(tmp_path / "t.safetensors", tensors, {"who": "me"})
    back, notes = et.load_safetensors(tmp_path / "t.safetensors")
    assert np.array_equal(np.asarray(back["a"]), tensors["a"]) and notes == {"who": "me"}
    et.save_npz(tmp_path / "t.npz", tensors)
    assert np.array_equal(np.load(tmp_path / "t.npz")["a"], tensors["a"])
    assert np.asarray(et.load_npz(tmp_path / "t.npz")["b"]).tolist() == [1, 1, 1]


def test_learners_are_not_pickled():
    _, learner = gru()
    for f in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="learner.save"):
            f(learner)


def test_functions_are_recorded_once_and_not_kept(data):
    xs, ys = data
    _, learner = gru()
    calls = []

    def loss(y, t):
        calls.append(1)
        return mse(y, t)

    for _ in range(3):
        learner.etrace_grad(xs, ys, loss)
    recorded = len(calls)
    learner.etrace_grad(xs, ys, loss)
    assert len(calls) == recorded and len(learner._functions) == 1
    del loss
    import gc

    gc.collect()
    assert len(learner._functions) == 0

    class Loss:
        def of(self, y, t):
            calls.append(1)
            return mse(y, t)

    method = Loss()
    learner.etrace_grad(xs, ys, method.of)
    before = len(calls)
    learner.etrace_grad(xs, ys, method.of)
    assert len(calls) == before


def test_a_function_that_is_made_again_and_again_is_asked_about(data):
    xs, ys = data
    _, learner = gru()
    with pytest.warns(RuntimeWarning, match="define it once"):
        for _ in range(10):
            learner.etrace_grad(xs, ys, lambda y, t: mse(y, t))
    assert len(learner._functions) <= 1


def test_results_are_short_to_look_at():
    net = GruNet()
    learner = et.compile(net, et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="interpreter")
    xs, ys = normal(1, (40, 2, 3)), normal(2, (40, 2, 2))
    shown = repr(learner.etrace_grad(xs, ys, mse))
    assert shown.startswith("SequenceGradient(loss=") and shown.endswith("losses: 40 steps, grads of 4 parameters)")
    assert repr(learner.etrace_train(xs, ys, mse, optimizer("sgd", net))).endswith("losses: 40 steps, updates=1)")
    page = learner.report._repr_html_()
    assert "monospace" in page and "overflow-x:auto" in page  # columns stay columns in every notebook
