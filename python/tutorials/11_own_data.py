"""Data of one's own: a CSV file is read, a network learns it, and is asked about series that it never saw.

    python 11_own_data.py waves.csv        one series per line: its label, then a number per step

last line: more than nine in ten series that it never saw are named right
"""

import sys
from pathlib import Path

import numpy as np

import etrace as et

# Where the file is if it is not named: beside the programs in C++, in the sources and in an installed package.
beside = Path(__file__).resolve().parents[2] / "examples/tutorials/waves.csv"
path = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].endswith(".csv") else beside
names = np.loadtxt(path, delimiter=",", skiprows=1, usecols=0, dtype=str)
numbers = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, 25), dtype=np.float32)
classes, labels = np.unique(names, return_inverse=True)

# Time first: [samples, steps] becomes [steps, samples, 1]. The label is asked for at the last step alone.
xs = numbers.T[:, :, None]
steps, samples = xs.shape[:2]
batch = samples // 5  # four parts to learn from, the last one to be asked about
ys = np.broadcast_to(labels.astype(np.int32), (steps, samples))
mask = np.zeros(steps, np.float32)
mask[-1] = 1.0


class Net(et.Module):
    def __init__(self):
        super().__init__()
        self.rnn = et.nn.GRUCell(1, 32)
        self.out = et.nn.Linear(32, len(classes))

    def update(self, x):
        return self.out(self.rnn(x))


model = Net()
learner = et.compile(model, et.D_RTRL(), xs[0, :batch], batch_size=batch, vjp_method="multi-step")
optimizer = et.optim.Adam(model, 1e-2, clip_norm=1.0)
for epoch in range(60):
    for i in range(4):
        part = slice(i * batch, (i + 1) * batch)
        learner.reset_state()
        learner.reset_model_state()
        learner.etrace_train(xs[:, part], ys[:, part], et.loss.cross_entropy, optimizer, mask=mask, chunk_size=8)

learner.reset_model_state()
scores = np.asarray(learner.etrace_evolve(xs[:, 4 * batch :]))  # [steps, batch, classes]
accuracy = (scores[-1].argmax(-1) == labels[4 * batch :]).mean()
print(
    "more than nine in ten series that it never saw are named right" if accuracy > 0.9 else "not learned"
)
