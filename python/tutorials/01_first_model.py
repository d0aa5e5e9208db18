"""A first model: a GRU that learns online, in constant memory.

last line: loss 0.420 before, 0.017 after 150 updates
"""

import etrace as et


class GruNet(et.Module):
    """States and layers are attributes; `update` is one time step."""

    def __init__(self):
        super().__init__()
        self.rnn = et.nn.GRUCell(3, 16)
        self.out = et.nn.Linear(16, 1)

    def update(self, x):
        return self.out(self.rnn(x))


# The task: say the mean of the first feature over the last three steps. 40 steps, a batch of 8.
# NumPy arrays do as well; these are the numbers that the program in C++ draws.
xs = et.random.normal(et.random.key(0), (40, 8, 3))
first = et.concatenate([et.zeros((2, 8, 1)), xs[:, :, :1]])
ys = (first[0:40] + first[1:41] + first[2:42]) / 3.0

# Compiling traces one step, finds what can be learned online, and makes the learning program.
model = GruNet()
learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=8)
optimizer = et.optim.Adam(model, 1e-2)
print(learner.describe())

losses = []
for epoch in range(150):
    learner.reset_state()  # traces
    learner.reset_model_state()  # hidden states
    result = learner.etrace_grad(xs, ys, et.loss.mse)
    optimizer.update(result.grads)
    losses.append(result.loss)
print(f"loss {losses[0]:.3f} before, {losses[-1]:.3f} after {optimizer.step} updates")
