"""Saving and resuming: a run that was stopped goes on as if it had not been.

last line: the resumed run gives the same losses, bit by bit
"""

import tempfile
from pathlib import Path

import numpy as np

import etrace as et

task = et.tasks.copying(lag=3, symbols=2, alphabet=3, seed=1)


def start():
    model = et.Sequential(et.nn.GRUCell(task.num_inputs, 16), et.nn.Linear(16, task.num_outputs))
    learner = et.compile(model, et.D_RTRL(), task.batch(0, 8).inputs[0], batch_size=8)
    return model, learner, et.optim.Adam(model, et.optim.cosine(1e-2, total=40, warmup=5))


def train(learner, optimizer, updates):
    losses = []
    for i in range(optimizer.step, optimizer.step + updates):  # batch i is a function of the seed and of i
        inputs, targets, mask = task.batch(i, 8)
        losses.append(learner.etrace_train(inputs, targets, et.loss.cross_entropy, optimizer, mask=mask).loss)
    return losses


with tempfile.TemporaryDirectory() as folder:
    model, learner, optimizer = start()
    train(learner, optimizer, 10)
    checkpoint = Path(folder) / "run.ckpt"
    learner.save(checkpoint, optimizer)  # parameters, states, traces, counters, the optimiser's averages
    on = train(learner, optimizer, 10)

    model, learner, optimizer = start()
    learner.load(checkpoint, optimizer)
    resumed = train(learner, optimizer, 10)

    # Parameters alone, for other programs: safetensors or npz, or a dictionary of NumPy arrays.
    learner.sync()
    et.save_parameters(model, Path(folder) / "model.safetensors")
    other, _, _ = start()
    et.load_parameters(other, Path(folder) / "model.safetensors")
    numbers = et.params(other).numpy()
    print({name: value.shape for name, value in numbers.items()})
print(f"losses {on[0]:.4f} … {on[-1]:.4f}")
print("the resumed run gives the same losses, bit by bit" if on == resumed else "the runs differ")
