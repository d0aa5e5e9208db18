"""Integrator: a small recurrent network sums up a noisy input. Written as for braintrace; only the imports differ."""

import numpy as np

import etrace.braintrace as braintrace
from etrace.braintrace import brainstate, braintools, jnp

STEPS, DT = 25, 0.04


def batch(size, mean=0.025, scale=0.01):
    bias = mean * 2.0 * (brainstate.random.normal(size=(1, size, 1)) - 0.5)
    inputs = bias + scale / DT ** 0.5 * brainstate.random.normal(size=(STEPS, size, 1))
    return inputs, jnp.cumsum(inputs, 0)


class Net(brainstate.nn.Module):
    def __init__(self, n_rec):
        super().__init__()
        self.rnn = braintrace.nn.MiniGRU(in_size=1, out_size=n_rec)
        self.out = braintrace.nn.Linear(n_rec, 1)

    def update(self, x):
        return x >> self.rnn >> self.out


def main(epochs=300, n_rec=50, batch_size=64):
    brainstate.random.seed(0)
    model = Net(n_rec)
    weights = model.states(brainstate.ParamState)
    opt = braintools.optim.Adam(lr=braintools.optim.ExponentialDecayLR(0.01, decay_steps=1, decay_rate=0.999))
    opt.register_trainable_weights(weights)
    learner = braintrace.compile(model, "D_RTRL", np.zeros((batch_size, 1), np.float32), batch_size=batch_size)

    def loss(x, y):
        return braintools.metric.squared_error(learner(x), y).mean()

    losses = []
    for _ in range(epochs):
        learner.reset_state()
        learner.reset_model_state()
        grads, value = learner.etrace_grad(*batch(batch_size), step_fn=loss, return_value=True, loss_output="scalar")
        opt.update(grads)
        losses.append(float(value))
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"loss {np.mean(losses[:5]):.5f} -> {np.mean(losses[-5:]):.5f}")
