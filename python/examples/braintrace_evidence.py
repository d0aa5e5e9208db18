"""Evidence accumulation: cues arrive on the left and on the right, and after a delay the network says on which side there were
more. Spiking neurons with a slow current, written as for braintrace; only the imports differ."""

import numpy as np

import etrace.braintrace as braintrace
from etrace.braintrace import brainpy, brainstate, braintools, jnp, u

GROUPS, CUES, CUE, DELAY, RECALL = 4, 7, 10, 20, 5


def batch(rng, size, n_in):
    """Spikes [time, size, n_in] of four groups (left, right, recall, noise), and the side [size]."""
    steps = CUES * CUE + DELAY + RECALL
    rates = np.full((steps, size, GROUPS), 0.0)
    sides = rng.random((CUES, size)) < np.where(rng.random(size) < 0.5, 0.3, 0.7)
    for i in range(CUES):
        at = slice(i * CUE, i * CUE + CUE // 2)
        rates[at, :, 0], rates[at, :, 1] = np.where(sides[i], 0.0, 0.4), np.where(sides[i], 0.4, 0.0)
    rates[-RECALL:, :, 2], rates[..., 3] = 0.4, 0.05
    spikes = rng.random((steps, size, n_in)) < np.repeat(rates, n_in // GROUPS, -1)
    return spikes.astype(np.float32), (sides.sum(0) > CUES / 2).astype(np.int32)


class GIF(brainstate.nn.Module):
    """Leaky neurons whose spikes feed a slow current of their own."""

    def __init__(self, size, V_th=1.0 * u.mV, tau=20.0 * u.ms, tau_I2=200.0 * u.ms, A2=-0.5 * u.mA):
        super().__init__()
        self.size = size
        self.V_th, self.tau, self.A2 = (braintools.init.param(v, size, allow_none=False) for v in (V_th, tau, A2))
        self.tau_I2 = brainstate.random.uniform(100.0 * u.ms, tau_I2 * 1.5, size)
        self.spike = braintools.surrogate.ReluGrad()

    def init_state(self, batch_size=None):
        self.V = brainstate.HiddenState(braintools.init.param(braintools.init.ZeroInit(unit=u.mV), self.size, batch_size))
        self.I2 = brainstate.HiddenState(braintools.init.param(braintools.init.ZeroInit(unit=u.mA), self.size, batch_size))

    def get_spike(self):
        return jnp.nn.spike((self.V.value - self.V_th) / self.V_th, self.spike)

    def update(self, x):
        fired = jnp.stop_gradient(self.get_spike())
        I2 = brainstate.nn.exp_euler_step(lambda i: -i / self.tau_I2, self.I2.value - self.A2 * fired)
        V = self.V.value - self.V_th * fired
        self.V.value = brainstate.nn.exp_euler_step(lambda v, current: (-v + current) / self.tau, V, x + I2)
        self.I2.value = I2
        return self.get_spike()


class Net(brainstate.nn.Module):
    def __init__(self, n_in, n_rec):
        super().__init__()
        self.ir2r = braintrace.nn.Linear(n_in + n_rec, n_rec, w_init=braintools.init.KaimingNormal(8.0, unit=u.mA),
                                         b_init=braintools.init.ZeroInit(unit=u.mA))
        self.exp = brainpy.state.Expon(n_rec, tau=10.0 * u.ms)
        self.r = GIF(n_rec)
        self.out = braintrace.nn.LeakyRateReadout(n_rec, 2, tau=10.0 * u.ms, w_init=braintools.init.KaimingNormal())

    def update(self, spikes):
        return self.out(self.r(self.exp(self.ir2r(jnp.concatenate([spikes, self.r.get_spike()], -1)))))


def main(epochs=150, n_in=40, n_rec=60, batch_size=64):
    brainstate.random.seed(0)
    with brainstate.environ.context(dt=1.0 * u.ms):
        model = Net(n_in, n_rec)
        learner = braintrace.compile(model, braintrace.pp_prop, np.zeros((batch_size, n_in), np.float32),
                                     batch_size=batch_size, decay_or_rank=0.98)
    opt = braintools.optim.Adam(3e-3)
    opt.register_trainable_weights(learner.param_states)

    def loss(x, y):
        out = learner(x)
        right = (jnp.argmax(out, -1) == y).astype("float32").mean()
        return braintools.metric.softmax_cross_entropy_with_integer_labels(out, y).mean(), right

    rng, history = np.random.default_rng(0), []
    for _ in range(epochs):
        xs, side = batch(rng, batch_size, n_in)
        learner.reset_state()
        learner.reset_model_state()
        learner.etrace_evolve(xs[:-RECALL])
        grads, right = learner.etrace_grad(xs[-RECALL:], np.broadcast_to(side, (RECALL, batch_size)), step_fn=loss,
                                           has_aux=True)
        opt.update(brainstate.nn.clip_grad_norm(grads, 1.0))
        history.append(float(right.mean()))
    return history


if __name__ == "__main__":
    history = main()
    print(f"right {np.mean(history[:10]):.2f} -> {np.mean(history[-10:]):.2f}")
