#!/usr/bin/env python3
"""What a delay by a ring costs, by its length: forward passes and gradients of 64 steps, 256 units, 32 samples.

    ETRACE_NUM_THREADS=1 PYTHONPATH=build/dev/python build/venv/bin/python bench/delays.py

Each figure is the best of 30 calls, in milliseconds.
"""

import time

import numpy as np

import etrace as et


class Delayed(et.Module):
    def __init__(self, delay):
        super().__init__()
        self.rnn = et.nn.VanillaRNNCell(64, 256)
        self.delay = et.nn.Delay(256, float(delay), dt=1.0)
        self.out = et.nn.Linear(256, 8)

    def update(self, x):
        return self.out(self.delay(self.rnn(x)))


def best(call):
    for _ in range(5):
        call()
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


rng = np.random.default_rng(0)
xs, ys = (rng.standard_normal((64, 32, n)).astype("float32") for n in (64, 8))
print("delay   forward  gradient")
for delay in (1, 10, 100):
    learner = et.compile(Delayed(delay), et.D_RTRL(), xs[0], batch_size=32)
    forward = best(lambda: learner.etrace_evolve(xs))
    gradient = best(lambda: learner.etrace_grad(xs, ys, et.loss.mse))
    print(f"{delay:5}  {forward:8.2f}  {gradient:8.2f}")
