"""A learning rule of one's own: D-RTRL whose learning signals have fixed random signs, as in feedback alignment.

last line: with all signs positive it is D_RTRL
"""

import numpy as np

import etrace as et


class RandomSigns(et.CustomRule):
    """Each hidden unit hears the learning signal through a fixed random sign. Traces and windows are as in D_RTRL."""

    def __init__(self, positive: float, seed: int = 0):
        self.positive, self.seed = positive, seed
        super().__init__()

    def learning_signal(self, signal, group, to):
        units = signal.shape[-2]  # [steps, batch, units, states]
        draw = np.random.default_rng(self.seed).random(units) < self.positive
        return signal * np.where(draw, 1.0, -1.0).astype(np.float32)[:, None]


model = et.Sequential(et.nn.GRUCell(3, 16), et.nn.Linear(16, 2))
rng = np.random.default_rng(1)
xs, ys = rng.normal(size=(10, 4, 3)).astype(np.float32), rng.normal(size=(10, 4, 2)).astype(np.float32)


def gradient(rule):
    learner = et.compile(model, rule, xs[0], batch_size=4)
    return np.asarray(learner.etrace_grad(xs, ys, et.loss.mse).grads["layers/0/Wh/weight.weight"])


plain = gradient(et.D_RTRL())
along = (gradient(RandomSigns(0.8)) * plain).sum(0)
print(f"{(along > 0).sum()} of 16 units follow the gradient, the others go against it")

# Many rules need no code: they are coordinates.
print(et.ETraceConfig(trace_filter="kappa", kappa=0.9).describe())

same = np.allclose(gradient(RandomSigns(1.0)), plain, rtol=1e-5, atol=1e-7)
print("with all signs positive it is D_RTRL" if same else "it is another rule")
