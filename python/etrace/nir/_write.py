"""Models as graphs of NIR: `write`. What was read goes back with the values of now; layers of the library, one after the
other, become nodes whose forward Euler steps are theirs."""

from __future__ import annotations

import warnings

import numpy as np

from .. import _core, nn
from .._containers import Sequential
from .._errors import NotSupportedError, ValueError
from .._module import _is_module
from ..torch._neurons import NorseLIFBox
from . import _nodes
from ._graph import Graph, _key


def write(model, path=None, *, shape=None):
    """The NIR graph of a model, also as a file. Models are those of `et.nir.read`, a layer of the library, or an
    et.Sequential of them: Linear, OneToOne, Conv1d, Conv2d, AvgPool2d, Flatten, LIF, LIFLayer, Expon, LeakyRateReadout.

    shape  of one sample of the input; None: that of the first layer, if it has one
    """
    import nir

    graph = _graph(model) if isinstance(model, Graph) else _Chain(shape).graph(model)
    if path is not None:
        nir.write(path, graph)
    return graph


# What was read ----------------------------------------------------------------------------------------------
def _graph(model):
    import nir

    nodes = {name: nir.Input(np.array(model.shapes[name])) for name in model.inputs}
    nodes |= {name: nir.Output(np.array(model.shapes[name])) for name in model.outputs}
    nodes |= {name: _node(model.nodes[_key(name)]) for name in model.nodes_by_name()}
    c = model.conventions
    metadata = {"dt": c.dt, "discretisation": c.discretisation, "reset": c.reset, "current": c.current}
    return nir.NIRGraph(nodes=nodes, edges=[tuple(e) for e in model.edges], metadata=metadata if not model.place else {},
                        type_check=False)


def _node(part):
    import nir

    if isinstance(part, Graph):
        return _graph(part)
    if isinstance(part, _nodes.Dynamics):
        return getattr(nir, part.kind)(**part.values)
    if isinstance(part, _nodes.Threshold):
        return nir.Threshold(**part.values)
    if isinstance(part, _nodes.Reshape):
        start = len(part.before) if part.before == part.after else 0
        while start < len(part.after) and part.before[start] == part.after[start]:
            start += 1
        end = len(part.before) - (len(part.after) - start)
        return nir.Flatten({"input": np.array(part.before)}, start_dim=start, end_dim=end)
    if isinstance(part, _nodes.SumPool):
        pool = _pool(part.pool)
        return nir.SumPool2d(pool.kernel_size, pool.stride, pool.padding)
    return _layer(part)


def _layer(part):
    import nir

    if isinstance(part, nn.Linear):
        weight = np.asarray(part.weight["weight"]).T
        if "bias" not in part.weight.leaf_keys:
            return nir.Linear(weight)
        return nir.Affine(weight, np.asarray(part.weight["bias"]))
    if isinstance(part, nn.OneToOne):
        if "bias" in part.weight.leaf_keys:
            raise NotSupportedError("OneToOne with a bias has no counterpart in NIR; make it without", stage="nir")
        return nir.Scale(np.asarray(part.weight["weight"]))
    if isinstance(part, nn.Conv):
        return _conv(part)
    if isinstance(part, nn.AvgPool2d):
        return _pool(part)
    if isinstance(part, nn.Delay):
        delay = _in_unit(part.delay, "delay") * 1e-3
        return nir.Delay(np.broadcast_to(delay, tuple(int(n) for n in np.ravel(part._given[0][0]))).copy())
    raise NotSupportedError(f"{type(part).__name__} has no counterpart in NIR", stage="nir")


def _conv(part):
    import nir

    options = part._given[1]
    if not options.get("channel_first"):
        raise NotSupportedError(f"{type(part).__name__} with channels last; NIR has them first: channel_first=True",
                                stage="nir")
    weight = np.moveaxis(np.asarray(part.weight["weight"]), (-1, -2), (0, 1))
    space = weight.ndim - 2
    if space == 3:
        raise NotSupportedError("Conv3d has no counterpart in NIR", stage="nir")
    padding = options.get("padding", "SAME")
    strides, dilation = (_all(options.get(k, 1), space) for k in ("strides", "dilation"))
    if isinstance(padding, str):
        if padding.upper() == "SAME" and any(s != 1 for s in strides):
            raise NotSupportedError("a convolution with padding 'SAME' and strides has no counterpart in NIR; give the "
                                    "padding as numbers", stage="nir")
        padding = padding.lower()
    else:
        pairs = [(p, p) if np.ndim(p) == 0 else tuple(p) for p in (padding if np.ndim(padding) else [padding])]
        if any(a != b for a, b in pairs):
            raise NotSupportedError(f"padding {pairs} is not the same on both sides, which NIR has not", stage="nir")
        padding = _all([a for a, _ in pairs], space)
        padding = padding[0] if space == 1 else tuple(padding)
    bias = np.asarray(part.weight["bias"]).ravel() if "bias" in part.weight.leaf_keys else np.zeros(weight.shape[0])
    shape = [int(n) for n in part.in_size][1:]
    if space == 1:
        return nir.Conv1d(shape[0], weight, strides[0], padding, dilation[0], int(options.get("groups", 1)), bias)
    return nir.Conv2d(tuple(shape), weight, tuple(strides), padding, tuple(dilation), int(options.get("groups", 1)), bias)


