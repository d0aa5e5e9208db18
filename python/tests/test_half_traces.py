"""Traces of 16 bits over long times: rounded stochastically they are right on average, in single steps and in windows, where
rounding to the nearest would stop them; the same bits on both engines, for any number of threads, and after a checkpoint."""

import numpy as np
import pytest

import etrace as et

STEPS = 1500


class Leaky(et.Module):
    def __init__(self, decay):
        super().__init__()
        self.w = et.ParamState(np.full((40, 30), 0.1, np.float32))
        self.v = et.HiddenState(np.zeros(30, np.float32))
        self.decay = np.float32(decay)

    def update(self, x):
        self.v.value = self.decay * self.v.value + (1 - self.decay) * et.matmul(x, self.w.value)
        return self.v.value


X = (np.random.default_rng(2).random((STEPS, 40)) < 0.05).astype(np.float32)
Y = np.ones((STEPS, 30), np.float32)


def learner(decay, dtype, **options):
    rule = et.D_RTRL(trace_dtype=dtype) if dtype else et.D_RTRL()
    made = et.compile(Leaky(decay), rule, X[0], **options)
    made.bind_step(et.loss.mse)
    return made


def last_gradient(made, begin=0):
    for t in range(begin, STEPS - 1):
        made.step(X[t])
    return made.step(X[-1], Y[-1]).grads.numpy()["w"]


def in_windows(made):
    weights = np.zeros(STEPS, np.float32)
    weights[-1] = 1
    return made.etrace_grad(X, Y, et.loss.mse, mask=weights, reduction="sum").grads.numpy()["w"]


@pytest.mark.parametrize("decay", [0.99, 0.995, 0.999])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_slow_traces_do_not_stop(dtype, decay):
    exact = last_gradient(learner(decay, None))
    for found in (last_gradient(learner(decay, dtype)), in_windows(learner(decay, dtype, execution_window=16))):
        # Right on average: each entry is off by its own roundings, of which a row of 30 has 30.
        assert np.sum(found) / np.sum(exact) == pytest.approx(1, abs=0.01)
        assert np.linalg.norm(found - exact) < (0.12 if dtype == "bf16" else 0.04) * np.linalg.norm(exact)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_bits_are_the_same_everywhere(dtype, tmp_path):
    want = last_gradient(learner(0.999, dtype, backend="interpreter"))
    windows = in_windows(learner(0.999, dtype, backend="interpreter", execution_window=16))
    threads = et.num_threads()
    try:
        for n in (1, 3):
            et.set_num_threads(n)
            np.testing.assert_array_equal(last_gradient(learner(0.999, dtype, backend="native")), want)
            np.testing.assert_array_equal(in_windows(learner(0.999, dtype, backend="native", execution_window=16)), windows)
    finally:
        et.set_num_threads(threads)
    first = learner(0.999, dtype)
    for t in range(700):
        first.step(X[t])
    first.save(tmp_path / "half.safetensors")
    other = learner(0.999, dtype)
    other.load(tmp_path / "half.safetensors")
    np.testing.assert_array_equal(last_gradient(other, 700), want)


def test_verify_shows_what_16_bits_cost():
    for dtype in ("bf16", "f16"):
        report = et.verify(Leaky(0.9), et.D_RTRL(trace_dtype=dtype), X[:12], Y[:12], et.loss.mse)
        assert "rounded stochastically" in str(report), str(report)
