"""States, modules, transforms, random numbers and the environment by brainstate's names."""

from __future__ import annotations

import contextlib
import types

import numpy as np

import etrace as et
from etrace import (  # noqa: F401
    HiddenGroupState,
    HiddenState,
    HiddenTreeState,
    LongTermState,
    ParamState,
    ShortTermState,
    State,
)

from .._errors import NotSupportedError, ValueError
from ._names import missing, plain, refuse_options


def _module(name, members, instead=None):
    module = types.ModuleType(f"{__name__}.{name}")
    module.__dict__.update(members)

    def absent(attribute):
        raise missing(f"brainstate.{name}", attribute, instead or {})
    module.__getattr__ = absent
    return module


# States of a model ------------------------------------------------------------------------------------------
class States(dict):
    """States by path, a tuple; `model` is whose they are."""

    def __init__(self, model, kind=None, but=()):
        self.model = model
        found = et.states(model, kind) if kind is not None else et.states(model)
        super().__init__({tuple(int(p) if p.isdigit() else p for p in path.split("/")): state
                          for path, state in found.items() if not isinstance(state, but or ())})

    def subset(self, kind):
        return States(self.model, kind)


# Environment ------------------------------------------------------------------------------------------------
class _Environ:
    """Values of `set` and `context`; dt is the default of constructors of neurons, synapses and readouts."""

    def __init__(self):
        self._values = {}

    def set(self, **values):
        self._values.update(values)

    def get(self, name, default=None):
        return self._values.get(name, default)

    def all(self):
        return dict(self._values)

    def get_dt(self):
        if "dt" not in self._values:
            raise ValueError("there is no dt; call brainstate.environ.set(dt=...)", stage="brainstate.environ")
        return self._values["dt"]

    @contextlib.contextmanager
    def context(self, **values):
        before = dict(self._values)
        self._values.update(values)
        try:
            yield self.all()
        finally:
            self._values = before

    def dftype(self):
        return np.dtype("float64" if self._values.get("precision") == 64 else "float32")

    def step(self, options):
        """Options of a constructor with dt and the type of the environment, where it has none."""
        out = dict(options)
        if "dt" in self._values:
            out.setdefault("dt", self._values["dt"])
        if self._values.get("precision") == 64:
            out.setdefault("dtype", "float64")
        return out


environ = _Environ()


# Random numbers ---------------------------------------------------------------------------------------------
class RandomState:
    """A key that moves on with every draw."""

    def __init__(self, seed=0):
        self.seed(seed)

    def seed(self, seed=0):
        self.key = et.random.key(int(seed))

    def split_key(self, n=None):
        keys = et.random.split(self.key, 2 if n is None else n + 1)
        self.key = keys[0]
        return keys[1] if n is None else keys[1:]

    def _take(self, key):
        return self.split_key() if key is None else key

    def randn(self, *shape, key=None, dtype=None):
        return et.random.normal(self._take(key), shape, dtype or environ.dftype())

    def rand(self, *shape, key=None, dtype=None):
        return et.random.uniform(self._take(key), shape, dtype or environ.dftype())

    def normal(self, loc=0.0, scale=1.0, size=(), key=None, dtype=None):
        return (0.0 if loc is None else loc) + (1.0 if scale is None else scale) * self.randn(*_shape(size), key=key,
                                                                                           dtype=dtype)

    def uniform(self, low=0.0, high=1.0, size=(), key=None, dtype=None):
        low, high = plain(low), plain(high)
        return low + (high - low) * self.rand(*_shape(size), key=key, dtype=dtype)

    def bernoulli(self, p=0.5, size=(), key=None):
        return self.rand(*_shape(size), key=key) < p

    def randint(self, low, high=None, size=(), key=None, dtype=None):
        low, high = (0, low) if high is None else (low, high)
        return et.random.randint(self._take(key), _shape(size), low, high)


def _shape(size):
    return () if size is None else (int(size),) if np.ndim(size) == 0 else tuple(int(n) for n in size)


DEFAULT = RandomState()
random = _module("random", {"RandomState": RandomState, "DEFAULT": DEFAULT, **{
    name: getattr(DEFAULT, name) for name in "seed split_key randn rand normal uniform bernoulli randint".split()}},
    {"random_sample": "random.rand", "shuffle": "et.random.permutation"})


# Modules ----------------------------------------------------------------------------------------------------
class Module(et.Module):
    """et.Module with `states` as brainstate gives them."""

    def states(self, kind=None):
        return States(self, kind)

    @classmethod
    def desc(cls, *args, **options):
        """The constructor with its arguments, for later."""
        return lambda: cls(*args, **options)


