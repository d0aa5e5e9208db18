"""Decision making: which of two noisy inputs is the stronger? Excitatory and inhibitory neurons with conductances, written as
for braintrace; only the imports differ."""

import numpy as np

import etrace as et
import etrace.braintrace as braintrace
from etrace.braintrace import brainpy, brainstate, braintools, jnp, u

STEPS, SCORED = 50, 10


def batch(rng, size, n_in):
    """Spikes [time, size, n_in]; the first half fires at one rate, the second at another."""
    side = (rng.random(size) < 0.5).astype(np.int32)
    rates = np.where(side[:, None] == np.array([0, 1]), 0.25, 0.15)
    spikes = rng.random((STEPS, size, n_in)) < np.repeat(rates, n_in // 2, -1)
    return spikes.astype(np.float32), side


class Population(brainstate.nn.Module):
    """Neurons whose potential is driven by an excitatory and an inhibitory conductance."""

    def __init__(self, size, tau=20.0 * u.ms, E_exc=3.0 * u.mV, E_inh=-3.0 * u.mV, V_th=1.0 * u.mV):
        super().__init__()
        self.tau, self.E_exc, self.E_inh, self.V_th = (braintools.init.param(v, size) for v in (tau, E_exc, E_inh, V_th))
        self.V = brainstate.HiddenState(jnp.zeros(size))
        self.spike = braintools.surrogate.ReluGrad()

    def get_spike(self):
        return jnp.nn.spike((self.V.value - self.V_th) / self.V_th, self.spike)

    def update(self, g_exc, g_inh):
        V = self.V.value - self.V_th * jnp.stop_gradient(self.get_spike())
        current = g_exc * (self.E_exc - V) + g_inh * (self.E_inh - V)
        self.V.value = brainstate.nn.exp_euler_step(lambda v, i: (-v + i) / self.tau, V, current)
        return self.get_spike()


class Net(brainstate.nn.Module):
    """Four fifths of the neurons excite, the others inhibit; weights keep their signs."""

    def __init__(self, n_in, n_rec):
        super().__init__()
        self.n_exc = n_rec * 4 // 5
        first = braintools.init.KaimingNormal(0.5)
        self.exc = braintrace.nn.SignedWLinear(n_in + self.n_exc, n_rec, w_init=first)
        self.inh = braintrace.nn.SignedWLinear(n_rec - self.n_exc, n_rec, w_init=first)
        self.g_exc, self.g_inh = (brainpy.state.Expon(n_rec, tau=t * u.ms) for t in (5.0, 10.0))
        self.pop = Population(n_rec)
        self.out = braintrace.nn.LeakyRateReadout(n_rec, 2, tau=20.0 * u.ms)

    def update(self, x):
        fired = self.pop.get_spike()
        exc = self.g_exc(self.exc(jnp.concatenate([x, fired[..., :self.n_exc]], -1)))
        inh = self.g_inh(self.inh(fired[..., self.n_exc:]))
        return self.out(self.pop(exc, inh))


def main(epochs=100, n_in=20, n_rec=50, batch_size=64):
    brainstate.random.seed(0)
    with brainstate.environ.context(dt=1.0 * u.ms):
        model = Net(n_in, n_rec)
        learner = braintrace.compile(model, "pp_prop", np.zeros((batch_size, n_in), np.float32), batch_size=batch_size,
                                     decay_or_rank=0.9)
    opt = braintools.optim.Adam(2e-3)
    opt.register_trainable_weights(learner.param_states)
    rng, history = np.random.default_rng(0), []

    def loss(x, y):
        out = learner(x)
        right = (jnp.argmax(out, -1) == y).astype("float32").mean()
        return braintools.metric.softmax_cross_entropy_with_integer_labels(out, y).mean(), right
    for _ in range(epochs):
        xs, side = batch(rng, batch_size, n_in)
        learner.reset_state()
        learner.reset_model_state()
        learner.etrace_evolve(xs[:-SCORED])
        grads, right = learner.etrace_grad(xs[-SCORED:], np.broadcast_to(side, (SCORED, batch_size)), step_fn=loss,
                                           has_aux=True)
        opt.update(grads)
        history.append(float(right.mean()))
    assert isinstance(learner, et.Learner)
    return history


if __name__ == "__main__":
    history = main()
    print(f"right {np.mean(history[:10]):.2f} -> {np.mean(history[-10:]):.2f}")
