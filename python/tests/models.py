"""Models that several tests use."""

import numpy as np

import etrace as et


def mse(output, target):
    return et.mean(et.square(output - target))


def normal(seed, shape, dtype="float32"):
    return np.asarray(et.random.normal(et.random.key(seed), shape, dtype))


class Linear(et.Module):
    """Like nn::Linear of the library: one parameter with the leaves bias and weight."""

    def __init__(self, n_in, n_out, seed=0, dtype="float32"):
        super().__init__()
        weight = normal(seed, (n_in, n_out), dtype) / np.sqrt(n_in).astype(dtype)
        self.weight = et.ParamState({"weight": weight, "bias": np.zeros(n_out, dtype)})

    def update(self, x):
        return et.matmul(x, self.weight["weight"], self.weight["bias"])


class GRUCell(et.Module):
    """The equations of nn::GRUCell, in the same order."""

    def __init__(self, n_in, n_out, dtype="float32"):
        super().__init__()
        self.h = et.HiddenState(np.zeros(n_out, dtype))
        self.Wz = Linear(n_in + n_out, n_out, 1, dtype)
        self.Wr = Linear(n_in + n_out, n_out, 2, dtype)
        self.Wh = Linear(n_in + n_out, n_out, 3, dtype)

    def update(self, x):
        before = self.h.value
        xh = et.concatenate([x, before], -1)
        z = et.sigmoid(self.Wz(xh))
        r = et.sigmoid(self.Wr(xh))
        candidate = et.tanh(self.Wh(et.concatenate([x, r * before], -1)))
        kept = (1.0 - z) * before
        self.h.value = kept + z * candidate
        return self.h.value


class GruNet(et.Module):
    def __init__(self, n_in=3, n_hidden=8, n_out=2, dtype="float32"):
        super().__init__()
        self.rnn = GRUCell(n_in, n_hidden, dtype)
        self.out = Linear(n_hidden, n_out, 4, dtype)

    def update(self, x):
        return self.out(self.rnn(x))


class Leaky(et.Module):
    """h <- 0.9 h + x W: D-RTRL is exact for it."""

    def __init__(self, n_in=3, n=4, dtype="float64"):
        super().__init__()
        self.w = et.ParamState(normal(5, (n_in, n), dtype))
        self.h = et.HiddenState(np.zeros(n, dtype))

    def update(self, x):
        self.h.value = 0.9 * self.h.value + et.matmul(x, self.w.value)
        return self.h.value


def optimizer(name, model, rate=0.01, **options):
    return et.optim.make(name, model, rate, **options)
