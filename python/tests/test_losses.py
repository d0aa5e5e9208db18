"""Losses of learners: what they see of a model, what they may read, and what comes of it. Gradients are held against
central differences of the same loss, computed at once."""

import warnings

import numpy as np
import pytest

import etrace as et

T, B = 5, 2


class Net(et.Module):
    """A layer that D_RTRL learns exactly, and two behind it; what it returns is a tree."""

    def __init__(self, form):
        super().__init__()
        r = np.random.default_rng(0)
        self.form = form
        self.win = et.ParamState(0.5 * r.normal(size=(3, 4)))
        self.w = et.ParamState(0.5 * r.normal(size=(4, 4)))
        self.out = et.ParamState({"w": r.normal(size=(4, 2)), "b": 0.1 * r.normal(size=2)})
        self.h = et.HiddenState(np.zeros(4))

    def update(self, x):
        self.h.value = et.tanh(et.matmul(x, self.win.value) + 0.6 * self.h.value)
        inner = et.tanh(et.matmul(self.h.value, self.w.value))
        y, r = et.matmul(inner, self.out["w"]) + self.out["b"], self.h.value**2
        return {"one": y, "tuple": (y, r), "dict": {"rate": r, "y": y}}[self.form]


def parts(out):
    if isinstance(out, dict):
        return out["y"], out["rate"]
    return out if isinstance(out, tuple) else (out, None)


def drawn_loss(net, terms):
    def loss(out, target):
        y, rate = parts(out)
        total = et.mean((y - target) ** 2)
        if terms & 1:
            total = total + 0.3 * et.sum(net.w.value**2)
        if terms & 2:
            total = total + 0.2 * et.sum(et.abs(net.win.value)) + et.sum(net.out["b"] * et.sum(net.out["w"], 0))
        if terms & 4 and rate is not None:
            total = total + et.mean(rate * et.sum(net.w.value, 0))
        return total

    return loss


def total(net, loss, xs, ys, mask):
    net.h.value = np.zeros((B, 4))
    return sum(w * float(loss(net(x), y)) for x, y, w in zip(xs, ys, mask))


def slopes(net, loss, xs, ys, mask, grads):
    r = np.random.default_rng(9)
    for name, state, key in (("win", net.win, None), ("w", net.w, None), ("out.b", net.out, "b"), ("out.w", net.out, "w")):
        at = np.array(state.value if key is None else state[key])
        v = r.normal(size=at.shape)

        def moved(by):
            if key is None:
                state.value = at + by * v
            else:
                state[key] = at + by * v
            return total(net, loss, xs, ys, mask)

        expected = (moved(1e-5) - moved(-1e-5)) / 2e-5
        moved(0.0)
        assert float(np.sum(np.asarray(grads[name]) * v)) == pytest.approx(expected, rel=1e-7, abs=1e-7), name


def data(seed):
    r = np.random.default_rng(seed)
    mask = np.maximum(r.normal(size=T), 0.0) if seed % 2 else np.ones(T)
    return r.normal(size=(T, B, 3)), r.normal(size=(T, B, 2)), mask


@pytest.mark.parametrize("form", ["one", "tuple", "dict"])
@pytest.mark.parametrize("terms", [0, 1, 3, 7])
def test_slopes(form, terms):
    xs, ys, mask = data(terms)
    for options, how in (({}, {}), ({"vjp_method": "multi-step"}, {"chunk_size": 2}), ({"vjp_method": "multi-step"}, {"chunk_size": T})):
        net = Net(form)
        learner = et.compile(net, et.D_RTRL(), xs[0], batch_size=B, backend="interpreter", **options)
        loss = drawn_loss(net, terms)
        g = learner.etrace_grad(xs, ys, loss, mask=mask, reduction="sum", **how).grads
        slopes(net, loss, xs, ys, mask, g)
        if options:
            continue
        learner.reset_state(), learner.reset_model_state()

        def step_fn(x, y):
            return loss(learner(x), y)

        slopes(net, loss, xs, ys, mask, learner.etrace_grad(xs, ys, step_fn=step_fn, mask=mask, reduction="sum").grads)
        learner.reset_state(), learner.reset_model_state()
        learner.bind_step(loss)
        sums = {}
        for x, y in zip(xs, ys):
            for k, v in learner.step(x, y).grads.numpy().items():
                sums[k] = sums.get(k, 0.0) + v
        slopes(net, loss, xs, ys, np.ones(T), sums)


