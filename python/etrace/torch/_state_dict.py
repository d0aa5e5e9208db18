"""Parameters as PyTorch names and lays them out: one row per class of layer. Start with `state_dict`."""

from __future__ import annotations

import numpy as np

from .. import _core, nn
from .._containers import Sequential
from .._errors import NotSupportedError, ValueError
from .._module import Module, _in_python, node_of
from ._cells import GRUCell
from ._neurons import NorseLIFRecurrent


def to_numpy(value):
    """A tensor (of any strides, on any device, with or without gradient), or what NumPy takes."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    return np.ascontiguousarray(value)


def _leaf(state, key):
    """An array of a parameter that is a dictionary; None if it has no such leaf."""
    return np.asarray(state[key]) if key in state.leaf_keys else None


# What a row gives: {torch name: array}, and sets from the same. `None`: the layer has no such parameter.
class Linear:
    @staticmethod
    def get(layer):
        bias = _leaf(layer.weight, "bias")
        return {"weight": np.asarray(layer.weight["weight"]).T, **({} if bias is None else {"bias": bias})}

    @staticmethod
    def set(layer, values):
        return [(layer.weight, "weight", values("weight").T), *_bias(layer, values)]


def _bias(layer, values):
    return [(layer.weight, "bias", values("bias"))] if "bias" in layer.weight.leaf_keys else []


class Embedding:
    @staticmethod
    def get(layer):
        return {"weight": np.asarray(layer.weight.value)}

    @staticmethod
    def set(layer, values):
        return [(layer.weight, None, values("weight"))]


class Conv:
    """[out, in/groups, kernel…] there, [kernel…, in/groups, out] here."""

    @staticmethod
    def get(layer):
        Conv._require(layer)
        bias = _leaf(layer.weight, "bias")
        weight = np.asarray(layer.weight["weight"])
        return {"weight": np.moveaxis(weight, (-1, -2), (0, 1)), **({} if bias is None else {"bias": bias.ravel()})}

    @staticmethod
    def set(layer, values):
        Conv._require(layer)
        out = [(layer.weight, "weight", np.moveaxis(values("weight"), (0, 1), (-1, -2)))]
        if "bias" in layer.weight.leaf_keys:
            out.append((layer.weight, "bias", values("bias").reshape(np.shape(layer.weight["bias"]))))
        return out

    @staticmethod
    def _require(layer):
        if (layer._given or ((), {}))[1].get("layout"):
            raise NotSupportedError("a convolution with a layout of its own has no counterpart in PyTorch, which has "
                                    "channels first; use channel_first=True", stage="torch")


class Norm:
    """LayerNorm, GroupNorm, RMSNorm: scale there is called weight."""

    @staticmethod
    def get(layer):
        state = getattr(layer, "weight", None) if "weight" in map(str, layer._node._members()) else None
        if state is None:
            return {}
        pairs = (("weight", _leaf(state, "scale")), ("bias", _leaf(state, "bias")))
        return {name: value for name, value in pairs if value is not None}

    @staticmethod
    def set(layer, values):
        return [] if not Norm.get(layer) else [
            (layer.weight, {"weight": "scale", "bias": "bias"}[name], values(name)) for name in Norm.get(layer)]


class BatchNorm:
    @staticmethod
    def get(layer):
        return {**Norm.get(layer), "running_mean": np.asarray(layer.running_mean.value),
                "running_var": np.asarray(layer.running_variance.value), "num_batches_tracked": np.asarray(0)}

    @staticmethod
    def set(layer, values):
        values("num_batches_tracked", None)  # counts batches for an average that is not ours
        return [*Norm.set(layer, values), (layer.running_mean, None, values("running_mean")),
                (layer.running_variance, None, values("running_var"))]


class PReLU:
    @staticmethod
    def get(layer):
        return {"weight": np.asarray(layer.slope.value)}

    @staticmethod
    def set(layer, values):
        return [(layer.slope, None, values("weight"))]


def _gates(names, offsets=None):
    """A row for cells whose gates are products of [x, h]: PyTorch stacks gates, and has two biases, whose sum is ours.
    `names`: our parts in PyTorch's order; `offsets`: what PyTorch's bias has more than ours."""
    offsets = offsets or [0.0] * len(names)

    class Gates:
        @staticmethod
        def get(layer):
            parts = [getattr(layer, n).weight for n in names]
            size = np.shape(parts[0]["weight"])[1]
            stacked = np.concatenate([np.asarray(p["weight"]).T for p in parts])
            out = {"weight_ih": stacked[:, :-size], "weight_hh": stacked[:, -size:]}
            if "bias" in parts[0].leaf_keys:
                total = np.concatenate([np.asarray(p["bias"]) + o for p, o in zip(parts, offsets)])
                second = _second_bias(layer, total.shape, total.dtype)
                out |= {"bias_ih": total - second, "bias_hh": second}
            elif any(offsets):
                raise NotSupportedError(f"{type(layer).__name__} without biases adds {offsets} to its gates, which "
                                        "PyTorch does not; make it with biases", stage="torch")
            return out

        @staticmethod
        def set(layer, values):
            parts = [getattr(layer, n).weight for n in names]
            if any(offsets) and "bias" not in parts[0].leaf_keys:
                Gates.get(layer)
            both = np.concatenate([values("weight_ih"), values("weight_hh")], 1)
            if both.shape[0] % len(names):
                raise ValueError(f"weight_ih has {both.shape[0]} rows, which are not {len(names)} gates", stage="torch")
            out = [(p, "weight", w.T) for p, w in zip(parts, np.split(both, len(names)))]
            if "bias" in parts[0].leaf_keys:
                second = values("bias_hh")
                layer.__dict__["_bias_hh"] = second
                total = values("bias_ih") + second
                out += [(p, "bias", b - np.asarray(o, b.dtype)) for p, b, o in
                        zip(parts, np.split(total, len(names)), offsets)]
            return out

    return Gates


def _second_bias(layer, shape, dtype):
    """bias_hh as it came, so that what was not changed goes back as it was; zeros for a cell that was made here."""
    kept = layer.__dict__.get("_bias_hh")
    return np.zeros(shape, dtype) if kept is None or kept.shape != tuple(shape) else kept.astype(dtype)


class Gru:
    """PyTorch's order is r, z, n; n keeps its two biases apart."""

    @staticmethod
    def get(cell):
        size = cell.out_size
        both = [np.asarray(p.weight["weight"]).T for p in (cell.Wr, cell.Wz)]
        out = {"weight_ih": np.concatenate([*(w[:, :-size] for w in both), np.asarray(cell.Wn.weight["weight"]).T]),
               "weight_hh": np.concatenate([*(w[:, -size:] for w in both), np.asarray(cell.Un.weight["weight"]).T])}
        if "bias" in cell.Wr.weight.leaf_keys:
            total = np.concatenate([np.asarray(p.weight["bias"]) for p in (cell.Wr, cell.Wz)])
            second = _second_bias(cell, total.shape, total.dtype)
            out["bias_ih"] = np.concatenate([total - second, np.asarray(cell.Wn.weight["bias"])])
            out["bias_hh"] = np.concatenate([second, np.asarray(cell.Un.weight["bias"])])
        return out

    @staticmethod
    def set(cell, values):
        size = cell.out_size
        w, u = values("weight_ih"), values("weight_hh")
        both = np.concatenate([w[:2 * size], u[:2 * size]], 1)
        out = [(cell.Wr.weight, "weight", both[:size].T), (cell.Wz.weight, "weight", both[size:].T),
               (cell.Wn.weight, "weight", w[2 * size:].T), (cell.Un.weight, "weight", u[2 * size:].T)]
        if "bias" in cell.Wr.weight.leaf_keys:
            b, second = values("bias_ih"), values("bias_hh")
            cell.__dict__["_bias_hh"] = second[:2 * size]
            total = b[:2 * size] + second[:2 * size]
            out += [(cell.Wr.weight, "bias", total[:size]), (cell.Wz.weight, "bias", total[size:]),
                    (cell.Wn.weight, "bias", b[2 * size:]), (cell.Un.weight, "bias", second[2 * size:])]
        return out