class Sequential(et.Sequential):
    states = Module.states


def _norm_clipped(grads, max_norm, norm_type=2.0, return_norm=False):
    """Gradients scaled so that their norm is at most max_norm."""
    if norm_type not in (None, 2, 2.0):
        raise NotSupportedError("clip_grad_norm with another norm than 2; use clip_value= of an optimiser", stage="brainstate")
    from ._learner import Gradients

    values = grads._values if isinstance(grads, Gradients) else grads
    flat = {}
    for name, value in values.items():
        flat[name] = {k: np.asarray(v) for k, v in value.items()} if isinstance(value, dict) else np.asarray(value)
    leaves = [leaf for value in flat.values() for leaf in (value.values() if isinstance(value, dict) else [value])]
    norm = float(np.sqrt(sum(float((leaf.astype(np.float64) ** 2).sum()) for leaf in leaves)))
    factor = min(1.0, float(max_norm) / (norm + 1e-6))
    scaled = {name: {k: v * v.dtype.type(factor) for k, v in value.items()} if isinstance(value, dict)
              else value * value.dtype.type(factor) for name, value in flat.items()}
    out = values.replace(scaled) if hasattr(values, "replace") else scaled
    out = Gradients(out) if isinstance(grads, Gradients) else out
    return (out, norm) if return_norm else out


def _later(name, advice):
    def call(*_, **__):
        raise NotSupportedError(f"brainstate.{name} has no counterpart; {advice}", stage="brainstate")
    return call


def _dropout(prob=0.5, broadcast_dims=(), name=None):
    """`prob` is the probability to keep an element."""
    refuse_options("brainstate.nn.Dropout", {"broadcast_dims": broadcast_dims} if broadcast_dims else {})
    return et.nn.Dropout(keep=prob)


_VMAP = "write braintrace.compile(model, rule, x, batch_size=B, vmap=True)"
nn = _module("nn", {
    "Module": Module, "RNNCell": Module, "Sequential": Sequential, "init_all_states": et.init_all_states,
    "reset_all_states": et.reset_all_states, "clip_grad_norm": _norm_clipped, "Vmap": _later("nn.Vmap", _VMAP),
    "Dropout": _dropout, "Map": _later("nn.Map", _VMAP), "vmap_init_all_states": _later("nn.vmap_init_all_states", _VMAP),
    "exp_euler_step": lambda f, v, *args: et.nn.exp_euler(lambda x: f(x, *args), v, float(plain(environ.get_dt()))),
    **{name: getattr(et.nn, name) for name in
       "Linear Conv1d Conv2d Conv3d LayerNorm Flatten ReLU Tanh relu tanh sigmoid softmax gelu silu elu softplus "
       "log_softmax leaky_relu".split() if hasattr(et.nn, name)},
}, {"Neuron": "brainstate.nn.Module"})


# Transforms -------------------------------------------------------------------------------------------------
def _jit(function=None, **_):
    """The function itself: a learner runs compiled programs already, and the rest is data and Python."""
    return (lambda f: f) if function is None else function


def _for_loop(function, *sequences, length=None, reverse=False, unroll=1, pbar=None):
    """A step after the other; a learner runs its sequence as one program."""
    from ._learner import ETraceAlgorithm

    if isinstance(function, ETraceAlgorithm) and not reverse:
        return function.etrace_evolve(*sequences)
    steps = range(length if length is not None else len(sequences[0]))
    found = [function(*(s[i] for s in sequences)) for i in (reversed(steps) if reverse else steps)]
    found = found[::-1] if reverse else found
    return et.tree.map(lambda *leaves: et.stack(list(leaves)), found[0], *found[1:])


transform = _module("transform", {
    "jit": _jit, "for_loop": _for_loop, "ProgressBar": lambda *a, **k: None,
    "grad": _later("transform.grad", "learner.etrace_grad gives gradients, et.grad those of a pure function"),
    "vmap": et.vmap, "vmap_new_states": _later("transform.vmap_new_states", _VMAP),
}, {"scan": "et.scan", "cond": "et.cond", "while_loop": "et.while_loop"})

graph = _module("graph", {"states": lambda model, kind=None: States(model, kind)})
mixin = _module("mixin", {}, {"Batching": "compile(..., batch_size=)"})
typing = _module("typing", {"Size": object, "ArrayLike": object})


class DotDict(dict):
    """A dictionary whose keys are attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    __setattr__ = dict.__setitem__


util = _module("util", {"DotDict": DotDict})


def __getattr__(name):
    raise missing("brainstate", name, {"HiddenTreeState": "et.HiddenTreeState", "functional": "brainstate.nn"})
