"""A first model: a GRU that learns online, in constant memory.

last line: loss fell to less than a tenth
"""

import numpy as np

import etrace as et


class GruNet(et.Module):
    """States and layers are attributes; `update` is one time step."""

    def __init__(self):
        super().__init__()
        self.rnn = et.nn.GRUCell(3, 16)
        self.out = et.nn.Linear(16, 1)

    def update(self, x):
        return self.out(self.rnn(x))


# The task: say the mean of the last three inputs of the first feature. 40 steps, a batch of 8.
rng = np.random.default_rng(0)
xs = rng.normal(size=(40, 8, 3)).astype(np.float32)
ys = np.stack([xs[max(0, t - 2) : t + 1, :, :1].mean(0) for t in range(40)])

# Compiling traces one step, finds what can be learned online, and makes the learning program.
model = GruNet()
learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=8)
optimizer = et.optim.Adam(model, 1e-2)
print(learner)

losses = []
for epoch in range(150):
    learner.reset_state()  # traces
    learner.reset_model_state()  # hidden states
    result = learner.etrace_grad(xs, ys, et.loss.mse)
    optimizer.update(result.grads)
    losses.append(result.loss)
print(f"loss {losses[0]:.3f} before, {losses[-1]:.4f} after {optimizer.step} updates")
print("loss fell to less than a tenth" if losses[-1] < 0.1 * losses[0] else "not learned")
