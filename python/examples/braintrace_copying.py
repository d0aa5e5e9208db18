"""Copying: a GRU sees ten symbols, waits, and repeats them. Written as for braintrace; only the imports differ."""

import numpy as np

import etrace.braintrace as braintrace
from etrace.braintrace import brainstate, braintools

SYMBOLS, LENGTH = 8, 10


def batch(rng, lag, size):
    """One-hot [time, size, 10]: symbols, blanks, and the sign to repeat; and the symbols [time of repeating, size]."""
    ids = np.zeros((LENGTH + lag + LENGTH, size), np.int64)
    ids[:LENGTH] = rng.integers(1, SYMBOLS + 1, (LENGTH, size))
    ids[-LENGTH:] = SYMBOLS + 1
    return np.eye(SYMBOLS + 2, dtype=np.float32)[ids], ids[:LENGTH].astype(np.int32)


class Net(brainstate.nn.Module):
    def __init__(self, n_rec):
        super().__init__()
        self.rnn = brainstate.nn.Sequential(braintrace.nn.GRUCell(SYMBOLS + 2, n_rec))
        self.readout = braintrace.nn.Linear(n_rec, SYMBOLS + 2)

    def update(self, x):
        return self.readout(self.rnn(x))


def main(epochs=300, lag=5, n_rec=64, batch_size=64):
    brainstate.random.seed(0)
    model = Net(n_rec)
    opt = braintools.optim.Adam(3e-3)
    opt.register_trainable_weights(model.states().subset(brainstate.ParamState))
    learner = braintrace.compile(model, braintrace.ParamDimVjpAlgorithm, np.zeros((batch_size, SYMBOLS + 2), np.float32),
                                 batch_size=batch_size, vjp_method="single-step")

    def loss(x, y):
        return braintools.metric.softmax_cross_entropy_with_integer_labels(learner(x), y).mean()

    @brainstate.transform.jit
    def train(xs, ys):
        learner.reset_state()
        learner.reset_model_state()
        learner.etrace_evolve(xs[:-LENGTH])
        grads, losses = learner.etrace_grad(xs[-LENGTH:], ys, step_fn=loss, reduction="mean", return_value=True)
        opt.update(brainstate.nn.clip_grad_norm(grads, 1.0))
        return losses.mean()

    rng = np.random.default_rng(0)
    return [float(train(*batch(rng, lag, batch_size))) for _ in range(epochs)]


if __name__ == "__main__":
    losses = main()
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, by chance {np.log(SYMBOLS):.3f}")