def test_losses_see_what_the_model_returns():
    xs, ys, _ = data(0)
    for form, kind in (("one", et.Array), ("tuple", tuple), ("dict", dict)):
        net, seen = Net(form), []

        def loss(out, target):
            seen.append(type(out))
            return et.mean((parts(out)[0] - target) ** 2)

        learner = et.compile(net, et.D_RTRL(), xs[0], batch_size=B, backend="interpreter")
        learner.bind_step(loss)
        learner.step(xs[0], ys[0])
        learner.etrace_grad(xs, ys, loss)
        learner.etrace_grad(xs, ys, loss, mask=np.ones((T, B)))
        learner.etrace_train(xs, ys, loss, et.optim.SGD(net, 0.1))
        et.verify(net, et.D_RTRL(), xs, ys, loss)
        assert len(seen) >= 4 and set(seen) == {kind}, form


def test_verify_judges_penalties():
    xs, ys, _ = data(0)
    net = Net("dict")
    et.init_all_states(net, B)
    report = et.verify(net, et.D_RTRL(), xs, ys, drawn_loss(net, 7))
    assert report.met(), report
    assert "w" in str(report)


def test_reads_that_are_refused():
    xs, ys, _ = data(0)
    net = Net("one")
    net.other = et.ParamState(np.ones(2))
    learner = et.compile(net, et.D_RTRL(), xs[0], batch_size=B, backend="interpreter")
    for term, text in (
        (lambda: et.sum(net.h.value), "reads HiddenState h outside of the model's step"),
        (lambda: et.sum(net.other.value), "reads the parameter other, which the model's step does not use"),
        (lambda: et.sum(learner.get_state("h")), "reads the state h outside of the model's step"),
    ):
        with pytest.raises(et.NotSupportedError, match=text):
            learner.etrace_grad(xs, ys, lambda out, y, term=term: et.mean(out) + term())
    g = learner.etrace_grad(xs, ys, lambda out, y: 0 * et.mean(out) + et.sum(learner.params["w"] ** 2)).grads
    np.testing.assert_allclose(g["w"], 2 * np.asarray(net.w.value), rtol=1e-12)


def test_states_on_plain_objects_are_refused():
    class Synapse:
        def __init__(self):
            self.g = et.HiddenState(np.zeros(4))

    class Holder(et.Module):
        def __init__(self):
            super().__init__()
            self.syn, self.w, self.v = Synapse(), et.ParamState(np.ones((3, 4))), et.HiddenState(np.zeros(4))

        def update(self, x):
            self.syn.g.value = 0.8 * self.syn.g.value + et.matmul(x, self.w.value)
            self.v.value = 0.9 * self.v.value + self.syn.g.value
            return self.v.value

    with pytest.raises(et.CompilationError, match="HiddenState of type f64\\[4\\] that is not of the model"):
        et.compile(Holder(), et.D_RTRL(), np.ones(3))


