"""A graph of NIR as a model: `read`. Nodes run in the order of their edges; an edge that closes a cycle carries what its
neuron gave in the step before."""

from __future__ import annotations

import numpy as np

from .. import _core, nn
from .._containers import ModuleDict
from .._errors import NotSupportedError, ValueError
from .._module import Module
from . import _nodes
from ._nodes import NEURONS, Conventions, Dynamics


def read(graph, *, dt=None, discretisation="euler", reset="hard", current="new", surrogate=None, dtype="float32"):
    """One step of a NIR graph, a file or a `nir.NIRGraph`, as a model.

    dt              seconds; None: the graph's metadata, otherwise 1e-4, as snnTorch and SpikingJelly take it (Norse: 1e-3)
    discretisation  "euler", as the importers of other frameworks have it, or "exact"
    reset           "hard" (v_reset), or "subtract" (the threshold)
    current         "new": v sees the current of this step, as in snnTorch and Norse; "old": of the step before
    surrogate       the derivative of a spike, of et.nn.surrogate or a function; None: arctan(alpha=2)
    """
    import nir

    if not isinstance(graph, nir.NIRNode):
        graph = nir.read(graph)
    if not isinstance(graph, nir.NIRGraph):
        graph = nir.NIRGraph.from_list(graph)
    for name, value, known in (("discretisation", discretisation, ("euler", "exact")), ("reset", reset, ("hard", "subtract")),
                               ("current", current, ("new", "old"))):
        if value not in known:
            raise ValueError(f"{name} is {value!r}; there are {', '.join(map(repr, known))}", stage="nir")
    if dt is None:
        dt = float(np.asarray((graph.metadata or {}).get("dt", 1e-4)))
    if not (dt > 0 and np.isfinite(dt)):
        raise ValueError(f"dt is {dt} s; a step takes a positive time", stage="nir")
    conventions = Conventions(dt, discretisation, reset, current, surrogate or nn.surrogate.arctan(alpha=2.0), dtype)
    return Graph(graph, conventions)


