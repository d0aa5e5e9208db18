"""Neurons as snnTorch, Norse and SpikingJelly compute them: their equations, their order of reset, leak and input. The
library's own neurons leak exactly and reset before they integrate (docs/spiking.md), which gives other numbers."""

from __future__ import annotations

import numpy as np

from .. import _core, nn
from .._errors import NotSupportedError
from .._module import Module

stop_gradient = _core.stop_gradient


def spike_above(x, surrogate):
    """1 where x > 0, as PyTorch's frameworks have it (ours: x ≥ 0), with the surrogate's derivative."""
    return 1 - nn.spike(-x, lambda u: surrogate(-u))


class _Neurons(Module):
    """Neurons with constants that are numbers, one per neuron, or learned; `learned` names those."""

    def __init__(self, size, surrogate, dtype, constants, learned=()):
        super().__init__()
        self.size, self.surrogate, self.dtype = tuple(size), surrogate, dtype
        self._constants, self._learned = {}, tuple(learned)
        for name, value in constants.items():
            value = np.array(value, dtype)
            if name in self._learned:
                setattr(self, name, _core.ParamState(value))
            else:
                self._constants[name] = value

    def _hidden(self, start=0.0):
        return _core.HiddenState(np.broadcast_to(np.array(start, self.dtype), self.size).copy())

    def _of(self, name):
        if name not in self._learned:
            return _core.asarray(self._constants[name])
        state = getattr(self, name)
        spread = _core.broadcast_to(state.value, self.size) if tuple(state.shape) != self.size else state.value
        return _core.element_wise(spread)

    def torch_parameters(self):
        """{name in PyTorch: state} of what is learned beside the parts."""
        return {name: getattr(self, name) for name in self._learned}

    def constant(self, name):
        """The value of a constant now."""
        return np.asarray(getattr(self, name).value) if name in self._learned else self._constants[name]


def _between(x):
    return _core.clip(x, 0.0, 1.0)


# snnTorch ---------------------------------------------------------------------------------------------------
class Leaky(_Neurons):
    """snn.Leaky: mem ← β·mem + x − θ·s (subtract), β·(1 − s)·mem + x (zero), β·mem + x (none), s the spikes of the step
    before, without a gradient. Returns spikes, or (spikes, mem)."""

    def __init__(self, size, *, beta, threshold=1.0, reset="subtract", surrogate=None, learned=(), output="spikes",
                 graded=1.0, dtype="float32"):
        super().__init__(size, surrogate or nn.surrogate.arctan(alpha=2.0), dtype,
                         {"beta": beta, "threshold": threshold, "graded_spikes_factor": graded}, learned)
        self.reset_by, self.output = reset, output
        self.mem = self._hidden()

    def _fired(self):
        return stop_gradient(spike_above(self.mem.value - self._of("threshold"), self.surrogate))

    def _leak(self, mem, x):
        return _between(self._of("beta")) * mem + x

    def _move(self, x):
        fired = self._fired()
        if self.reset_by == "zero":
            return self._leak((1 - fired) * self.mem.value, x)
        moved = self._leak(self.mem.value, x)
        return moved - fired * self._of("threshold") if self.reset_by == "subtract" else moved

    def _spikes(self):
        fired = spike_above(self.mem.value - self._of("threshold"), self.surrogate)
        plain = "graded_spikes_factor" not in self._learned and np.all(self._constants["graded_spikes_factor"] == 1)
        return fired if plain else fired * self._of("graded_spikes_factor")

    def update(self, x):
        self.mem.value = self._move(x)
        spikes = self._spikes()
        return spikes if self.output == "spikes" else (spikes, self.mem.value)