def _pool(part):
    import nir

    args, options = part._given
    if not options.get("channel_first"):
        raise NotSupportedError("AvgPool2d with channels last; NIR has them first: channel_first=True", stage="nir")
    window = _all(args[0] if args else options["window"], 2)
    pairs = options.get("padding") or [(0, 0)]
    if any(a != b for a, b in pairs) or (any(a for a, _ in pairs) and not options.get("count_padding")):
        raise NotSupportedError("AvgPool2d with this padding has no counterpart in NIR, which counts zeros on both sides",
                                stage="nir")
    return nir.AvgPool2d(np.array(window), np.array(_all(options.get("strides") or window, 2)),
                         np.array(_all([a for a, _ in pairs], 2)))


def _all(value, space):
    flat = [int(v) for v in np.ravel(value)]
    return flat * space if len(flat) == 1 else flat


# Layers of the library --------------------------------------------------------------------------------------
def _option(layer, name, default):
    """A constant of a layer in ms, mV, Ω: numbers, one per neuron, quantities; learned ones as they are now."""
    given = (layer._given or ((), {}))[1]
    inside = given.get("neuron") if isinstance(layer, nn.LIFLayer) and name != "tau_syn" else None
    if inside is not None and not isinstance(inside, dict):
        raise NotSupportedError("LIFLayer with neuron= that is no dictionary of options", stage="nir")
    value = (inside if isinstance(inside, dict) else given).get(name, default)
    members = set(map(str, layer._node._members()))
    if name in members and isinstance(getattr(layer, name), _core.ParamState):
        value = np.asarray(getattr(layer, name).value)
    return _in_unit(value, name)


def _in_unit(value, name):
    if isinstance(value, _core.Quantity):
        unit = {"tau": "ms", "tau_syn": "ms", "dt": "ms", "tau_ref": "ms", "delay": "ms", "R": "ohm"}.get(name, "mV")
        value = value.to(getattr(_core.units, unit))
    return np.asarray(value, np.float64)


def _word(layer, name, default):
    given = (layer._given or ((), {}))[1]
    inside = given.get("neuron")
    return str((inside if name == "reset" and isinstance(inside, dict) else given).get(name, default)).lower()


