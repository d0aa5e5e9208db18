#!/usr/bin/env python3
"""The benchmark workloads in braintrace on JAX, float32: one row per call, as one line of JSON.

    peer_braintrace.py ROW        ROW as in ROWS below; bench/compare.py runs them beside `etrace bench`

The models are those of src/bench/workloads.h. A gradient per step is summed over the sequence inside one jitted
call; bptt is reverse mode through a scan over the same model. Times are the best of several calls.
"""
import json
import sys
import time

import brainstate
import braintools
import braintrace
import jax
import jax.numpy as jnp
import numpy as np

#        row                   model   units  algorithm  batch  steps
ROWS = {
    'W1 D_RTRL 1':         ('rnn', 256, 'D_RTRL', 1, 200),
    'W1 D_RTRL 32':        ('rnn', 256, 'D_RTRL', 32, 100),
    'W2 D_RTRL 1':         ('gru', 512, 'D_RTRL', 1, 100),
    'W2 D_RTRL 32':        ('gru', 512, 'D_RTRL', 32, 50),
    'W3 D_RTRL 1':         ('lif', 512, 'D_RTRL', 1, 100),
    'W3 D_RTRL 32':        ('lif', 512, 'D_RTRL', 32, 50),
    'W3 pp_prop 1':        ('lif', 512, 'pp_prop', 1, 200),
    'W3 pp_prop 128':      ('lif', 512, 'pp_prop', 128, 100),
    'W3-saturated pp_prop 128': ('saturated', 512, 'pp_prop', 128, 100),
    'W5 D_RTRL 1':         ('sparse', 10000, 'D_RTRL', 1, 32),
    'W6 D_RTRL 8':         ('conv', 16, 'D_RTRL', 8, 32),
    'W6 pp_prop 8':        ('conv', 16, 'pp_prop', 8, 32),
    'W1 BPTT 1':           ('rnn', 256, 'BPTT', 1, 100),
    'W1 BPTT 32':          ('rnn', 256, 'BPTT', 32, 100),
    'W2 BPTT 32':          ('gru', 512, 'BPTT', 32, 100),
    'W3 BPTT 32':          ('lif', 512, 'BPTT', 32, 100),
    'W3 BPTT 128':         ('lif', 512, 'BPTT', 128, 100),
    'W1 latency 1':        ('rnn', 256, 'latency', 1, 300),
}
IN, OUT = 100, 10
# Of W3, by input and recurrent weights: 5 to 10 % of the neurons fire at each step; 79 % where it saturates.
GAIN = {'lif': (0.014, 0.3), 'saturated': (0.12, 1.0)}
LAYERS = braintrace.nn
SPIKE = braintools.surrogate.ReluGrad()


class Cell(brainstate.nn.Module):
    """W1 and W2: a recurrent cell with a linear readout."""

    def __init__(self, cell, units):
        super().__init__()
        self.cell = cell
        self.out = LAYERS.Linear(units, OUT)

    def update(self, x):
        return self.out(self.cell(x))


class Spiking(brainstate.nn.Module):
    """W3: leaky integrate-and-fire neurons with an exponential synapse and a leaky readout."""

    def __init__(self, units):
        super().__init__()
        self.units = units
        self.syn = LAYERS.Linear(IN + units, units)
        self.out = LAYERS.LeakyRateReadout(units, OUT, tau=10.)

    def init_state(self, batch_size=None, **_):
        size = (self.units,) if batch_size is None else (batch_size, self.units)
        self.V = brainstate.HiddenState(jnp.zeros(size))
        self.g = brainstate.HiddenState(jnp.zeros(size))

    def update(self, x):
        dv, dg = float(np.exp(-1 / 5)), float(np.exp(-1 / 10))
        s = SPIKE(self.V.value - 1.0)
        self.g.value = dg * self.g.value + self.syn(jnp.concatenate([x, s], -1))
        self.V.value = dv * (self.V.value - s) + (1.0 - dv) * self.g.value
        return self.out(SPIKE(self.V.value - 1.0))


class Sparse(brainstate.nn.Module):
    """W5: neurons with 100 random inputs each."""

    def __init__(self, units, inputs=100):
        import brainevent
        super().__init__()
        draw = np.random.RandomState(1)
        row, col = draw.randint(0, units, units * inputs), np.repeat(np.arange(units), inputs)
        order = np.lexsort((col, row))
        starts = np.zeros(units + 1, np.int64)
        np.add.at(starts, row + 1, 1)
        weights = (draw.randn(units * inputs) / np.sqrt(inputs)).astype(np.float32)
        pattern = (jnp.asarray(weights), jnp.asarray(col[order].astype(np.int32)),
                   jnp.asarray(np.cumsum(starts).astype(np.int32)))
        self.units = units
        self.syn = LAYERS.SparseLinear(brainevent.CSR(pattern, shape=(units, units)))
        self.out = LAYERS.Linear(units, 2)

    def init_state(self, batch_size=None, **_):
        self.V = brainstate.HiddenState(jnp.zeros(self.units))

    def update(self, x):
        s = SPIKE(self.V.value - 1.0)
        self.V.value = 0.9 * (self.V.value - s) + self.syn(s) + x
        return self.out(self.V.value)