class Graph(Module):
    """A NIR graph. `nodes`: its parts by name; `conventions`: how equations became steps. Arguments are the Input nodes by
    name, results the Output nodes, a dictionary if there are several."""

    def __init__(self, graph, conventions, place=""):
        super().__init__()
        self.conventions, self.place = conventions, place
        self.edges = sorted(set(map(tuple, graph.edges)))
        self.inputs, self.outputs = sorted(graph.inputs), sorted(graph.outputs)
        if not self.outputs or not self.inputs:
            raise ValueError(f"{self._at()}the graph has no {'Output' if self.inputs else 'Input'}", stage="nir")
        self.shapes = {n: [int(k) for k in np.ravel(graph.nodes[n].input_type["input"])]
                       for n in (*self.inputs, *self.outputs)}
        parts = {name: self._convert(name, node) for name, node in graph.nodes.items()
                 if name not in self.inputs and name not in self.outputs}
        self.nodes = ModuleDict({_key(name): part for name, part in parts.items()})
        self.delayed = self._cycles()
        self.order = self._order()

    def _at(self, name=""):
        where = "/".join(p for p in (self.place, name) if p)
        return f"{where}: " if where else ""

    # Parts -----------------------------------------------------------------------------------------------------
    def _convert(self, name, node):
        kind, c = type(node).__name__, self.conventions
        if kind in NEURONS:
            make, fields = NEURONS[kind]
            self._check_step(name, node, fields)
            return make(node, fields, c)
        method = getattr(self, "_on_" + kind.lower(), None)
        if method is None:
            raise NotSupportedError(f"{self._at(name)}a node {kind} has no counterpart", stage="nir")
        return method(name, node)

    def _check_step(self, name, node, fields):
        for field in fields:
            if field.startswith("tau") and self.conventions.discretisation == "euler" and \
                    np.any(np.asarray(getattr(node, field)) <= self.conventions.dt):
                raise ValueError(f"{self._at(name)}{field} is {float(np.min(getattr(node, field))):g} s, which a step of "
                                 f"{self.conventions.dt:g} s is too long for; give a smaller dt, or discretisation='exact'",
                                 stage="nir")

    def _on_nirgraph(self, name, node):
        if len(node.inputs) != 1 or len(node.outputs) != 1:
            raise NotSupportedError(f"{self._at(name)}a graph inside a graph has one Input and one Output here", stage="nir")
        return Graph(node, self.conventions, "/".join(p for p in (self.place, name) if p))

    def _on_linear(self, name, node):
        return self._linear(name, node.weight, None)

    def _on_affine(self, name, node):
        return self._linear(name, node.weight, node.bias)

    def _linear(self, name, weight, bias):
        weight = np.asarray(weight)
        if weight.ndim != 2:
            raise NotSupportedError(f"{self._at(name)}a weight of shape {weight.shape}; only matrices have a counterpart",
                                    stage="nir")
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=self.conventions.dtype,
                          **({} if bias is not None else {"bias_init": None}))
        layer.weight["weight"] = self._number(weight.T)
        if bias is not None:
            layer.weight["bias"] = self._number(np.broadcast_to(bias, weight.shape[:1]))
        return layer

    def _number(self, value):
        return np.ascontiguousarray(value, dtype=self.conventions.dtype)

    def _on_scale(self, name, node):
        layer = nn.OneToOne(tuple(np.shape(node.scale)), dtype=self.conventions.dtype)
        layer.weight["weight"] = self._number(node.scale)
        return layer

    def _shape_of(self, name, node):
        shape = (node.input_type or {}).get("input")
        if shape is None:
            raise ValueError(f"{self._at(name)}the shape of its input is not known; give the Input node a shape and the "
                             "convolution an input_shape", stage="nir")
        return tuple(int(n) for n in np.ravel(shape))

    def _on_conv1d(self, name, node):
        return self._conv(name, node, 1)

    def _on_conv2d(self, name, node):
        return self._conv(name, node, 2)

    def _conv(self, name, node, space):
        weight = np.asarray(node.weight)
        shape = list(self._shape_of(name, node))
        shape[0] = weight.shape[1] * int(node.groups)  # nir gives the channels of one group
        padding = node.padding.decode() if isinstance(node.padding, bytes) else node.padding
        padding = padding.upper() if isinstance(padding, str) else [(p, p) for p in _many(padding, space)]
        layer = (nn.Conv1d if space == 1 else nn.Conv2d)(
            tuple(shape), weight.shape[0], list(weight.shape[2:]), strides=_many(node.stride, space), padding=padding,
            dilation=_many(node.dilation, space), groups=int(node.groups), bias_init=0.0, channel_first=True,
            dtype=self.conventions.dtype)
        layer.weight["weight"] = self._number(np.moveaxis(weight, (0, 1), (-1, -2)))
        layer.weight["bias"] = self._number(node.bias).reshape(layer.weight["bias"].shape)
        return layer

    def _on_avgpool2d(self, name, node):
        return nn.AvgPool2d(_many(node.kernel_size, 2), strides=_many(node.stride, 2), count_padding=True,
                            padding=[(p, p) for p in _many(node.padding, 2)], channel_first=True)

    def _on_sumpool2d(self, name, node):
        return _nodes.SumPool(self._on_avgpool2d(name, node), np.prod(_many(node.kernel_size, 2)))

    def _on_flatten(self, name, node):
        shape = self._shape_of(name, node)
        return _nodes.Reshape(shape, np.ravel(node.output_type["output"]))

    def _on_delay(self, name, node):
        steps = np.asarray(node.delay, np.float64) / self.conventions.dt
        if np.any(np.abs(steps - np.round(steps)) > 1e-6 * np.maximum(steps, 1)):
            raise ValueError(f"{self._at(name)}a delay of {float(np.ravel(node.delay)[0]):g} s is no whole number of steps of "
                             f"{self.conventions.dt:g} s", stage="nir")
        ms = 1e3 * self.conventions.dt
        return nn.Delay(tuple(np.shape(node.delay)), np.round(steps) * ms, dt=ms, dtype=self.conventions.dtype)

    def _on_threshold(self, name, node):
        return _nodes.Threshold(node, self.conventions)

    # Order -----------------------------------------------------------------------------------------------------
    def _before(self, name):
        return [a for a, b in self.edges if b == name]

    def _after(self, name):
        return [b for a, b in self.edges if a == name]

    def _cycles(self):
        """Edges out of neurons that carry the step before: one for each cycle, found depth first from the inputs."""
        delayed, state = set(), {}

        def visit(name):
            state[name] = "open"
            for after in self._after(name):
                if state.get(after) == "open":
                    delayed.add(self._neuron_before(name, after))
                elif after not in state:
                    visit(after)
            state[name] = "done"
        for name in self.inputs:
            if name not in state:
                visit(name)
        return delayed

    def _neuron_before(self, name, after):
        """The edge (neuron, next) on the way that leads to the end of a cycle by nodes without memory."""
        while not isinstance(self.nodes[_key(name)], (Dynamics, Graph)):
            before, others = self._before(name), [n for n in self._after(name) if n != after]
            if len(before) != 1 or others or before[0] in self.inputs:
                raise NotSupportedError(
                    f"{self._at(name)}it closes a cycle and is also part of another way; let a node of its own lead from the "
                    "neuron back", stage="nir")
            name, after = before[0], name
        if isinstance(self.nodes[_key(name)], Graph) and self.nodes[_key(name)].last is None:
            raise NotSupportedError(f"{self._at(name)}a graph that closes a cycle must end in a neuron", stage="nir")
        return name, after

    def _order(self):
        order, done = [], set(self.inputs)
        left = [n for n in (*self.nodes_by_name(), *self.outputs)]
        while left:
            ready = [n for n in left if all(b in done or (b, n) in self.delayed for b in self._before(n))]
            if not ready:
                raise NotSupportedError(f"{self._at()}a cycle of {', '.join(left)} without a neuron, or nodes that no input "
                                        "reaches", stage="nir")
            order += ready
            done.update(ready)
            left = [n for n in left if n not in done]
        return [n for n in order if n not in self.outputs]

    def nodes_by_name(self):
        """Names of the parts as the graph has them."""
        return sorted({n for edge in self.edges for n in edge} - set(self.inputs) - set(self.outputs))

    @property
    def last(self):
        """What the step before gave, if a neuron is the one before the output."""
        before = self._before(self.outputs[0])
        if len(before) != 1 or before[0] in self.inputs or not isinstance(self.nodes[_key(before[0])], Dynamics):
            return None
        return self.nodes[_key(before[0])].last

    # Steps -----------------------------------------------------------------------------------------------------
    def update(self, *args):
        if len(args) != len(self.inputs):
            raise ValueError(f"{self._at()}the graph has the inputs {', '.join(self.inputs)}; {len(args)} were given",
                             stage="nir")
        values = dict(zip(self.inputs, args))
        before = {edge: self.nodes[_key(edge[0])].last() for edge in self.delayed}

        def into(name):
            parts = [before.get((b, name)) if (b, name) in before else values[b] for b in self._before(name)]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            return total
        for name in self.order:
            values[name] = self.nodes[_key(name)](into(name))
        results = {name: into(name) for name in self.outputs}
        return results[self.outputs[0]] if len(results) == 1 else results


def _key(name):
    return name.replace("/", "|")


def _many(value, space):
    flat = [int(v) for v in np.ravel(value)]
    return flat * space if len(flat) == 1 else flat
