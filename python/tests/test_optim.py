"""et.optim: optimisers, schedules, groups, constraints."""

import numpy as np
import pytest

import etrace as et

optim = et.optim


def net():
    class Net(et.Module):
        def __init__(self):
            super().__init__()
            self.rnn = et.nn.GRUCell(2, 3)
            self.out = et.nn.Linear(3, 1)

        def update(self, x):
            return self.out(self.rnn(x))

    return Net()


def ones(model):
    values = et.params(model)
    return values.replace({name: np.ones(leaf.shape, np.float32) for name, leaf in values.leaves().items()})


def values(model):
    return et.params(model).numpy()


RULES = [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Lion]


@pytest.mark.parametrize("rule", RULES)
def test_every_optimiser_moves_against_the_gradient(rule):
    model = net()
    before, optimizer = values(model), rule(model, 0.1)
    assert optimizer.learning_rate == pytest.approx(0.1) and optimizer.step == 0 and optimizer.bound
    optimizer.update(ones(model))
    after = values(model)
    assert optimizer.step == 1
    for name in before:
        assert np.all(after[name] < before[name]), name
    assert rule(model).learning_rate > 0  # its own


def test_sgd_and_adam_by_hand():
    model = net()
    before = values(model)
    optim.SGD(model, 0.5).update(ones(model))
    for name, after in values(model).items():
        assert np.allclose(after, before[name] - 0.5)
    model = net()
    optim.Adam(model, 1e-3, beta1=0.5, epsilon=1e-12).update(ones(model))
    for name, after in values(model).items():
        assert np.allclose(after, before[name] - 1e-3, atol=1e-7)


def test_state_comes_back():
    a, b = net(), net()
    one, two = optim.Adam(a, 0.1), optim.Adam(b, 0.1)
    one.update(ones(a))
    et.set_params(b, et.params(a))
    state = {k: np.array(v) for k, v in one.state().items()}
    two.set_state(state)
    assert two.step == 1
    one.update(ones(a))
    two.update(ones(b))
    assert all(np.array_equal(x, y) for x, y in zip(values(a).values(), values(b).values()))
    state.pop("step")
    with pytest.raises(ValueError, match="step"):
        two.set_state(state)


def test_schedules():
    s = optim.cosine(1.0, total=10, warmup=2, final=0.1)
    assert s(0) == pytest.approx(0.5) and s(1) == pytest.approx(1.0) and s(10) == pytest.approx(0.1)
    assert optim.step_decay(1.0, 0.5, 3)(6) == pytest.approx(0.25)
    assert optim.exponential(1.0, 0.5)(2) == pytest.approx(0.25)
    assert optim.linear_warmup(1.0, 4)(0) == pytest.approx(0.25)
    assert optim.piecewise([1.0, 0.1], [5])(5) == pytest.approx(0.1) and optim.constant(0.3)(9) == pytest.approx(0.3)
    with pytest.raises(ValueError):
        optim.piecewise([1.0], [5])
    own = optim.Schedule(lambda step: 0.5 / (step + 1.0))
    assert own(1) == pytest.approx(0.25)

    model = net()
    before = values(model)["out/weight.bias"]
    optimizer = optim.SGD(model, lambda step: 0.5 / (step + 1.0))
    optimizer.update(ones(model))
    optimizer.update(ones(model))
    assert np.allclose(values(model)["out/weight.bias"], before - 0.75)
    optimizer.learning_rate = 0.0
    optimizer.update(ones(model))
    assert np.allclose(values(model)["out/weight.bias"], before - 0.75)


def test_groups_and_frozen_names():
    model = net()
    before = values(model)
    optimizer = optim.SGD(
        model, 0.1, groups=[optim.ParamGroup("rnn/Wz", learning_rate=1.0), optim.ParamGroup("out", frozen=True)]
    )
    optimizer.update(ones(model))
    after = values(model)
    assert np.allclose(after["rnn/Wz/weight.weight"], before["rnn/Wz/weight.weight"] - 1.0)
    assert np.allclose(after["rnn/Wr/weight.weight"], before["rnn/Wr/weight.weight"] - 0.1)
    assert np.array_equal(after["out/weight.weight"], before["out/weight.weight"])
    optimizer.set_learning_rate(0.0, group="rnn/Wz")
    optimizer.update(ones(model))
    assert np.allclose(values(model)["rnn/Wz/weight.weight"], before["rnn/Wz/weight.weight"] - 1.0)


