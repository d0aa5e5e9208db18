"""Layers made of layers: what C++ writes with add<Layer>(…), connect<Layer>(…) and synapse<Layer>(…)."""

from __future__ import annotations

from .. import _core
from .. import _errors
from .._containers import ModuleList, Sequential
from .._module import Module


def _shape(x) -> str:
    return str(tuple(x.shape))


class Residual(Sequential):
    """x + f(x), f the layers one after the other. States have paths such as layers/0/h."""

    def update(self, x):
        y = super().update(x)
        if tuple(y.shape) != tuple(x.shape):
            raise _errors.ValueError(
                f"a Residual whose layers give {_shape(y)} was given {_shape(x)}; both must have one shape", stage="nn"
            )
        return x + y


class Parallel(Module):
    """f_1(x) + … + f_n(x), or with `joined="concatenated"` the results joined on the last axis.

    Paths: branches/0/weight.
    """

    def __init__(self, *branches, joined: str = "sum"):
        super().__init__()
        if joined not in ("sum", "concatenated"):
            raise _errors.ValueError(f"joined is {joined!r}; it must be one of 'sum', 'concatenated'", stage="Parallel")
        self.joined = joined
        self.branches = ModuleList(branches)

    def append(self, branch) -> None:
        self.branches.append(branch)

    def update(self, x):
        if len(self.branches) == 0:
            raise _errors.ValueError("it has no branches; give some: Parallel(layer, layer)", stage="Parallel")
        results = [branch(x) for branch in self.branches]
        if self.joined == "concatenated":
            return _core.concatenate(results, axis=-1)
        total = results[0]
        for y in results[1:]:
            if tuple(y.shape) != tuple(total.shape):
                raise _errors.ValueError(
                    f"its branches give {_shape(total)} and {_shape(y)}, which cannot be added", stage="Parallel"
                )
            total = total + y
        return total


class Lambda(Module):
    """A function of one array as a layer: Lambda("relu"), Lambda(lambda x: x * x)."""

    def __init__(self, function):
        super().__init__()
        if isinstance(function, str):
            known = _core._nn.activation_names()
            if function not in known:
                raise _errors.ValueError(
                    f"there is no activation {function!r}; there are {', '.join(known)}", stage="Lambda"
                )
        elif not callable(function):
            raise _errors.TypeError(
                f"Lambda takes a function of one array, or its name, not {function!r}", stage="Lambda"
            )
        self.function = function

    def update(self, x):
        if isinstance(self.function, str):
            return _core._nn.activate(self.function, x)
        return self.function(x)


class _Projection(Module):
    def __init__(self, out, comm=(), syn=None):
        super().__init__()
        if not isinstance(out, _core._nn.SynapticCurrent):
            raise _errors.TypeError(
                f"out is a SynapticCurrent such as SynapticCurrent.cuba(), not {out!r}", stage=type(self).__name__
            )
        self.out = out
        self.comm = ModuleList(comm if isinstance(comm, (list, tuple)) else [comm])
        self.__dict__["syn"] = None
        if syn is not None:
            self.syn = syn

    def connect(self, layer):
        """One connection more; gives it back."""
        self.comm.append(layer)
        return layer

    def synapse(self, layer):
        """Sets the synapse; gives it back."""
        self.syn = layer
        return layer


class AlignPost(_Projection):
    """input = out(synapse(Σ comm(spikes))): connections that end at one synapse, which has the size of the receivers.

        exc = AlignPost(SynapticCurrent.coba(0.0), [Linear(100, 50), Linear(50, 50)], Expon(50))
        neurons.step(fired, exc.input(x, fired) + inh.input(fired))

    Each connection has senders of its own. Without a synapse, what the connections give is the conductance. Paths:
    comm/0/weight, syn/g.
    """

    def update(self, *spikes):
        """The conductance; one array of spikes for each connection."""
        if len(self.comm) == 0 or len(spikes) != len(self.comm):
            raise _errors.ValueError(
                f"it has {len(self.comm)} connections and was given {len(spikes)} arrays of spikes; expected one for each",
                stage="AlignPost",
            )
        total = None
        for connection, x in zip(self.comm, spikes):
            y = connection(x)
            total = y if total is None else total + y
        return total if self.syn is None else self.syn(total)

    def input(self, *spikes):
        """What a neuron takes: `neuron.step(fired, projection.input(x))`."""
        return self.out(self(*spikes))


class AlignPre(_Projection):
    """input = out(Σ comm(synapse(spikes))): one synapse per sender, and connections from it."""

    def update(self, spikes):
        """The conductance."""
        if len(self.comm) == 0:
            raise _errors.ValueError("it has no connections; make one with connect(layer)", stage="AlignPre")
        sent = spikes if self.syn is None else self.syn(spikes)
        total = None
        for connection in self.comm:
            y = connection(sent)
            total = y if total is None else total + y
        return total

    def input(self, spikes):
        """What a neuron takes: `neuron.step(fired, projection.input(x))`."""
        return self.out(self(spikes))
