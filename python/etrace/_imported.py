"""A program that came from elsewhere, as a module: its parameters and states stand at their paths, and its step is the
program. `et.jax.from_step` and `et.jax.from_braintrace` make such modules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import _core
from ._errors import NotSupportedError, ValueError
from ._module import Module, init_all_states


class _Place(NamedTuple):
    """Where an input or output of the program belongs: an argument or result, or a leaf of a state."""

    index: int
    state: object = None
    key: str = ""

    def get(self, args):
        if self.state is None:
            return args[self.index]
        return self.state[self.key] if self.state.leaf_keys else self.state.value

    def set(self, value):
        if self.state.leaf_keys:
            self.state[self.key] = value
        else:
            self.state.value = value


class _Interface:
    """The states of a program by path, and the place of each of its inputs and outputs."""

    def __init__(self, program, batch_size):
        records, outputs = _core._model_inputs(program), _core._model_outputs(program)
        for role, _, path, _ in outputs:
            if role == "param":
                raise NotSupportedError(f"the step writes the parameter {_text(path)}; make it a state", stage="import")
        self.states = {path: _make_state(path, role, kind, leaves, batch_size)
                       for (path, role, kind), leaves in _by_state(records).items()}
        self.inputs = [_Place(index, self.states.get(tuple(path)), key) for _, index, path, key, _, _ in records]
        self.outputs = [_Place(index, self.states.get(tuple(path)), key) for _, index, path, key in outputs]
        self.num_args = sum(p.state is None for p in self.inputs)
        self.num_results = sum(p.state is None for p in self.outputs)


class Imported(Module):
    """A model whose step is a program with fixed shapes: those of the example that it was imported with."""

    def __init__(self, program, batch_size: int | None = None):
        super().__init__()
        self._program, self.batch_size = program, batch_size
        self._interface = _Interface(program, batch_size)
        self._attach()
        init_all_states(self, batch_size)

    @property
    def _by_path(self):
        return self._interface.states

    def _attach(self):
        """States into nodes below this one. They are no attributes: a path may hold any name, "update", too."""
        nodes = {(): self._node}
        for path, state in self._by_path.items():
            for n in range(1, len(path)):
                if path[:n] not in nodes:
                    nodes[path[:n]] = _core._Node("Imported")
                    nodes[path[:n - 1]]._put(path[n - 1], nodes[path[:n]])
            nodes[path[:-1]]._put(path[-1], state)

    def _step(self, args):
        """Flat arguments to flat results; the states move on."""
        known = self._interface
        if len(args) != known.num_args:
            raise ValueError(f"the step takes {known.num_args} arrays, not {len(args)}", stage="import")
        out = _core._model_apply(self._program, [place.get(args) for place in known.inputs])
        results = [None] * known.num_results
        for place, value in zip(known.outputs, out):
            if place.state is None:
                results[place.index] = value
            else:
                place.set(value)
        return results

    def update(self, *args):
        results = self._step(args)
        return results[0] if len(results) == 1 else tuple(results)

    # Copies ----------------------------------------------------------------------------------------------------------
    def __getstate__(self):
        state = {k: v for k, v in self.__dict__.items() if k not in ("_node", "_interface")}
        state["_program"] = self._program.to_json()
        state["_values"] = {path: _numpy(s.value) for path, s in self._by_path.items()}
        return state

    def __setstate__(self, state):
        values = state.pop("_values")
        Imported.__init__(self, _core._read_model_text(state.pop("_program"), "copy"), state["batch_size"])
        for name, value in state.items():
            object.__setattr__(self, name, value)
        for path, value in values.items():
            self._by_path[path].value = value

    def __repr__(self) -> str:
        lines = [f"  {_text(path)}: {state!r}" for path, state in self._by_path.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"


def _text(path):
    return "/".join(map(str, path))


def _numpy(value):
    return {k: np.array(v) for k, v in value.items()} if isinstance(value, dict) else np.array(value)


def _by_state(records):
    """{(path, role, type): [(key, initial value)…]}, in the order of the inputs."""
    out = {}
    for role, _, path, key, kind, init in records:
        if role != "arg":
            out.setdefault((tuple(path), role, kind), []).append((key, init))
    return out


def _make_state(path, role, kind, leaves, batch_size):
    value = leaves[0][1] if len(leaves) == 1 and not leaves[0][0] else dict(leaves)
    if role == "param":
        return _core.ParamState(value)
    if role == "hidden":
        if isinstance(value, dict):
            raise NotSupportedError(f"the hidden state {_text(path)} holds {len(value)} arrays, "
                                    f"{', '.join(value)}; make each a state of its own", stage="import")
        kind = _core.HiddenGroupState if kind in ("HiddenGroupState", "HiddenTreeState") else _core.HiddenState
        return kind(value if batch_size is None else _of_one_sample(path, value))
    if kind == "RandomState" and not isinstance(value, dict) and (str(value.dtype), value.shape) == ("uint32", (2,)):
        return _core.RandomState(value)
    if kind == "KeyState":
        return _core.KeyState(value, per_sample=False)
    if kind in ("LongTermState", "RandomState", "BatchState"):
        return _core.LongTermState(value)
    samples = batch_size is not None and not isinstance(value, dict) and _alike(value, batch_size)
    return _core.ShortTermState(value[0] if samples else value, per_sample=samples)


def _alike(value, batch_size):
    """Whether the rows are samples that start from one value."""
    rows = np.asarray(value.astype("float32") if str(value.dtype) == "bfloat16" else value)
    return rows.ndim > 0 and rows.shape[0] == batch_size and _same(rows)


def _same(rows):
    return bool(np.array_equal(rows, np.broadcast_to(rows[:1], rows.shape), equal_nan=rows.dtype.kind == "f"))


def _of_one_sample(path, value):
    rows = np.asarray(value.astype("float32") if str(value.dtype) == "bfloat16" else value)
    if not _same(rows):
        raise NotSupportedError(
            f"the samples of the hidden state {_text(path)} start from different values; resets give every sample the "
            "same one. Import it with equal rows, and set the state's value after compiling", stage="import")
    return value[0]