def test_constraints():
    model = net()
    signs = np.sign(values(model)["out/weight.weight"])
    mask = np.array([[1.0], [0.0], [1.0]], np.float32)
    optimizer = optim.SGD(
        model,
        10.0,
        constraints=[
            optim.keep_sign("out/weight.weight"),
            optim.non_positive("rnn/Wz"),
            optim.non_negative("rnn/Wr/weight.weight"),
            optim.fixed_mask("out/weight.weight", mask),
        ],
    )
    optimizer.update(ones(model))
    after = values(model)
    assert np.all(after["out/weight.weight"] * signs >= 0) and after["out/weight.weight"][1, 0] == 0
    assert np.all(after["rnn/Wz/weight.weight"] <= 0) and np.all(after["rnn/Wr/weight.weight"] >= 0)
    assert "keep_sign('rnn'" in repr(optim.keep_sign("rnn", mask))


def test_clips():
    model = net()
    before = values(model)
    optim.SGD(model, 1.0, clip_value=0.25).update(ones(model))
    assert np.allclose(values(model)["out/weight.bias"], before["out/weight.bias"] - 0.25)
    model = net()
    n = sum(v.size for v in before.values())
    optim.SGD(model, 1.0, clip_norm=1.0).update(ones(model))
    assert np.allclose(values(model)["out/weight.bias"], before["out/weight.bias"] - 1 / np.sqrt(n), rtol=1e-4)


def test_pure_form():
    rule = optim.Adam(None, 0.1)
    params = [et.ones(3), et.zeros((2, 2))]
    state = rule.init(params)
    new, state = rule.apply(params, [et.ones(3), et.ones((2, 2))], state)
    assert np.allclose(new[0], 0.9) and np.allclose(new[1], -0.1)
    assert not rule.bound
    with pytest.raises(ValueError):
        rule.step
    jitted = et.jit(lambda p, g, s: rule.apply(p, g, s))(params, [et.ones(3), et.ones((2, 2))], rule.init(params))
    assert np.allclose(jitted[0][0], 0.9)


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda m: optim.Adam(m, -1.0), ValueError, "."),
        (lambda m: optim.Adam(m, "fast"), TypeError, "learning_rate is a number"),
        (lambda m: optim.Adam(m, 1e-3, beta=0.9), TypeError, "did you mean beta1"),
        (lambda m: optim.Adam(m, 1e-3, clip_norm="a"), TypeError, "clip_norm is a number"),
        (lambda m: optim.Adam(m, 1e-3, constraints=["rnn"]), TypeError, "constraints such as"),
        (lambda m: optim.Adam(m, 1e-3, groups={"rnn": 1}), TypeError, "groups is a list"),
        (lambda m: optim.Adam(m, 1e-3, frozen=["rn"]), ValueError, "rn"),
        (lambda m: optim.Adam(3, 1e-3), TypeError, "model"),
        (lambda m: optim.SGD(m, 1e-3, nesterov=True), ValueError, "momentum"),
        (lambda m: optim.SGD(m, 0.1).update({"out": 1}), KeyError, "no parameter 'out'"),
        (lambda m: optim.SGD(m, 0.1).update(1), TypeError, "gradients as etrace_grad gives them"),
        (lambda m: optim.SGD(m, 0.1).update(et.params(et.nn.Linear(2, 2))), ValueError, "weight"),
        (lambda m: optim.SGD(m, 0.1).set_learning_rate(1.0, group="x"), ValueError, "x"),
    ],
)
def test_wrong_arguments_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make(net())


def test_gradients_of_a_dictionary():
    a, b, c = net(), net(), net()
    grads = {"out/weight": {"weight": np.ones((3, 1), "float32")}, "rnn/Wz/weight.weight": 2 * np.ones((5, 3))}
    for model, given in ((a, grads), (b, et.params(b).replace(grads))):
        et.optim.SGD(model, 0.1).update(given)
    for name in ("out/weight", "rnn/Wz/weight"):
        np.testing.assert_array_equal(et.params(a)[name]["weight"], et.params(b)[name]["weight"])
    before, after = et.params(c).numpy(), et.params(a).numpy()
    np.testing.assert_array_equal(before["rnn/Wh/weight.weight"], after["rnn/Wh/weight.weight"])  # not named
    optimizer = et.optim.SGD(c, 0.1)
    with pytest.raises(ValueError, match=r"out/weight.weight has type f32\[3,1\]"):
        optimizer.update({"out/weight.weight": np.ones((1, 3))})
    with pytest.raises(KeyError, match="no parameter 'out'; there are"):
        optimizer.update({"out": np.ones((3, 1))})
    with pytest.raises(TypeError, match="a dictionary of arrays by name, not a list"):
        optimizer.update([np.ones((3, 1))])
    np.testing.assert_array_equal(before["out/weight.weight"], et.params(c).numpy()["out/weight.weight"])


def test_by_name():
    model = net()
    for entry in ("sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"):
        assert optim.make(entry, model, 0.1, clip_norm=1.0).name == entry
    with pytest.raises(ValueError, match="adam"):
        optim.make("adm", model)


def test_an_optimiser_is_not_pickled():
    import pickle

    with pytest.raises(TypeError, match="state"):
        pickle.dumps(optim.Adam(net(), 0.1))
