#!/usr/bin/env python3
"""One model, in the framework that it comes from and imported here: time of a gradient over a sequence, in ms.

    imported.py jax | braintrace | snntorch  [--units N] [--batch N] [--steps N] [--repeat N]

What the other framework computes is what its users run: JAX and snnTorch BPTT over the whole sequence, braintrace its D_RTRL.
Here it is D_RTRL. The best of some runs is given; the first one, which compiles, is left out. The environment must have the
framework and the package: build/interop/frameworks/bin/python with PYTHONPATH=build/dev/python, or a wheel."""

import argparse
import os
import time

import numpy as np

import etrace as et


def best(run, repeat):
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def data(o, inputs=20, outputs=2):
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(o.steps, o.batch, inputs)).astype(np.float32)
    return xs, np.ones((o.steps, o.batch, outputs), np.float32)


def ours(model, xs, ys, o):
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=o.batch)
    return best(lambda: learner.etrace_grad(xs, ys, et.loss.mse), o.repeat)


def from_jax(o):
    """A GRU written with stacked gates, as frameworks have it."""
    import jax
    import jax.numpy as jnp

    xs, ys = data(o)
    keys = jax.random.split(jax.random.key(0), 3)
    params = {"W": 0.2 * jax.random.normal(keys[0], (xs.shape[-1], 3 * o.units), jnp.float32),
              "U": 0.1 * jax.random.normal(keys[1], (o.units, 3 * o.units), jnp.float32),
              "b": jnp.zeros(3 * o.units, jnp.float32),
              "out": 0.1 * jax.random.normal(keys[2], (o.units, ys.shape[-1]), jnp.float32)}

    def step(p, h, x):
        xr, xz, xn = jnp.split(x @ p["W"] + p["b"], 3, -1)
        hr, hz, hn = jnp.split(h @ p["U"], 3, -1)
        z, n = jax.nn.sigmoid(xz + hz), jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = (1 - z) * n + z * h
        return h, h @ p["out"]
    h = jnp.zeros((o.batch, o.units), jnp.float32)
    x, y = jnp.asarray(xs), jnp.asarray(ys)

    def loss(p):
        return ((jax.lax.scan(lambda s, v: step(p, s, v), h, x)[1] - y) ** 2).mean()
    gradient = jax.jit(jax.grad(loss))
    there = best(lambda: jax.block_until_ready(gradient(params)), o.repeat)
    return "JAX, BPTT", there, ours(et.jax.from_step(step, params, h, x[0], batch_size=o.batch), xs, ys, o)


def from_braintrace(o):
    import brainstate
    import braintrace
    import jax

    xs, ys = data(o)

    class Net(brainstate.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = braintrace.nn.GRUCell(xs.shape[-1], o.units)
            self.out = braintrace.nn.Linear(o.units, ys.shape[-1])

        def update(self, x):
            return self.out(self.rnn(x))
    net = Net()
    learner = braintrace.compile(net, braintrace.D_RTRL, jax.numpy.asarray(xs[0]), batch_size=o.batch)
    x, y = jax.numpy.asarray(xs), jax.numpy.asarray(ys)

    @brainstate.transform.jit
    def gradient():
        return learner.etrace_grad(x, y, step_fn=lambda a, b: ((learner(a) - b) ** 2).mean())
    there = best(lambda: jax.block_until_ready(gradient()), o.repeat)
    model = et.jax.from_braintrace(net, x[0], batch_size=o.batch)
    return "braintrace, D_RTRL", there, ours(model, xs, ys, o)


def from_snntorch(o):
    import snntorch as snn
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    xs, ys = data(o)
    net = torch.nn.Sequential(torch.nn.Linear(xs.shape[-1], o.units), snn.Leaky(beta=0.9, init_hidden=True),
                              torch.nn.Linear(o.units, ys.shape[-1]))
    x, y = torch.as_tensor(xs), torch.as_tensor(ys)

    def gradient():
        net.zero_grad()
        net[1].mem = torch.zeros(o.batch, o.units)
        loss = sum(((net(v) - w) ** 2).mean() for v, w in zip(x, y)) / len(x)
        loss.backward()
    there = best(gradient, o.repeat)
    return "snnTorch, BPTT", there, ours(et.torch.from_module(net, x[0]), xs, ys, o)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("framework", choices=["jax", "braintrace", "snntorch"])
    for name, value in (("units", 128), ("batch", 32), ("steps", 200), ("repeat", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args(arguments)
    name, there, here = {"jax": from_jax, "braintrace": from_braintrace, "snntorch": from_snntorch}[o.framework](o)
    print(f"{name}: {there:.1f} ms, imported, D_RTRL: {here:.1f} ms  ({o.units} units, batch {o.batch}, {o.steps} steps)")
    return there, here


if __name__ == "__main__":
    main()