class NorseRecurrent:
    @staticmethod
    def get(cell):
        inputs, recurrent = cell.weights()
        return {"input_weights": inputs, "recurrent_weights": recurrent}

    @staticmethod
    def set(cell, values):
        both = np.concatenate([values("input_weights").T, values("recurrent_weights").T])
        return [(cell.into.weight, "weight", both)]


class Stack(Module):
    """Cells one after the other, as nn.RNN, nn.GRU and nn.LSTM with several layers are."""

    def __init__(self, cells):
        super().__init__()
        self.cells = cells

    def update(self, x):
        for cell in self.cells:
            x = cell(x)
        return x


class _Stacked:
    """Names of whole sequences: weight_ih_l0, weight_ih_l1 …"""

    @staticmethod
    def get(stack):
        return {f"{name}_l{i}": value for i, cell in enumerate(stack.cells) for name, value in _row(cell).get(cell).items()}

    @staticmethod
    def set(stack, values):
        return [change for i, cell in enumerate(stack.cells)
                for change in _row(cell).set(cell, lambda name, i=i: values(f"{name}_l{i}"))]


ROWS = {
    Stack: _Stacked, NorseLIFRecurrent: NorseRecurrent,
    nn.Linear: Linear, nn.Embedding: Embedding, nn.Conv: Conv, nn.Conv1d: Conv, nn.Conv2d: Conv, nn.Conv3d: Conv,
    nn.LayerNorm: Norm, nn.GroupNorm: Norm, nn.RMSNorm: Norm, nn.BatchNorm: BatchNorm, nn.PReLU: PReLU,
    nn.VanillaRNNCell: _gates(["W"]), nn.LSTMCell: _gates(["Wi", "Wf", "Wg", "Wo"], [0.0, 1.0, 0.0, 0.0]), GRUCell: Gru,
}
_REASONS = {
    "GRUCell": "its gate r acts on h before the product, PyTorch's on the product; use et.torch.GRUCell",
}


