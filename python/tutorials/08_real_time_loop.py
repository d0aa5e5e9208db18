"""A loop in real time: one sample comes, one answer goes, and the parameters move before the next one.

last line: the prediction follows the plant after it has changed
"""

import time

import numpy as np

import etrace as et

model = et.Sequential(et.nn.GRUCell(2, 24), et.nn.Linear(24, 1))
learner = et.compile(model, et.D_RTRL(), np.zeros((1, 2), np.float32), batch_size=1)
optimizer = et.optim.Adam(model, 5e-3)
learner.bind_step(et.loss.mse, optimizer)

# A plant that answers to a command; half-way its gain changes.
rng = np.random.default_rng(0)
position, errors, times = 0.0, [], []
for t in range(3000):
    command = np.sin(0.05 * t) + 0.3 * rng.normal()
    gain = 1.0 if t < 1500 else -0.6
    x = np.array([[position, command]], np.float32)
    position = 0.9 * position + 0.1 * gain * command
    start = time.perf_counter()
    result = learner.step(x, np.array([[position]], np.float32))  # forward, trace, gradient, update
    times.append(time.perf_counter() - start)
    errors.append(result.loss)
before, jump, after = np.mean(errors[1400:1500]), np.mean(errors[1500:1520]), np.mean(errors[-100:])
print(f"squared error {before:.5f} before the change, {jump:.5f} right after it, {after:.5f} at the end")
print(f"a step took {1e6 * np.median(times):.0f} µs (median)")
print("the prediction follows the plant after it has changed" if after < 0.5 * jump else "it was lost")
