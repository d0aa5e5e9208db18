#!/usr/bin/env python3
"""BPTT of the benchmark workloads in PyTorch, float32: one row per call, as one line of JSON.

    peer_torch.py ROW [DEVICE]   ROW as in ROWS below; bench/compare.py runs them beside `etrace bench`
                                 DEVICE: cpu or cuda (default: cpu); cuda is waited for at the ends of a call
"""
import json
import math
import sys
import time

import torch

IN, OUT = 100, 10
#        row           model   units  batch  steps
ROWS = {
    'W1 BPTT 1':   ('rnn', 256, 1, 100),
    'W1 BPTT 32':  ('rnn', 256, 32, 100),
    'W2 BPTT 1':   ('gru', 512, 1, 100),
    'W2 BPTT 32':  ('gru', 512, 32, 100),
    'W3 BPTT 1':   ('lif', 512, 1, 100),
    'W3 BPTT 32':  ('lif', 512, 32, 100),
    'W3 BPTT 128': ('lif', 512, 128, 100),
}


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x >= 0).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.clamp(0.3 - 0.3 * x.abs(), min=0)


class Spiking(torch.nn.Module):
    def __init__(self, units):
        super().__init__()
        self.units = units
        self.syn = torch.nn.Linear(IN + units, units)
        self.out = torch.nn.Linear(units, OUT, bias=False)
        with torch.no_grad():
            # The scales of W3: 5 to 10 % of the neurons fire at each step.
            self.syn.weight[:, :IN] = torch.randn(units, IN).abs() * 0.014
            self.syn.weight[:, IN:] = torch.randn(units, units) * (0.3 / math.sqrt(IN + units))

    def forward(self, xs):
        dv, dg = math.exp(-1 / 5), math.exp(-1 / 10)
        v = g = xs.new_zeros(xs.shape[1], self.units)
        r = xs.new_zeros(xs.shape[1], OUT)
        out = []
        for x in xs:
            s = Spike.apply(v - 1)
            g = dg * g + self.syn(torch.cat([x, s], -1))
            v = dv * (v - s) + (1 - dv) * g
            r = dg * r + self.out(Spike.apply(v - 1))
            out.append(r)
        return torch.stack(out)


class Layers(torch.nn.Module):
    def __init__(self, kind, units):
        super().__init__()
        self.rnn = (torch.nn.RNN if kind == 'rnn' else torch.nn.GRU)(IN, units)
        self.out = torch.nn.Linear(units, OUT)

    def forward(self, xs):
        return self.out(self.rnn(xs)[0])


def run(row, device='cpu'):
    kind, units, batch, steps = ROWS[row]
    torch.manual_seed(0)
    model = Spiking(units) if kind == 'lif' else Layers(kind, units)
    xs = (torch.rand(steps, batch, IN) < 0.1).float() if kind == 'lif' else torch.randn(steps, batch, IN)
    ys = 0.5 * torch.randn(steps, batch, OUT)
    model, xs, ys = model.to(device), xs.to(device), ys.to(device)
    wait = torch.cuda.synchronize if device == 'cuda' else lambda: None

    def call():
        model.zero_grad(set_to_none=True)
        ((model(xs) - ys) ** 2).mean(dim=(1, 2)).sum().backward()
        wait()
    call()
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < 4 and len(times) < 40:
        t = time.perf_counter()
        call()
        times.append(time.perf_counter() - t)
    return {'row': row, 'us_per_step': min(times) / steps * 1e6}


if __name__ == '__main__':
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ROWS:
        sys.exit(f'usage: peer_torch.py ROW [DEVICE], ROW one of: {", ".join(ROWS)}')
    print(json.dumps(run(*sys.argv[1:])))