def _row(layer):
    """The row of a layer; None: it has no parameters of its own."""
    for kind in type(layer).__mro__:
        if kind in ROWS:
            return ROWS[kind]
    if hasattr(layer, "torch_parameters"):
        return _Own
    if _in_python(layer) and not getattr(layer, "_row", None):
        return None
    kept = [path for path, state in layer._node._states(None)
            if isinstance(state, (_core.ParamState, _core.LongTermState))
            and not isinstance(state, (_core.ModeState, _core.RandomState))]
    if not kept:
        return None
    name = type(layer).__name__
    raise NotSupportedError(f"{name} has no counterpart in PyTorch" + (f": {_REASONS[name]}" if name in _REASONS else ""),
                            stage="torch")


class _Own:
    """A module that says itself what its parameters are called there: {name: state}."""

    @staticmethod
    def get(module):
        return {name: np.asarray(state.value) for name, state in module.torch_parameters().items()}

    @staticmethod
    def set(module, values):
        return [(state, None, values(name).reshape(state.shape)) for name, state in module.torch_parameters().items()]


def _walk(module, prefix=""):
    """(prefix, layer, row) of every layer with parameters; one that is reached twice counts at its first place."""
    seen = set()

    def walk(module, prefix):
        if id(module) in seen:
            return
        seen.add(id(module))
        row = _row(module)
        if row is not None:
            yield prefix, module, row
        if row is None or row is _Own:
            if _in_python(module) and not _is_layer(module):
                yield from children(module, prefix)

    def children(module, prefix):
        for name, child in module._children():
            # et.Sequential keeps its modules in `layers`; in PyTorch they stand in it directly
            inside = child._children() if isinstance(module, Sequential) and name == "layers" else [(name, child)]
            for part, each in inside:
                yield from walk(each, prefix + part + ".")
        for name, state in module._members():
            if isinstance(state, _core.ParamState) and not hasattr(module, "torch_parameters"):
                yield prefix + name, state, _Bare

    return walk(module, prefix)


def _is_layer(module):
    return getattr(type(module), "_row", None) is not None


class _Bare:
    """A parameter that stands in a module of its own: the same name and layout in both."""

    @staticmethod
    def get(state):
        return {"": np.asarray(state.value)}

    @staticmethod
    def set(state, values):
        return [(state, None, values(""))]


def state_dict(model, *, tensors=True):
    """{name: tensor} as PyTorch has it: attributes joined by points, gates and layouts as PyTorch stacks and turns them.
    `module.load_state_dict` takes it. `tensors=False`: NumPy arrays, which need no PyTorch."""
    node_of(model)
    arrays = {prefix + name: np.array(value) for prefix, layer, row in _walk(model)
              for name, value in row.get(layer).items()}
    if not tensors:
        return arrays
    import torch

    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def load_state_dict(model, values):
    """Takes parameters from a state_dict of PyTorch (tensors or arrays, by name). All or none; a name that is missing,
    left over or of another shape is an error."""
    node_of(model)
    rest, changes = dict(values), []
    for prefix, layer, row in _walk(model):
        changes += _checked(prefix, row.set(layer, _Taker(rest, prefix)))
    rest = [k for k in rest if not k.endswith(_BUFFERS)]
    if rest:
        raise ValueError(f"the model has no parameters {', '.join(sorted(rest))}", stage="load_state_dict")
    for state, key, value in changes:
        if key is None:
            state.value = value
        else:
            state[key] = value


# Buffers of neurons that say how they work; from_module reads them.
_BUFFERS = ("reset_mechanism_val", "graded_spikes_factor", "threshold", "beta", "alpha", ".mem", ".syn", ".spk")


class _Taker:
    """Takes names out of a state_dict, below a prefix; weights of whole sequences end in _l0 there."""

    def __init__(self, rest, prefix):
        self.rest, self.prefix = rest, prefix

    def __call__(self, name, *default):
        for spelling in (name, name + "_l0"):
            if self.prefix + spelling in self.rest:
                return to_numpy(self.rest.pop(self.prefix + spelling))
        if default:
            return default[0]
        raise ValueError(f"there is no {self.prefix + name} in the state_dict; it has {', '.join(sorted(self.rest))}",
                         stage="load_state_dict")


def _checked(prefix, changes):
    for state, key, value in changes:
        old = state[key] if key is not None else state.value
        if tuple(old.shape) != value.shape:
            raise ValueError(f"{prefix}{state.name}{'.' + key if key else ''} has shape {tuple(old.shape)} here, the "
                             f"value {value.shape} once its layout is turned to ours", stage="load_state_dict")
    return changes
