"""A neuron of one's own: a resonator whose spikes have a surrogate derivative.

    du/dt = −u/τ − ω·v + I    dv/dt = −v/τ + ω·u    a spike where u ≥ 1, after which u is 1 smaller

last line: the neuron's own frequency is learned, and the loss falls
"""

import numpy as np

import etrace as et


class Resonator(et.Module):
    def __init__(self, size: int, tau: float = 20.0, omega: float = 0.2, dt: float = 1.0):
        super().__init__()
        self.u = et.HiddenState(et.zeros(size))
        self.v = et.HiddenState(et.zeros(size))
        self.omega = et.ParamState(omega * et.ones(size))  # learned: one frequency per neuron
        self.tau, self.dt = tau, dt

    def update(self, current):
        # element_wise tells the compiler that a weight acts position by position: it gets a trace.
        omega = et.element_wise(self.omega.value)
        u = self.u.value - et.nn.spike(self.u.value - 1.0, "sigmoid")

        def drift(u, v):
            return -u / self.tau - omega * v + current, -v / self.tau + omega * u

        self.u.value, self.v.value = et.nn.rk4(drift, (u, self.v.value), self.dt)
        return et.nn.spike(self.u.value - 1.0, "sigmoid")


model = et.Sequential(et.nn.Linear(2, 12), Resonator(12), et.nn.LeakyRateReadout(12, 1))

# Follow a slow sine from two faster ones.
t = np.arange(100)
xs = np.stack([np.sin(0.3 * t), np.cos(0.3 * t)], -1)[:, None].astype(np.float32)
ys = np.sin(0.1 * t)[:, None, None].astype(np.float32)

learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=1)
print(learner.report)
optimizer = et.optim.Adam(model, 1e-2, clip_norm=1.0)
start, losses = np.array(model[1].omega.value), []
for _ in range(60):
    learner.reset_state()
    learner.reset_model_state()
    losses.append(learner.etrace_train(xs, ys, et.loss.mse, optimizer).loss)
learner.sync()  # the model gets the newest values
moved = np.abs(np.array(model[1].omega.value) - start).max()
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; frequencies moved by up to {moved:.3f}")
if moved > 1e-3 and losses[-1] < 0.8 * losses[0]:
    print("the neuron's own frequency is learned, and the loss falls")