class Convolution(brainstate.nn.Module):
    """W6: a convolutional spiking layer."""

    def __init__(self, side, channels=8):
        super().__init__()
        self.size = (side, side, channels)
        self.conv = LAYERS.Conv2d((side, side, 2), channels, 3)
        self.out = LAYERS.Linear(side * side * channels, 4)

    def init_state(self, batch_size=None, **_):
        self.V = brainstate.HiddenState(jnp.zeros((batch_size, *self.size)))

    def update(self, x):
        s = SPIKE(self.V.value - 1.0)
        self.V.value = 0.9 * (self.V.value - s) + self.conv(x)
        return self.out(SPIKE(self.V.value - 1.0).reshape(x.shape[0], -1))


def model_of(kind, units):
    if kind == 'rnn':
        return Cell(LAYERS.ValinaRNNCell(IN, units, activation='tanh'), units)
    if kind == 'gru':
        return Cell(LAYERS.GRUCell(IN, units), units)
    return {'lif': Spiking, 'saturated': Spiking, 'sparse': Sparse, 'conv': Convolution}[kind](units)


def set_weights(model, kind, units, draw):
    """normal / sqrt(fan in), biases a tenth; the input rows of W3 are positive, and both parts are scaled."""
    def value(leaf):
        w = draw.randn(*leaf.shape).astype(np.float32) / np.sqrt(leaf.shape[0])
        if leaf.ndim == 1:
            w *= 0.1
        elif kind in GAIN and leaf.shape[0] == IN + units:
            inputs, recurrent = GAIN[kind]
            w[:IN] = np.abs(draw.randn(IN, units)).astype(np.float32) * inputs
            w[IN:] *= recurrent
        return jnp.asarray(w)
    for _, state in sorted(model.states(brainstate.ParamState).items(), key=lambda item: str(item[0])):
        state.value = jax.tree.map(value, state.value)


def data_of(kind, units, batch, steps, draw):
    if kind == 'sparse':
        return draw.rand(steps, units).astype(np.float32), np.zeros((steps, 2), np.float32)
    if kind == 'conv':
        xs = draw.rand(steps, batch, units, units, 2) < 0.1
        return xs.astype(np.float32), np.zeros((steps, batch, 4), np.float32)
    xs = draw.rand(steps, batch, IN) < 0.1 if kind in GAIN else draw.randn(steps, batch, IN)
    return xs.astype(np.float32), (0.5 * draw.randn(steps, batch, OUT)).astype(np.float32)


def best(f, seconds=4.0):
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds and len(times) < 40:
        t = time.perf_counter()
        jax.block_until_ready(f())
        times.append(time.perf_counter() - t)
    return min(times)


def run(row):
    kind, units, algorithm, batch, steps = ROWS[row]
    brainstate.environ.set(precision=32, dt=1.0)
    draw = np.random.RandomState(0)
    model = model_of(kind, units)
    if kind in ('rnn', 'gru', *GAIN):
        set_weights(model, kind, units, draw)
    xs, ys = (jnp.asarray(a) for a in data_of(kind, units, batch, steps, draw))
    jax.block_until_ready((xs, ys))
    start = time.perf_counter()
    if algorithm == 'BPTT':
        brainstate.nn.init_all_states(model, batch_size=batch)

        def total(a, b):
            losses = brainstate.transform.for_loop(lambda x, y: jnp.mean((model(x) - y) ** 2), a, b)
            return losses.sum()
        gradient = brainstate.transform.grad(total, model.states(brainstate.ParamState), return_value=True)
        call = brainstate.transform.jit(lambda a, b: gradient(a, b))
    else:
        rule = braintrace.pp_prop if algorithm == 'pp_prop' else braintrace.D_RTRL
        options = {'decay_or_rank': 0.99} if algorithm == 'pp_prop' else {}
        if kind == 'sparse':
            brainstate.nn.init_all_states(model)
        else:
            options['batch_size'] = batch
            brainstate.nn.init_all_states(model, batch_size=batch)
        learner = braintrace.compile(model, rule, xs[0], **options)

        def step(x, y):
            return jnp.mean((learner(x) - y) ** 2)
        if algorithm == 'latency':
            one = brainstate.transform.grad(step, learner.param_states, return_value=True)
            call = brainstate.transform.jit(lambda x, y: one(x, y))
        else:
            call = brainstate.transform.jit(
                lambda a, b: learner.etrace_grad(a, b, step_fn=step, reduction='sum', return_value=True))
    out = {'row': row, 'build_s': time.perf_counter() - start}
    if algorithm == 'latency':
        xs, ys = list(xs), list(ys)
        jax.block_until_ready(call(xs[0], ys[0]))
        times = []
        for x, y in zip(xs, ys):
            t = time.perf_counter()
            jax.block_until_ready(call(x, y))
            times.append(time.perf_counter() - t)
        out['us_per_step'] = sorted(times)[len(times) // 2] * 1e6
        return out
    start = time.perf_counter()
    jax.block_until_ready(call(xs, ys))
    first = time.perf_counter() - start
    seconds = best(lambda: call(xs, ys))
    out['us_per_step'] = seconds / steps * 1e6
    out['compile_s'] = max(first - seconds, 0.0)
    return out


if __name__ == '__main__':
    if len(sys.argv) != 2 or sys.argv[1] not in ROWS:
        sys.exit(f'usage: peer_braintrace.py ROW, one of: {", ".join(ROWS)}')
    print(json.dumps(run(sys.argv[1])))
