"""et.loss and et.metrics against NumPy."""

import numpy as np
import pytest

import etrace as et

rng = np.random.default_rng(3)
P, T = rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
LABELS = np.array([0, 4, 2, 2], np.int32)


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), -1, keepdims=True))


def test_losses():
    close = lambda a, b: np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12)  # noqa: E731
    close(et.loss.mse(P, T), np.mean((P - T) ** 2))
    close(et.loss.cross_entropy(P, LABELS), -np.mean(log_softmax(P)[np.arange(4), LABELS]))
    close(et.loss.cross_entropy(P, np.eye(5)[LABELS]), -np.mean(log_softmax(P)[np.arange(4), LABELS]))
    t = (T > 0).astype(float)
    s = 1 / (1 + np.exp(-P))
    close(et.loss.binary_cross_entropy(P, t), -np.mean(t * np.log(s) + (1 - t) * np.log(1 - s)))
    cos = np.sum(P * T, -1) / np.linalg.norm(P, axis=-1) / np.linalg.norm(T, axis=-1)
    close(et.loss.cosine(P, T), np.mean(1 - cos))
    e = np.abs(P - T)
    close(et.loss.huber(P, T, delta=0.5), np.mean(np.where(e <= 0.5, e**2 / 2, 0.5 * (e - 0.25))))
    assert {"mse", "cross_entropy"} <= set(et.loss.names())
    close(et.grad(lambda p: et.loss.mse(p, T))(P), 2 * (P - T) / P.size)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: et.loss.mse(P, T[:, :1]), ValueError, "5"),
        (lambda: et.loss.mse(P.astype(int), T), TypeError, "float|f32"),
        (lambda: et.loss.cross_entropy(P, np.array([0, 1, 2, 5])), ValueError, "5"),
        (lambda: et.loss.huber(P, T, delta=0.0), ValueError, "delta"),
        (lambda: et.loss.mse("a", T), TypeError, "."),
        (lambda: et.metrics.accuracy()(P, T), (TypeError, ValueError), "."),
        (lambda: et.metrics.f1(5, "mean"), ValueError, "average is 'mean'"),
        (lambda: et.metrics.accuracy().update([], P, LABELS), ValueError, "."),
    ],
)
def test_wrong_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_metrics_add_up():
    m = et.metrics.accuracy()
    sums = m.start()
    for i in (slice(0, 1), slice(1, 4)):
        sums = m.update(sums, P[i], LABELS[i])
    expected = np.mean(np.argmax(P, -1) == LABELS)
    assert float(m.value(sums)) == pytest.approx(expected) == pytest.approx(float(m(P, LABELS)))
    weight = np.array([1.0, 0, 0, 0])
    assert float(m(P, LABELS, weight)) == float(np.argmax(P[0]) == LABELS[0])
    assert float(et.metrics.top_k(5)(P, LABELS)) == 1.0
    confusion = np.asarray(et.metrics.confusion(5)(P, LABELS))
    assert confusion.shape == (5, 5) and confusion.sum() == 4
    assert float(et.metrics.mean_squared_error()(P, T)) == pytest.approx(np.mean((P - T) ** 2))
    assert float(et.metrics.r2()(T, T)) == 1.0
    assert float(et.metrics.perplexity()(P, LABELS)) == pytest.approx(np.exp(float(et.loss.cross_entropy(P, LABELS))))
    spikes = np.array([[0.0, 1.0], [0.0, 0.0]])
    assert float(et.metrics.firing_rate(dt=1.0)(spikes)) == pytest.approx(250.0)
    assert float(et.metrics.sparsity()(spikes)) == 0.75 and float(et.metrics.average()(spikes)) == 0.25
    for f in (et.metrics.f1, et.metrics.precision, et.metrics.recall):
        assert np.asarray(f(5, "per_class")(P, LABELS)).shape == (5,)
    assert np.isnan(float(m.value(m.start())))
