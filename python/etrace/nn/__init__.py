"""Layers, cells, neurons, synapses and projections; initialisers (`init`), surrogates of spikes (`surrogate`), patterns
of connections (`connect`), activations.

    cell = et.nn.GRUCell(3, 8, weight_init=et.nn.init.orthogonal())
    neurons = et.nn.LIF(100, tau=20 * et.units.ms, reset="hard")
"""

from .. import _core
from .._core._nn import *  # noqa: F401,F403
from .._core import (  # noqa: F401
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from .._containers import ModuleDict, ModuleList, Sequential  # noqa: F401
from . import connect, init, surrogate  # noqa: F401
from ._containers import AlignPost, AlignPre, Lambda, Parallel, Residual  # noqa: F401
from ._layer import Dynamics, Layer, Neuron, WeightLayer, make_classes

spike = _core._spike


def _after_reset(self, fired):
    """V once it is reset, given the spikes."""
    return _core._lif_after_reset(self._node, fired)


def _sparse_linear(self, pattern, **options):
    """A SciPy matrix gives the pattern and, unless there is a weight_init, the first values."""
    if hasattr(pattern, "tocoo") and "weight_init" not in options and "w_init" not in options:
        options["weight_init"] = init.values(pattern.data)
    Layer.__init__(self, pattern, **options)


def _lora(self, in_size, rank, out_size, *, base_module=None, **options):
    """`base_module`: a layer whose result is added."""
    Layer.__init__(self, in_size, rank, out_size, **options)
    if base_module is not None:
        self.base_module = base_module


def _lora_update(self, x):
    y = Layer.update(self, x)
    base = self.__dict__.get("base_module")
    return y if base is None else y + base(x)


_classes = make_classes(
    {"Layer": Layer, "WeightLayer": WeightLayer, "Dynamics": Dynamics, "Neuron": Neuron}, __name__
)
_classes["LIF"].after_reset = _after_reset
_classes["SparseLinear"].__init__ = _sparse_linear
_classes["LoRA"].__init__ = _lora
_classes["LoRA"].update = _lora_update
_classes["LoRA"]._own_update = property(lambda self: "base_module" in self.__dict__)
_classes["Conv"].out_size = property(lambda self: _core._conv_out_size(self._node))
globals().update(_classes)

# Other spellings.
ValinaRNNCell = VanillaRNNCell  # noqa: F821
BatchNorm0d = BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm  # noqa: F821