class Lapicque(Leaky):
    """snn.Lapicque: mem ← (1 − Δt/RC)·mem + x·R·(1/RC)·Δt − θ·s."""

    def __init__(self, size, *, R, C, time_step=1.0, **options):
        super().__init__(size, beta=0.0, **options)
        self._constants |= {k: np.array(v, self.dtype) for k, v in (("R", R), ("C", C), ("time_step", time_step))}

    def _leak(self, mem, x):
        c = self._constants
        rc = c["R"] * c["C"]
        return x * c["R"] * (1 / rc) * c["time_step"] + (1 - c["time_step"] / rc) * mem

    def _move(self, x):
        if self.reset_by == "zero":
            moved = self._leak(self.mem.value, x)
            return moved - self._fired() * moved
        return super()._move(x)


class Synaptic(Leaky):
    """snn.Synaptic: syn ← α·syn + x, mem ← β·mem + syn − θ·s. Returns spikes, or (spikes, syn, mem)."""

    def __init__(self, size, *, alpha, beta, learned=(), **options):
        super().__init__(size, beta=beta, learned=[n for n in learned if n != "alpha"], **options)
        self._learned = tuple(learned)
        value = np.array(alpha, self.dtype)
        if "alpha" in self._learned:
            self.alpha = _core.ParamState(value)
        else:
            self._constants["alpha"] = value
        self.syn = self._hidden()

    def update(self, x):
        syn = _between(self._of("alpha")) * self.syn.value + x
        fired, mem = self._fired(), _between(self._of("beta")) * self.mem.value + syn
        if self.reset_by == "subtract":
            mem = mem - fired * self._of("threshold")
        elif self.reset_by == "zero":
            mem = mem - fired * mem
        self.syn.value, self.mem.value = syn, mem
        spikes = self._spikes()
        return spikes if self.output == "spikes" else (spikes, syn, mem)


class RLeaky(Leaky):
    """snn.RLeaky with a linear layer: mem ← β·mem + x + recurrent(spikes of the step before) − θ·s. Returns spikes, or
    (spikes, mem). `recurrent`: an et.nn.Linear."""

    def __init__(self, size, *, recurrent, **options):
        super().__init__(size, **options)
        self.recurrent = recurrent
        self.spk = self._hidden()

    def update(self, x):
        if self.reset_by == "zero":
            moved = self._leak(self.mem.value, x) + self.recurrent(self.spk.value)
            self.mem.value = moved - self._fired() * moved
        else:
            self.mem.value = self._move(x) + self.recurrent(self.spk.value)
        spikes = self._spikes()
        self.spk.value = spikes
        return spikes if self.output == "spikes" else (spikes, self.mem.value)


# Norse ------------------------------------------------------------------------------------------------------
class NorseLIF(_Neurons):
    """norse.torch.LIFCell: i ← i + x; v ← v + Δt/τ_mem·(v_leak − v + i); i ← i − Δt/τ_syn·i; spikes where v > v_th, which
    reset v at once. Returns spikes."""

    def __init__(self, size, *, tau_syn_inv, tau_mem_inv, v_leak=0.0, v_th=1.0, v_reset=0.0, dt=0.001, surrogate=None,
                 learned=(), dtype="float32"):
        super().__init__(size, surrogate or nn.surrogate.inv_square(alpha=1.0), dtype,
                         {"tau_syn_inv": tau_syn_inv, "tau_mem_inv": tau_mem_inv, "v_leak": v_leak, "v_th": v_th,
                          "v_reset": v_reset}, learned)
        self.dt = dt
        self.v, self.i = self._hidden(v_leak), self._hidden()

    def _jump(self, x):
        return self.i.value + x

    def _moved(self, i):
        v = self.v.value
        return v + self.dt * self._of("tau_mem_inv") * ((self._of("v_leak") - v) + i)

    def _decayed(self, i):
        return i + -self.dt * self._of("tau_syn_inv") * i

    def _after(self, z, v):
        return (1 - z) * v + z * self._of("v_reset")

    def update(self, x):
        i = self._jump(x)
        v = self._moved(i)
        self.i.value = self._decayed(i)
        z = spike_above(v - self._of("v_th"), self.surrogate)
        self.v.value = self._after(z, v)
        return z


