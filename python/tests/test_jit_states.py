"""et.jit and states: what a function reads of a state is never that of an earlier call."""

import numpy as np

import etrace as et


class Net(et.Module):
    def __init__(self):
        super().__init__()
        self.w = et.ParamState(np.array([[1.0, -0.5], [0.25, 2.0]]))
        self.h = et.HiddenState(np.zeros(2))

    def update(self, x):
        self.h.value = 0.6 * self.h.value + et.matmul(x, self.w.value)
        return self.h.value


def test_a_call_sees_the_state_as_it_is():
    net = Net()
    total = et.jit(lambda: et.sum(net.w.value))
    assert total().item() == 2.75
    net.w.value = 2.0 * net.w.value
    assert total().item() == 5.5


def test_a_penalty_that_was_called_before_is_differentiated():
    xs, ys = np.random.default_rng(0).standard_normal((2, 4, 2))
    grads = []
    for called_before in (False, True):
        net = Net()
        penalty = et.jit(lambda net=net: et.sum(net.w.value**2))
        if called_before:
            penalty()
        learner = et.compile(net, et.D_RTRL, xs[0])
        loss = lambda o, y, penalty=penalty: et.loss.mse(o, y) + penalty()  # noqa: E731
        grads.append(learner.etrace_grad(xs, ys, loss).grads.numpy()["w"])
    np.testing.assert_array_equal(grads[0], grads[1])
    plain = et.compile(Net(), et.D_RTRL, xs[0]).etrace_grad(xs, ys, et.loss.mse).grads.numpy()["w"]
    assert np.abs(grads[0] - plain).max() > 0.1
