"""Layers of the library as Python classes.

A layer is a module whose node is an object of C++: it owns the states, the children and the step. The classes are made
from rows (python/src/nn_*.cpp) and texts (_docs.py), so that nothing is said twice. Deriving from one is allowed:
`update` may be overridden and call `super().update(x)`.
"""

from __future__ import annotations

import inspect


from .. import _core
from .. import _errors
from .._module import Module, _is_member
from ._docs import DOCS

CLASSES: dict[str, type] = {}  # of rows, by name


class Layer(Module):
    """A layer of the library. Its states and parts are attributes: `cell.h.value`, `cell.Wz.weight["bias"]`."""

    _row: str | None = None  # the name of its row; None: it cannot be constructed by itself

    def __init__(self, *args, **options):
        if self._row is None:
            raise _errors.TypeError(f"{type(self).__name__} is a base of layers; make one of them", stage="nn")
        _drop_braintrace(type(self).__name__, options)
        object.__setattr__(self, "_given", (args, options))
        object.__setattr__(self, "_node", _core._make_layer(self._row, args, options))
        super().__init__()

    @classmethod
    def _around(cls, node) -> Layer:
        """The Python object of a layer that C++ has made."""
        self = CLASSES.get(_core._layer_name(node), Layer)
        out = self.__new__(self)
        object.__setattr__(out, "_given", None)
        object.__setattr__(out, "_node", node)
        return out

    # Steps ---------------------------------------------------------------------------------------------------------
    def __call__(self, *args):
        """One step."""
        if type(self).update is Layer.update:
            return _core._layer_call(self._node, args)
        return super().__call__(*args)

    def update(self, *args):
        """One step."""
        return _core._layer_update(self._node, args)

    @property
    def _own_update(self) -> bool:
        """Whether the step is Python's, and not that of the node."""
        return type(self).update is not Layer.update

    # What it holds -------------------------------------------------------------------------------------------------
    def __getattr__(self, name: str):
        node = self.__dict__.get("_node")
        if node is None or name.startswith("_"):
            return super().__getattr__(name)
        parts = self.__dict__.setdefault("_parts", {})
        if name in parts:
            return parts[name]
        found = _core._layer_member(node, name)
        if found is NotImplemented:
            return self._argument(name)
        if isinstance(found, _core.State):
            return found
        parts[name] = Layer._around(found)
        return parts[name]

    def _argument(self, name: str):
        """An argument of the constructor: `layer.in_size`."""
        given, names = self._given, self._arguments
        if given is not None and name in names:
            i = names.index(name)
            if i < len(given[0]):
                return given[0][i]
            if name in given[1]:
                return given[1][name]
            return self._initial[name]
        known = ", ".join(str(n) for n in [*self._node._members(), *names])
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'" + (f"; it has {known}" if known else ""))

    _arguments: tuple[str, ...] = ()
    _initial: dict = {}  # of arguments that need not be given

    def __setattr__(self, name: str, value) -> None:
        if not _is_member(value) and name in self._node._members():
            raise AttributeError(f"'{name}' is a part of {type(self).__name__}; set its value: layer.{name}.value = ...")
        super().__setattr__(name, value)

    def __dir__(self):
        return sorted({*super().__dir__(), *(str(n) for n in self._node._members()), *self._arguments})

    # Copies ----------------------------------------------------------------------------------------------------------
    def __getstate__(self):
        if self._given is None:
            raise _errors.TypeError(
                f"this {type(self).__name__} is a part of another layer or a built-in model, and is copied or pickled "
                "with it only",
                stage="nn",
            )
        hidden = {"_node", "_given", "_parts"}
        rest = {k: v for k, v in self.__dict__.items() if k not in hidden}
        return {"given": self._given, "states": [_saved(s) for _, s in self._node._states(None)], "rest": rest}

    def __setstate__(self, state):
        args, options = state["given"]
        Layer.__init__(self, *args, **options)
        for name, value in state["rest"].items():
            setattr(self, name, value)
        for (_, mine), saved in zip(self._node._states(None), state["states"], strict=True):
            _restore(mine, saved)

    def __repr__(self) -> str:
        if self.__dict__.get("_given") is None:
            return f"{type(self).__name__}()"
        args, options = self._given
        shown = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in options.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