@pytest.mark.parametrize("optimizer", ["SGD", "Momentum", "Adam", "AdamW", "Lion", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("update", ["step", "window"])
def test_padding_moves_nothing(optimizer, update):
    """The bits of a run in which the stretches that weigh nothing do not exist."""
    make = {"Momentum": lambda n: et.optim.SGD(n, et.optim.cosine(0.1, 20), momentum=0.9),
            "AdamW": lambda n: et.optim.AdamW(n, 0.05, weight_decay=0.1, clip_norm=0.5)}.get(
                optimizer, lambda n: getattr(et.optim, optimizer)(n, lambda k: 0.05 / (k + 1)))
    r = np.random.default_rng(3)
    xs, ys, mask = r.normal(size=(12, B, 3)), r.normal(size=(12, B, 2)), np.ones(12)
    mask[[2, 3, 8, 9, 10, 11]] = 0.0
    for per_sample in (False, True):
        ended = []
        for steps in (np.arange(12), np.flatnonzero(mask)):
            net = Net("one")
            learner = et.compile(net, et.D_RTRL(), xs[0], batch_size=B, backend="interpreter")
            o, m = make(net), mask[steps]
            t = learner.etrace_train(xs[steps], ys[steps], et.loss.mse, o, freeze=True, update=update, window=2,
                                     mask=np.repeat(m[:, None], B, 1) if per_sample else m)
            ended.append([t.updates, o.step, *(np.asarray(v).tobytes() for v in o.state().values()),
                          *(v.tobytes() for v in learner.params.numpy().values())])
        assert ended[0] == ended[1]


def test_rates_are_not_negative():
    net = Net("one")
    for make in (lambda: et.optim.SGD(net, -0.1), lambda: et.optim.SGD(net, lambda k: -0.1),
                 lambda: et.optim.SGD(net, 0.1).set_learning_rate(-0.1),
                 lambda: et.optim.SGD(net, 0.1).set_learning_rate(lambda k: -0.1)):
        with pytest.raises(et.ValueError, match="the learning rate .*is -0.1.*; expected a finite number, 0 or greater"):
            make()
    o = et.optim.SGD(net, lambda k: 0.1 - 0.06 * k)
    learner = et.compile(net, et.D_RTRL(), np.zeros((B, 3)), batch_size=B, backend="interpreter")
    xs, ys, _ = data(0)
    with pytest.raises(et.ValueError, match="the learning rate at step 2"):
        learner.etrace_train(xs, ys, et.loss.mse, o, update="step")


def test_data_that_is_not_finite_is_left_out():
    xs, ys, _ = data(0)
    net = Net("one")
    learner = et.compile(net, et.D_RTRL(), xs[0], batch_size=B, backend="interpreter", not_finite="skip")
    learner.bind_step(et.loss.mse, et.optim.Adam(net, 0.1))
    before = [v.tobytes() for v in learner.params.numpy().values()]
    assert np.isnan(learner.step(xs[0] * np.nan, ys[0]).loss)
    assert np.isnan(learner.step(xs[0], ys[0] * np.inf).loss)
    assert np.all(np.isnan(learner.step(xs[0] * np.nan).result))
    assert learner.skipped == 3 and learner.age == 0
    assert before == [v.tobytes() for v in learner.params.numpy().values()]
    assert np.all(np.asarray(net.h.value) == 0)


WEIGHTS = np.ones((B, 2))


class WeightedLoss:
    def __init__(self):
        self.w = np.ones((B, 2))

    def __call__(self, y, t):
        return et.mean(self.w * (y - t) ** 2)

    def method(self, y, t):
        return et.mean(self.w * (y - t) ** 2)


def test_constants_are_told_once():
    xs, ys, _ = data(0)
    learner = et.compile(Net("one"), et.D_RTRL(), xs[0], batch_size=B, backend="interpreter")
    holder = WeightedLoss()

    def of_global(y, t):
        return et.mean(WEIGHTS * (y - t) ** 2)

    for loss, text in ((of_global, "the global array WEIGHTS"), (holder, "the array self.w"), (holder.method, "the array self.w"),
                       (lambda y, t: et.mean(holder.w * (y - t) ** 2), "the array holder.w")):
        with pytest.warns(UserWarning, match=text):
            learner.etrace_grad(xs, ys, loss)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learner.etrace_grad(xs, ys, loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.etrace_grad(xs, ys, et.loss.mse)
        learner.etrace_grad(xs, ys, lambda y, t: 2.0 * et.mean((y - t) ** 2))


def test_modulators_per_group():
    """Each neuron, sample and group has its own; the gradient is that of the factors one by one."""

    class Two(et.Module):
        def __init__(self):
            super().__init__()
            self.a, self.l1, self.b, self.l2 = et.nn.Linear(3, 8), et.nn.LIF(8), et.nn.Linear(8, 5), et.nn.LIF(5)

        def update(self, x):
            return self.l2(self.b(self.l1(self.a(x))))

    r = np.random.default_rng(0)
    xs, ys = 5 * r.normal(size=(6, B, 3)).astype("float32"), np.zeros((6, B, 5), "float32")

    def grads(modulator, by_step=False, stands=False):
        m = Two()
        learner = et.compile(m, et.ThreeFactor(), xs[0], batch_size=B, backend="interpreter")
        how = {} if stands else {"modulator": modulator}
        if stands:
            learner.set_modulator(modulator)
        return learner.etrace_grad(xs, ys, et.loss.mse, **how).grads.numpy()

    n1, n2, b = r.normal(size=8).astype("float32"), r.normal(size=5).astype("float32"), r.normal(size=B).astype("float32")
    every = grads(1.0)
    own = grads({"l1": et.PerNeuron(n1), "l2": et.PerNeuron(n2)})
    for name, n in (("a/weight.weight", n1), ("b/weight.weight", n2)):
        assert np.abs(every[name]).max() > 0
        np.testing.assert_allclose(own[name], every[name] * n, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(own["a/weight.weight"], grads({"l1": et.PerNeuron(n1), "l2": et.PerNeuron(n2)}, stands=True)["a/weight.weight"])
    samples = grads({"l1/V": et.PerSample(b), "l2": 0.0})
    assert not np.any(samples["b/weight.weight"])
    whole = grads({"l1": np.repeat(b[:, None], 8, 1), "l2": 0.0})
    np.testing.assert_allclose(samples["a/weight.weight"], whole["a/weight.weight"], rtol=1e-6)
    steps = grads({"l1": et.PerNeuron(et.MultiStepData(np.repeat(n1[None], 6, 0))), "l2": 1.0})
    np.testing.assert_allclose(steps["a/weight.weight"], own["a/weight.weight"], rtol=1e-5, atol=1e-7)
    for wrong, text in (({"l1": 1.0}, "no modulator for the group of l2/V"),
                        ({"l1": 1.0, "l2": 1.0, "l3": 1.0}, "a modulator for l3, which names no group"),
                        ({"l1": et.PerNeuron(n2), "l2": 1.0}, "has shape \\[5\\]"),
                        ({"l1": n1, "l2": 1.0}, "say whether it counts samples or neurons")):
        with pytest.raises(et.ValueError, match=text):
            grads(wrong)
    with pytest.raises(et.ValueError, match="does not spread"):
        grads(n1)


def test_keys_are_typed():
    class Noisy(et.Module):
        def __init__(self, kind):
            super().__init__()
            self.key, self.w, self.h = kind(3), et.ParamState(np.ones((3, 4))), et.HiddenState(np.zeros(4))
            self.pair = et.ShortTermState(np.array([7, 8], np.uint32), per_sample=False)

        def update(self, x):
            key = self.key.next()
            draw = lambda k: et.random.normal(k, (4,), dtype="float64")
            noise = et.vmap(draw)(key) if key.ndim == 2 else draw(key)
            self.h.value = 0.9 * self.h.value + et.matmul(x, self.w.value) + noise + self.pair.value[0].astype("float64")
            return self.h.value

    xs = np.zeros((3, B, 3))
    for kind, same in ((et.RandomState, False), (et.KeyState, True)):
        net = Noisy(kind)
        learner = et.compile(net, et.D_RTRL(), xs[0], batch_size=B, backend="interpreter")
        ran = []
        for _ in range(2):
            learner.reset_model_state()
            assert np.asarray(net.pair.value).tolist() == [7, 8]
            ran.append(np.asarray(learner.etrace_evolve(xs)))
        assert np.array_equal(*ran) == same
        assert not same or not np.array_equal(ran[0][:, 0], ran[0][:, 1]), "each sample has noise of its own"


def test_arrays_of_a_rule_may_change():
    class Gains(et.CustomRule):
        def __init__(self):
            self.gain, self.by_group, self.strength = np.ones(4), [np.ones(1)], 1.0
            super().__init__()

        def learning_signal(self, signal, group, to):
            return self.strength * signal * self.gain[:, None] * self.by_group[group]

        def jacobian(self, D):
            return D * self.by_group[0]

    xs, ys, _ = data(0)
    for update in ("sequence", "step by step"):
        net, rule = Net("one"), Gains()
        learner = et.compile(net, rule, xs[0], batch_size=B, backend="interpreter")
        assert learner.rule_param_names == ["rule/gain", "rule/by_group"]

        def run():
            learner.reset_state(), learner.reset_model_state()
            if update == "sequence":
                return learner.etrace_grad(xs, ys, et.loss.mse, reduction="sum").grads.numpy()["win"]
            learner.bind_step(et.loss.mse)
            return sum(learner.step(x, y).grads.numpy()["win"] for x, y in zip(xs, ys))

        first = run()
        rule.gain[:2] = 0.0
        second = run()
        assert np.abs(first).min() > 0 and not np.any(second[:, :2])
        np.testing.assert_allclose(second[:, 2:], first[:, 2:], rtol=1e-12)
        rule.gain = 2.0 * np.ones(4)
        np.testing.assert_allclose(run(), 2 * first, rtol=1e-12)
        rule.gain, rule.by_group[0] = np.ones(4), np.zeros(1)
        assert not np.any(run())
        rule.strength = 2.0
        with pytest.raises(et.ValueError, match="Gains.strength was 1.0 when the learner was compiled and is 2.0"):
            run()
        rule.strength, rule.gain = 1.0, np.ones(5)
        with pytest.raises(et.ValueError, match="rule/gain has type f64\\[4\\], but the value has f64\\[5\\]"):
            run()


def test_resets_of_samples_inside_the_model():
    """What a sample learns behind its reset is what it learns alone from there on; pp_prop's input side does not see it."""

    class Resets(et.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.out = et.nn.GRUCell(3, 4, dtype="float64"), et.nn.Linear(4, 1, dtype="float64")

        def update(self, x, keep):
            self.rnn.h.value = self.rnn.h.value * keep
            return self.out(self.rnn(x))

    r = np.random.default_rng(0)
    xs, ys, one, cut = r.normal(size=(8, 2, 3)), r.normal(size=(8, 2, 1)), np.ones((2, 1)), np.array([[0.0], [1.0]])

    def behind(rule, samples, start):
        learner = et.compile(Resets(), rule, xs[0][samples], one[samples], batch_size=len(samples), backend="interpreter")
        learner.bind_step(lambda o, t: et.sum((o - t) ** 2))
        total = 0.0
        for t in range(start, 8):
            keep = cut if t == 4 and len(samples) == 2 else one
            g = learner.step((xs[t][samples], keep[samples]), ys[t][samples]).grads.numpy()["rnn/Wh/weight.weight"]
            total = total + (g if t >= 4 else 0.0)
        return total

    for rule, exact in ((et.D_RTRL(), True), (et.EProp(), True), (et.pp_prop(decay_or_rank=0.9), False)):
        want = behind(rule, [0], 4) + behind(rule, [1], 0)
        off = np.abs(behind(rule, [0, 1], 0) - want).max() / np.abs(want).max()
        assert (off < 1e-12) == exact, rule  # LIMIT: pp_prop
