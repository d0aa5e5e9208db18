#!/usr/bin/env python3
"""Does a long-lived process grow? Models that are made, compiled, used and dropped, and one learner that steps on.

    PYTHONPATH=build/release/python build/venv/bin/python bench/python_memory.py [--compilations 10000] [--steps 1000000]

Every compilation has a model, a rule, a loss and an optimiser of its own, and a cycle through the garbage collector
(`model.learner = learner`). Printed is the resident memory on the way; the last line says by how much it grew over the
second half, in bytes for each compilation and each step. The exit status is 1 if that is more than a page for ten.
"""

import argparse
import gc
import os
import sys

import numpy as np

import etrace as et

RULES = [et.D_RTRL(), et.pp_prop(decay_or_rank=0.9), et.OSTLRecurrent(), et.SnAp(n=2)]


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Net(et.Module):
    def __init__(self, n):
        super().__init__()
        self.rnn = et.nn.GRUCell(3, n)
        self.out = et.nn.Linear(n, 2)

    def update(self, x):
        return self.out(self.rnn(x))


def once(i, backend, xs, ys):
    net = Net(4 + i % 3)
    learner = et.compile(net, RULES[i % len(RULES)], xs[0], batch_size=1, backend=backend)
    optimizer = et.optim.Adam(net, 1e-3)
    learner.etrace_grad(xs, ys, lambda y, t: et.mean((y - t) ** 2))
    learner.bind_step(lambda y, t: et.mean(et.abs(y - t)), optimizer)
    learner.step(xs[0], ys[0])
    net.learner = learner


def slope(name, count, times, f):
    """Bytes for each call over the second half."""
    seen = []
    for part in range(times):
        for i in range(count // times):
            f(i)
        gc.collect()
        seen.append(resident())
        print(f"  {name} {(part + 1) * (count // times):9}: {seen[-1] / 2**20:7.1f} MiB", flush=True)
    half = times // 2
    return (seen[-1] - seen[half - 1]) / (count * (times - half) / times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compilations", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--backend", default="interpreter")
    args = parser.parse_args()
    xs = np.asarray(et.random.normal(et.random.key(1), (2, 1, 3)))
    ys = np.asarray(et.random.normal(et.random.key(2), (2, 1, 2)))
    compiled = slope("compilations", args.compilations, 10, lambda i: once(i, args.backend, xs, ys))

    net = Net(8)
    learner = et.compile(net, et.D_RTRL(), xs[0], batch_size=1, backend=args.backend)
    learner.bind_step(et.loss.mse, et.optim.SGD(net, 1e-4))
    stepped = slope("steps", args.steps, 10, lambda i: learner.step(xs[i % 2], ys[i % 2]))
    print(f"growth: {compiled:.1f} bytes for each compilation, {stepped:.3f} for each step")
    return 1 if compiled > 410 or stepped > 410 else 0


if __name__ == "__main__":
    sys.exit(main())
