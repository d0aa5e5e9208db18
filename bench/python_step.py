#!/usr/bin/env python3
"""What Python adds to a learner: single steps called from a loop, and whole sequences, beside the same from C++.

    PYTHONPATH=build/release/python build/venv/bin/python bench/python_step.py [--backend native] [--hidden 256]

The model is that of workload W1 with batch 1. Each figure is the best of several rounds, both sides in turn.
"""

import argparse
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


def best(f, rounds):
    return min(f() for _ in range(rounds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="native")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    net = RNN(100, args.hidden, 10)
    learner = et.compile(net, et.D_RTRL, et.zeros((1, 100)), batch_size=1, backend=args.backend)
    learner.bind_step(mse)
    xs = np.asarray(et.random.normal(et.random.key(5), (args.steps, 1, 100)))
    ys = np.asarray(et.random.normal(et.random.key(6), (args.steps, 1, 10)))
    x, y, ax, ay = xs[0].copy(), ys[0].copy(), et.asarray(xs[0]), et.asarray(ys[0])
    learner.prepare(y)
    et.wait_for_compilations()

    def python(a, b):
        def run():
            step = learner.step
            begin = time.perf_counter()
            for _ in range(args.steps):
                step(a, b)
            return (time.perf_counter() - begin) / args.steps

        return run

    def cpp():
        return learner._seconds_of_steps(x, y, args.steps) / args.steps

    print(f"{'learner.step(x, y), W1 b1':34}{'C++':>10}{'Python':>10}{'more':>10}")
    for name, a, b in (("NumPy arrays", x, y), ("et.Array", ax, ay)):
        inside, outside = best(cpp, args.rounds), best(python(a, b), args.rounds)
        print(f"  {name:32}{inside * 1e6:8.2f}us{outside * 1e6:8.2f}us{(outside - inside) * 1e6:8.2f}us")

    learner.etrace_grad(xs, ys, mse)
    et.wait_for_compilations()

    def sequence():
        begin = time.perf_counter()
        learner.etrace_grad(xs, ys, mse)
        return (time.perf_counter() - begin) / args.steps

    print(f"  etrace_grad of {args.steps} steps: {best(sequence, args.rounds) * 1e6:.2f} us per step")


if __name__ == "__main__":
    main()