class _Chain:
    """Nodes one after the other, from layers that are."""

    def __init__(self, shape):
        self.shape, self.nodes, self.edges, self.previous, self.dt = shape, {}, [], None, None

    def graph(self, model):
        import nir

        layers = list(model) if isinstance(model, Sequential) else [model]
        first, before = self.shape or self._in_shape(layers[0]), None
        self._append("input", nir.Input(np.array(first)))
        self.size = tuple(first)
        for i, layer in enumerate(layers):
            self.add(str(i), layer)
        before = self.nodes[self.previous]
        shape = before.output_type["output"] if before.output_type.get("output") is not None else np.array(self.size)
        self._append("output", nir.Output(np.array(shape)))
        metadata = {} if self.dt is None else {"dt": self.dt, "discretisation": "euler", "reset": "hard", "current": "new"}
        return nir.NIRGraph(nodes=self.nodes, edges=self.edges, metadata=metadata)

    def _in_shape(self, layer):
        for name in ("in_size", "size"):
            try:
                return tuple(np.ravel(getattr(layer, name)))
            except AttributeError:
                continue
        raise ValueError("the shape of the input is not known; give it by shape=", stage="nir")

    def _append(self, name, node, link=True):
        self.nodes[name] = node
        if link and self.previous is not None:
            self.edges.append((self.previous, name))
        self.previous = name

    def _step(self, layer):
        """Δt in s; the same for all."""
        dt = float(_option(layer, "dt", 1.0)) * 1e-3
        if self.dt is not None and abs(dt - self.dt) > 1e-12:
            raise NotSupportedError(f"layers with different dt, {self.dt:g} s and {dt:g} s", stage="nir")
        self.dt = dt
        return dt

    def add(self, name, layer):
        import nir

        if not _is_module(layer):
            raise NotSupportedError(f"{layer!r} is no module", stage="nir")
        if isinstance(layer, nn.LIFLayer):
            self._lif_layer(name, layer)
        elif isinstance(layer, nn.LIF):
            self._append(name, self._lif(layer))
        elif isinstance(layer, nn.Expon):
            a = self._share(layer, "tau", 8.0)
            size = np.zeros(tuple(np.ravel(layer._given[0][0])))
            self._append(name, nir.LI(tau=self._tau(a) + size, r=1 / a + size, v_leak=size))
        elif isinstance(layer, nn.LeakyRateReadout):
            self._append(name + ".weight", nir.Linear(np.asarray(layer.W.value).T))
            a, size = self._share(layer, "tau", 5.0), np.zeros(np.shape(layer.W.value)[1])
            self._append(name, nir.LI(tau=self._tau(a) + size, r=1 / a + size, v_leak=size))
        elif isinstance(layer, NorseLIFBox):
            self.dt, zeros = layer.dt, np.zeros(layer.size)
            c = {n: layer.constant(n).astype(np.float64) + zeros for n in ("tau_mem_inv", "v_leak", "v_th", "v_reset")}
            self._append(name, nir.LIF(tau=1 / c["tau_mem_inv"], r=zeros + 1, v_leak=c["v_leak"], v_threshold=c["v_th"],
                                       v_reset=c["v_reset"]))
        elif isinstance(layer, nn.Flatten):
            self._append(name, nir.Flatten({"input": np.array(layer.in_size)}, start_dim=0, end_dim=-1))
        else:
            self._append(name, _layer(layer))

    def _share(self, layer, tau, default):
        """1 − e^(−Δt/τ), which Euler's Δt/τ' is to be."""
        self._step(layer)
        return -np.expm1(-_option(layer, "dt", 1.0) / _option(layer, tau, default))

    def _tau(self, share):
        return self.dt / share

    def _lif(self, layer, gain=None):
        import nir

        if np.any(_option(layer, "tau_ref", 5.0 if isinstance(layer, nn.LIFRef) else 0.0)):
            raise NotSupportedError(f"{type(layer).__name__} with a refractory period has no counterpart in NIR", stage="nir")
        if _word(layer, "reset", "soft") != "hard":
            warnings.warn("NIR has the hard reset only: the soft reset of a LIF is written as one, and gives other spikes "
                          "there. Make the layer with reset='hard'", stacklevel=4)
        a = self._share(layer, "tau", 5.0)
        size = np.zeros(tuple(int(n) for n in np.ravel(np.shape(layer.V.value)[-len(_size(layer)):])))
        r = _option(layer, "R", 1.0) if gain is None else gain(a)
        return nir.LIF(tau=self._tau(a) + size, r=r + size, v_leak=_option(layer, "V_rest", 0.0) + size,
                       v_threshold=_option(layer, "V_th", 1.0) + size, v_reset=_option(layer, "V_reset", 0.0) + size)

    def _lif_layer(self, name, layer):
        """Weights of the input before the neuron, those of its spikes in a cycle, as a graph of its own."""
        import nir

        both = np.asarray(layer.syn.weight["weight"]).T
        size = both.shape[0]
        bias = np.asarray(layer.syn.weight["bias"]) if "bias" in layer.syn.weight.leaf_keys else np.zeros(size)
        self._append(name + ".weight", nir.Affine(both[:, :-size], bias))
        if _word(layer, "synapse", "expon") == "delta":
            neuron = self._lif(layer, gain=lambda a: 1 / a)
        else:
            lif, a = self._lif(layer), self._share(layer, "tau_syn", 10.0)
            zeros = np.zeros(size)
            neuron = nir.CubaLIF(tau_syn=self._tau(a) + zeros, tau_mem=lif.tau, r=lif.r, v_leak=lif.v_leak,
                                 v_threshold=lif.v_threshold, v_reset=lif.v_reset, w_in=1 / a + zeros)
        inside = nir.NIRGraph(
            nodes={"input": nir.Input(np.array([size])), "lif": neuron, "w_rec": nir.Linear(both[:, -size:]),
                   "output": nir.Output(np.array([size]))},
            edges=[("input", "lif"), ("lif", "w_rec"), ("w_rec", "lif"), ("lif", "output")])
        self._append(name, inside)


def _size(layer):
    given = layer._given[0]
    size = given[1] if isinstance(layer, nn.LIFLayer) else given[0]
    return tuple(np.ravel(size))