class NorseLIFRecurrent(NorseLIF):
    """norse.torch.LIFRecurrentCell: i ← i + W_in·x + W_rec·z, z the spikes of the step before; the reset has no gradient.
    `input_weights`, `recurrent_weights`: [hidden, in] and [hidden, hidden], as Norse has them; without `autapses` the
    diagonal of the second stays zero."""

    def __init__(self, input_weights, recurrent_weights, *, autapses=False, **options):
        hidden, inputs = np.shape(input_weights)
        super().__init__((hidden,), **options)
        mask = {} if autapses else {"mask": np.concatenate([np.ones((inputs, hidden)), 1 - np.eye(hidden)])
                                    .astype(self.dtype)}
        self.into = nn.Linear(inputs + hidden, hidden, bias_init=None, dtype=self.dtype, **mask)
        self.z = self._hidden()
        self.set_weights(input_weights, recurrent_weights)

    def set_weights(self, inputs, recurrent):
        self.into.weight["weight"] = np.concatenate([np.asarray(inputs).T, np.asarray(recurrent).T])

    def weights(self):
        both = np.asarray(self.into.weight["weight"])
        return both[:-self.size[0]].T, both[-self.size[0]:].T

    def _jump(self, x):
        return self.i.value + self.into(_core.concatenate([x, self.z.value], -1))

    def _after(self, z, v):
        return super()._after(stop_gradient(z), v)

    def update(self, x):
        self.z.value = super().update(x)
        return self.z.value


class NorseLI(NorseLIF):
    """norse.torch.LICell: the same without spikes. Returns v."""

    def update(self, x):
        i = self._jump(x)
        self.v.value = self._moved(i)
        self.i.value = self._decayed(i)
        return self.v.value


class NorseLIFBox(_Neurons):
    """norse.torch.LIFBoxCell: v ← v + Δt/τ_mem·(x + v_leak − v), spikes where v > v_th, which reset v at once."""

    def __init__(self, size, *, tau_mem_inv, v_leak=0.0, v_th=1.0, v_reset=0.0, dt=0.001, surrogate=None, learned=(),
                 dtype="float32"):
        super().__init__(size, surrogate or nn.surrogate.inv_square(alpha=1.0), dtype,
                         {"tau_mem_inv": tau_mem_inv, "v_leak": v_leak, "v_th": v_th, "v_reset": v_reset}, learned)
        self.dt = dt
        self.v = self._hidden(v_leak)

    def update(self, x):
        v = self.v.value
        v = v + self.dt * self._of("tau_mem_inv") * (x + self._of("v_leak") - v)
        z = spike_above(v - self._of("v_th"), self.surrogate)
        self.v.value = (1 - z) * v + z * self._of("v_reset")
        return z


# SpikingJelly -----------------------------------------------------------------------------------------------
class SpikingJellyNode(_Neurons):
    """neuron.IFNode, LIFNode, ParametricLIFNode: charge, fire where v ≥ v_threshold, reset at once. Returns spikes.

    kind "if": v + x; "lif": v + (x − (v − v_reset))/τ, or with decay_input=False v − (v − v_reset)/τ + x; "plif": the same
    with 1/τ = σ(w). v_reset None: the threshold is subtracted."""

    def __init__(self, size, *, kind="lif", tau=2.0, decay_input=True, v_threshold=1.0, v_reset=0.0, detach_reset=False,
                 w=None, surrogate=None, dtype="float32"):
        constants = {"tau": tau, "v_threshold": v_threshold, "v_reset": 0.0 if v_reset is None else v_reset}
        super().__init__(size, surrogate or nn.surrogate.sigmoid(alpha=4.0), dtype,
                         constants | ({"w": w} if kind == "plif" else {}), ["w"] if kind == "plif" else [])
        self.kind, self.decay_input, self.soft, self.detach_reset = kind, decay_input, v_reset is None, detach_reset
        self.v = self._hidden(0.0 if v_reset is None else v_reset)

    def _charge(self, x):
        v, rest = self.v.value, self._of("v_reset")
        if self.kind == "if":
            return v + x
        if self.kind == "plif":
            rate = _core.sigmoid(self._of("w"))
            return v + (rest - v + x) * rate if self.decay_input else v + (rest - v) * rate + x
        tau = self._of("tau")
        return v + (rest - v + x) / tau if self.decay_input else v + (rest - v) / tau + x

    def update(self, x):
        v = self._charge(x)
        spikes = nn.spike(v - self._of("v_threshold"), self.surrogate)
        s = stop_gradient(spikes) if self.detach_reset else spikes
        self.v.value = v - self._of("v_threshold") * s if self.soft else s * self._of("v_reset") + (1 - s) * v
        return spikes


