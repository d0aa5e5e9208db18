#!/usr/bin/env python3
"""What Python adds to a learner: single steps called from a loop, and whole sequences, beside the same from C++.

    PYTHONPATH=build/release/python build/venv/bin/python bench/python_step.py [--backend native] [--hidden 256]

The model is that of workload W1 with batch 1. Each figure is the best of many rounds in which both sides take turns, in
CPU time of one thread.
"""

import argparse
import ctypes
import time

import numpy as np

import etrace as et


class Linear(et.Module):
    def __init__(self, n_in, n_out, seed):
        super().__init__()
        weight = np.asarray(et.random.normal(et.random.key(seed), (n_in, n_out))) / np.float32(np.sqrt(n_in))
        self.weight = et.ParamState({"weight": weight, "bias": np.zeros(n_out, "float32")})

    def update(self, x):
        return et.matmul(x, self.weight["weight"], self.weight["bias"])


class RNN(et.Module):
    """W1: h' = tanh([x, h] W + b), o = h' Wo + bo."""

    def __init__(self, n_in, n, n_out):
        super().__init__()
        self.h = et.HiddenState(np.zeros(n, "float32"))
        self.W = Linear(n_in + n, n, 1)
        self.out = Linear(n, n_out, 2)

    def update(self, x):
        self.h.value = et.tanh(self.W(et.concatenate([x, self.h.value], -1)))
        return self.out(self.h.value)


def mse(y, t):
    return et.mean(et.square(y - t))


def keep_freed_memory():
    """Else pages that go back to the system and come again with each result are measured, by chance on either side."""
    trim_threshold, mmap_max = -1, -4
    libc = ctypes.CDLL(None)
    libc.mallopt(trim_threshold, 2**30)
    libc.mallopt(mmap_max, 0)


def in_turn(rounds, *runs):
    """The best of each over rounds that take turns, in seconds of CPU: others on the machine count little."""
    seen = [[run() for run in runs] for _ in range(rounds)]
    return [min(column) for column in zip(*seen)]


def cpu_time(f, count):
    def run():
        begin = time.thread_time()
        f()
        return (time.thread_time() - begin) / count

    return run


def row(name, inside, outside):
    more = outside - inside
    print(f"  {name:32}{inside * 1e6:8.2f}us{outside * 1e6:8.2f}us{more * 1e6:8.2f}us{100 * more / inside:8.2f}%", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="native")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=101)
    args = parser.parse_args()
    keep_freed_memory()
    et.set_num_threads(1)  # one thread's clock sees everything
    net = RNN(100, args.hidden, 10)
    learner = et.compile(net, et.D_RTRL, et.zeros((1, 100)), batch_size=1, backend=args.backend)
    learner.bind_step(mse)
    xs = np.asarray(et.random.normal(et.random.key(5), (1000, 1, 100)))
    ys = np.asarray(et.random.normal(et.random.key(6), (1000, 1, 10)))
    x, y, ax, ay = xs[0].copy(), ys[0].copy(), et.asarray(xs[0]), et.asarray(ys[0])
    learner.prepare(y)
    et.wait_for_compilations()

    def steps(a, b):
        def run():
            step = learner.step
            for _ in range(args.steps):
                step(a, b)

        return run

    print(f"{'learner.step(x, y), W1 b1':34}{'C++':>10}{'Python':>10}{'more':>10}{'':>9}")
    inside = cpu_time(lambda: learner._seconds_of_steps(x, y, args.steps), args.steps)
    for name, a, b in (("NumPy arrays", x, y), ("et.Array", ax, ay)):
        row(name, *in_turn(args.rounds, inside, cpu_time(steps(a, b), args.steps)))

    print(f"{'etrace_grad, each step of':34}{'C++':>10}{'Python':>10}{'more':>10}{'':>9}")
    for count in (100, 1000):
        data = xs[:count], ys[:count]
        learner.etrace_grad(*data, mse)
        et.wait_for_compilations()
        times = 1000 // count  # calls of a round
        flat, recorded, function = learner._recorded("etrace_grad", data, mse, None, {})

        def sequences():
            for _ in range(times):
                last = learner.etrace_grad(*data, mse)
            return last

        within = cpu_time(lambda: learner._grad_again(flat, recorded.step, function, times), count * times)
        row(f"{count} steps", *in_turn(args.rounds, within, cpu_time(sequences, count * times)))


if __name__ == "__main__":
    main()