def _drop_braintrace(who: str, options: dict) -> None:
    """Options of braintrace's layers that say nothing here: a name (the attribute is it), states that start at zero."""
    options.pop("name", None)
    first = options.pop("state_init", None)
    zero = getattr(first, "is_zero", False) or isinstance(first, (int, float)) and first == 0
    if first is not None and not zero and "zeros" not in str(first).lower():
        raise _errors.NotSupportedError(
            f"state_init is {first!r}; states start with the layer's own value. Set it after init_all_states: "
            "layer.h.value = ...",
            stage=who,
        )


def _saved(state):
    """(value, whether it was initialised, with which batch)."""
    value = state.value
    import numpy as np  # when it is needed: importing it starts threads

    numbers = {k: np.array(v) for k, v in value.items()} if isinstance(value, dict) else np.array(value)
    short = isinstance(state, _core.ShortTermState)
    return numbers, short, state.batch_size if short else None


def _restore(state, saved) -> None:
    numbers, short, batch = saved
    if short and batch is not None:
        state.init(batch)
    state.value = numbers


class WeightLayer(Layer):
    """A layer with weights. A quantity times weights of the option `unit` has the product of both units."""

    @property
    def weight_unit(self):
        """The unit of the weights."""
        return _core._weight_unit(self._node)


class Dynamics(Layer):
    """A layer with constants and a time step: neurons and synapses.

    A constant is a number or an array, one per neuron, in the unit of the option (ms, mV, Ω, mA); a quantity with a
    unit of its own; or `et.nn.learned(start)`: a parameter.
    """

    @property
    def size(self) -> tuple[int, ...]:
        return _core._dynamics_size(self._node)

    @property
    def dt(self) -> float:
        """The time step in ms."""
        return _core._dynamics_dt(self._node)

    @property
    def input_unit(self):
        """What an input with a unit is converted to."""
        return _core._dynamics_unit(self._node)


class Neuron(Dynamics):
    """Spiking neurons. A step takes the spikes of the step before, resets, integrates, and returns the new spikes."""

    def spikes(self):
        """Of the states as they stand."""
        return _core._neuron_spikes(self._node)

    def step(self, fired, input=None):
        """One step with spikes that were asked for before, `fired = self.spikes()`, and an `et.nn.NeuronInput` (or the
        current as an array)."""
        with self._node._scope():
            return _core._neuron_step(self._node, fired, input)


# Classes from rows -------------------------------------------------------------------------------------------------
def _signature(arguments, options, docs) -> inspect.Signature:
    P = inspect.Parameter
    parts = [P("self", P.POSITIONAL_OR_KEYWORD)]
    for name, _, initial, required in arguments:
        parts.append(P(name, P.POSITIONAL_OR_KEYWORD, default=P.empty if required else _Default(initial)))
    for name, _, initial, _ in options:
        parts.append(P(name, P.KEYWORD_ONLY, default=_Default(initial or docs.get(name, ("…", ""))[0])))
    return inspect.Signature(parts)


class _Default:
    """A first value, as help() shows it."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _doc(name: str, options) -> str:
    formula, meaning, docs = DOCS.get(name, ("", "", {}))
    parts = [formula, meaning or (f"The activation {name} as a layer." if not formula else "")]
    if options:
        lines = [f"    {o} = {initial or docs.get(o, ('…', ''))[0]}  {docs.get(o, ('', ''))[1]}" for o, _, initial, _ in options]
        parts.append("Options:\n" + "\n".join(line.rstrip() for line in lines))
    return "\n\n".join(p for p in parts if p)


def _value(initial: str):
    """What an argument is that was not given."""
    words = {"True": True, "False": False, "None": None, "": None}
    if initial in words:
        return words[initial]
    return float(initial) if "." in initial else int(initial)


def make_classes(bases: dict[str, type], module: str) -> dict[str, type]:
    """One class per row."""
    for name, parent, arguments, options in _core._layer_rows():
        base = CLASSES.get(parent) or bases[parent]

        def init(self, *args, **options):
            Layer.__init__(self, *args, **options)

        init.__signature__ = _signature(arguments, options, DOCS.get(name, ("", "", {}))[2])
        init.__qualname__, init.__name__, init.__module__ = f"{name}.__init__", "__init__", module
        body = {
            "__doc__": _doc(name, options),
            "__module__": module,
            "__init__": init,
            "_row": name,
            "_arguments": tuple(a[0] for a in arguments),
            "_initial": {a[0]: _value(a[2]) for a in arguments if not a[3]},
        }
        CLASSES[name] = type(base)(name, (base,), body)
    return CLASSES