# Surrogates -------------------------------------------------------------------------------------------------
def snntorch_surrogate(function, name):
    """Ours for a closure of snntorch.surrogate, known by the name of what made it and the numbers that it holds."""
    maker = getattr(function, "__qualname__", "").split(".")[0]
    cells = dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()))) \
        if hasattr(function, "__code__") else {}
    s = nn.surrogate
    known = {
        "atan": lambda: s.arctan(alpha=float(cells["alpha"])),
        "fast_sigmoid": lambda: s.inv_square(alpha=float(cells["slope"])),
        "sigmoid": lambda: s.sigmoid(alpha=float(cells["slope"])),
        "straight_through_estimator": lambda: (lambda x: _core.ones_like(x)),
        "heaviside": lambda: (lambda x: _core.where(x > 0, _core.ones_like(x), _core.zeros_like(x))),
        "spike_rate_escape": lambda: _escape(float(cells["beta"]), float(cells["slope"])),
        "SFS": lambda: _sparse_fast_sigmoid(float(cells["slope"]), float(cells["B"])),
    }
    if not getattr(function, "__module__", "").startswith("snntorch") or maker not in known:
        raise NotSupportedError(f"{name}: the surrogate {getattr(function, '__qualname__', function)} has no counterpart; "
                                "give one of et.nn.surrogate, or a function, by surrogate=", stage="from_module")
    return known[maker]()


def _escape(beta, slope):
    return lambda x: slope * _core.exp(-beta * _core.abs(x - 1))


def _sparse_fast_sigmoid(slope, bound):
    return lambda x: _core.where(x > bound, 1 / (slope * _core.abs(x) + 1) ** 2, _core.zeros_like(x))


def norse_surrogate(method, alpha, name):
    """Ours for a method of Norse; its "super" is 1/(|x| + 1)², whatever alpha is."""
    alpha = float(alpha)
    if method == "super":
        return nn.surrogate.inv_square(alpha=1.0)
    if method == "triangle":
        return lambda x: alpha * _core.maximum(1 - _core.abs(x), _core.zeros_like(x))
    raise NotSupportedError(f"{name}: the method '{method}' has no counterpart (there are 'super' and 'triangle'); give one "
                            "of et.nn.surrogate, or a function, by surrogate=", stage="from_module")


def _super_spike(alpha):
    return lambda x: alpha / (_core.abs(x) + 1) ** 2


def _pseudo_spike(alpha):
    return lambda x: (1 + 2 / (alpha - 1) * _core.abs(x)) ** -alpha


def spikingjelly_surrogate(function, name):
    s, kind = nn.surrogate, type(function).__name__
    known = {"Sigmoid": s.sigmoid, "ATan": s.arctan, "PiecewiseQuadratic": s.piecewise_quadratic,
             "PiecewiseExp": s.piecewise_exp, "SoftSign": s.soft_sign, "Erf": s.erf, "NonzeroSignLogAbs": s.nonzero_sign_log,
             "QPseudoSpike": _pseudo_spike, "SuperSpike": _super_spike}
    if kind not in known or not getattr(function, "spiking", True):
        raise NotSupportedError(f"{name}: the surrogate {kind} has no counterpart; give one of et.nn.surrogate, or a "
                                "function, by surrogate=", stage="from_module")
    return known[kind](alpha=float(function.alpha))
