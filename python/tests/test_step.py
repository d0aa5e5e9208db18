"""Learner.step: one step from a Python loop."""

import numpy as np
import pytest

import etrace as et
from models import GruNet, Leaky, mse, normal, optimizer


@pytest.fixture
def learner():
    return et.compile(GruNet(), et.D_RTRL, et.zeros((1, 3)), batch_size=1, backend="interpreter")


def test_steps_give_what_a_sequence_gives(learner):
    xs, ys = normal(1, (5, 1, 3)), normal(2, (5, 1, 2))
    other = et.compile(GruNet(), et.D_RTRL, et.zeros((1, 3)), batch_size=1, backend="interpreter", execution_window=1)
    whole = other.etrace_grad(xs, ys, mse, reduction="sum")
    learner.bind_step(mse)
    total = None
    for x, y, loss in zip(xs, ys, np.asarray(whole.losses)):
        r = learner.step(x, y)
        assert r.loss == pytest.approx(float(loss), rel=1e-6)
        total = r.grads if total is None else total + r.grads
    for name, value in whole.grads.numpy().items():
        assert np.allclose(total.numpy()[name], value, rtol=1e-5, atol=1e-7)


def test_all_kinds_of_arguments(learner):
    x = normal(1, (1, 3))
    kinds = [x, et.asarray(x), x.astype("float64"), x.tolist(), np.asfortranarray(np.repeat(x, 2, 0))[::2], memoryview(x)]
    results = []
    for given in kinds:
        learner.reset_model_state()
        results.append(np.asarray(learner.step(given).result))
    assert all(np.array_equal(r, results[0]) for r in results)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), dtype="float32", offset=1).reshape(1, 3)
    learner.reset_model_state()
    assert np.array_equal(np.asarray(learner.step(unaligned).result), results[0])


def test_results_that_were_read_stay(learner):
    xs = normal(1, (4, 1, 3))
    kept = [learner.step(x).result for x in xs]
    values = [np.asarray(k).copy() for k in kept]
    learner.step(xs[0])
    assert all(np.array_equal(np.asarray(k), v) for k, v in zip(kept, values))
    assert len({v.tobytes() for v in values}) == 4
    r = learner.step(xs[0])
    assert r is learner.step(xs[1]), "one object for all steps of a kind"
    assert np.isnan(r.loss) and len(r.results) == 1
    with pytest.raises(ValueError, match="no gradients"):
        r.grads


def test_updates_on_the_way():
    net = GruNet()
    learner = et.compile(net, et.D_RTRL, et.zeros((1, 3)), batch_size=1, backend="interpreter")
    sgd = optimizer("sgd", net, 0.05)
    learner.bind_step(mse, sgd)
    x, y = normal(1, (1, 3)), normal(2, (1, 2))
    losses = [learner.step(x, y).loss for _ in range(200)]
    assert losses[-1] < 0.5 * losses[0] and sgd.step == 200
    del sgd  # the learner keeps it
    learner.step(x, y)
    learner.sync()


def test_several_arguments():
    class Two(Leaky):
        def update(self, x, gain):
            return super().update(x * gain)

    learner = et.compile(Two(), et.D_RTRL, np.zeros(3), np.ones(3), backend="interpreter")
    a = np.asarray(learner.step((np.ones(3), 2 * np.ones(3))).result)
    b = np.asarray(learner.update(np.ones(3), 2 * np.ones(3)))
    assert np.allclose(b, 1.9 * a)


def test_what_is_wrong_is_said_and_changes_nothing(learner):
    x, y = normal(1, (1, 3)), normal(2, (1, 2))
    with pytest.raises(ValueError, match="no loss; call bind_step"):
        learner.step(x, y)
    with pytest.raises(TypeError, match="takes a loss"):
        learner.bind_step(3)
    learner.bind_step(mse)
    r = learner.step(x, y)
    age = learner.age
    for bad, words in [
        (np.zeros((1, 4), "float32"), "has type f32"),
        (np.full((1, 3), np.nan, "float32"), "nan"),
        (np.zeros((1, 3), "int32"), "i32"),
        ((x, x), "2 arguments"),
    ]:
        with pytest.raises(ValueError, match=words):
            learner.step(bad, y)
    with pytest.raises(TypeError, match="is no array"):
        learner.step("text", y)
    with pytest.raises(TypeError):
        learner.step(object(), y)
    assert learner.age == age
    with pytest.raises(et.Error, match="is gone"):
        r.result
    learner.step(x, y)
    assert r.result.shape == (1, 2)
    learner.bind_step(mse)
    with pytest.raises(et.Error, match="is gone"):
        r.result


def test_an_exception_in_the_loss(learner):
    def loss(y, t):
        raise KeyError("mine")

    learner.bind_step(loss)
    with pytest.raises(KeyError, match="mine"):
        learner.step(normal(1, (1, 3)), normal(2, (1, 2)))
    learner.bind_step(mse)
    assert np.isfinite(learner.step(normal(1, (1, 3)), normal(2, (1, 2))).loss)


def test_prepare(learner):
    learner.prepare()
    learner.bind_step(mse)
    learner.prepare(np.zeros((1, 2), "float32"))
    assert learner.age == 0


def test_a_result_outlives_its_learner():
    learner = et.compile(GruNet(), et.D_RTRL, et.zeros((1, 3)), batch_size=1, backend="interpreter")
    r = learner.step(normal(1, (1, 3)))
    del learner
    assert r.result.shape == (1, 2)
