"""Nodes of NIR as modules. Neurons keep v as it was before the reset, which comes at the beginning of the next step: the
same spikes as a reset at once, and the spikes of the step before can be asked for, which cycles need."""

from __future__ import annotations

import numpy as np

from .. import _core, nn
from .._module import Module


class Conventions:
    """How equations in continuous time become steps."""

    def __init__(self, dt, discretisation, reset, current, surrogate, dtype):
        self.dt, self.discretisation, self.reset, self.current = dt, discretisation, reset, current
        self.surrogate, self.dtype = surrogate, dtype

    def share(self, tau):
        """What a step brings of the way to where a leak leads: Δt/τ, or 1 − e^(−Δt/τ)."""
        ratio = self.dt / np.asarray(tau, np.float64)
        return ratio if self.discretisation == "euler" else -np.expm1(-ratio)

    def __repr__(self):
        return (f"dt={self.dt:g}, discretisation='{self.discretisation}', reset='{self.reset}', "
                f"current='{self.current}'")


class Dynamics(Module):
    """What has a membrane potential: v moves by `gain`·(r·x), and leaks by `share` to v_leak if it does."""

    spiking = False

    def __init__(self, node, fields, c: Conventions):
        super().__init__()
        self._c, self.kind = c, type(node).__name__
        self.values = {f: np.array(getattr(node, f), np.float64) for f in fields}
        self.size = tuple(self.values[fields[0]].shape)
        leak = self.values.get("v_leak", np.zeros(self.size))
        self.v = _core.HiddenState(leak.astype(c.dtype))

    def _number(self, value):
        return np.asarray(value, self._c.dtype)

    def _after_reset(self):
        return self.v.value

    def _moved(self, x):
        """v after a step with the input x, which r scales."""
        v, f = self._after_reset(), self.values
        tau = f.get("tau", f.get("tau_mem"))
        if tau is None:
            return v + self._number(self._c.dt * f["r"]) * x
        a = self._c.share(tau)
        return v + self._number(a) * (self._number(f["v_leak"]) - v) + self._number(a * f["r"]) * x

    def update(self, x):
        self.v.value = self._moved(x)
        return self.v.value

    def last(self):
        """What the step before gave."""
        return self.v.value


class Spiking(Dynamics):
    """The same with spikes where v > v_threshold."""

    spiking = True

    def _after_reset(self):
        v, s = self.v.value, self.last()
        if self._c.reset == "subtract":
            return v - s * self._number(self.values["v_threshold"])
        return v - s * (_core.stop_gradient(v) - self._number(self.values["v_reset"]))

    def update(self, x):
        self.v.value = self._moved(x)
        return self.last()

    def last(self):
        x = self.v.value - self._number(self.values["v_threshold"])
        surrogate = self._c.surrogate
        return 1 - nn.spike(-x, lambda u: surrogate(-u))  # v > threshold, not ≥


def _current(base):
    """With a current before v: i ← i + a_syn·(w_in·x − i), which v sees as it is now, or as it was (current="old")."""

    class Current(base):
        def __init__(self, node, fields, c):
            super().__init__(node, fields, c)
            self.i = _core.HiddenState(np.zeros(self.size, c.dtype))

        def update(self, x):
            a = self._c.share(self.values["tau_syn"])
            before = self.i.value
            self.i.value = before + self._number(a * self.values["w_in"]) * x - self._number(a) * before
            return super().update(self.i.value if self._c.current == "new" else before)

    Current.__name__ = Current.__qualname__ = "Current" + base.__name__
    return Current


CurrentDynamics, CurrentSpiking = _current(Dynamics), _current(Spiking)
NEURONS = {
    "I": (Dynamics, ("r",)),
    "LI": (Dynamics, ("tau", "r", "v_leak")),
    "IF": (Spiking, ("r", "v_threshold", "v_reset")),
    "LIF": (Spiking, ("tau", "r", "v_leak", "v_threshold", "v_reset")),
    "CubaLI": (CurrentDynamics, ("tau_mem", "tau_syn", "r", "v_leak", "w_in")),
    "CubaLIF": (CurrentSpiking, ("tau_mem", "tau_syn", "r", "v_leak", "v_threshold", "v_reset", "w_in")),
}


class Threshold(Module):
    """1 where x > threshold."""

    def __init__(self, node, c):
        super().__init__()
        self._c, self.values = c, {"threshold": np.array(node.threshold)}

    def update(self, x):
        x, surrogate = x - np.asarray(self.values["threshold"], self._c.dtype), self._c.surrogate
        return 1 - nn.spike(-x, lambda u: surrogate(-u))


class Reshape(Module):
    """A sample of one shape in another."""

    def __init__(self, before, after):
        super().__init__()
        self.before, self.after = tuple(map(int, before)), tuple(map(int, after))

    def update(self, x):
        front = tuple(x.shape)[:x.ndim - len(self.before)]
        return _core.reshape(x, (*front, *self.after))


class SumPool(Module):
    """Sums over windows: means times the size of the window."""

    def __init__(self, pool, count):
        super().__init__()
        self.pool, self.count = pool, float(count)

    def update(self, x):
        return self.pool(x) * self.count
