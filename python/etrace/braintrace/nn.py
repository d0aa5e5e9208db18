"""Layers of braintrace.nn: those of et.nn by the same names, with `dt` of brainstate.environ where it is set."""

from .. import nn as _nn
from ._names import missing as _missing
from .brainstate import environ as _environ, nn as _brainstate_nn

_PLAIN = ("Linear GroupedLinear SignedWLinear ScaledWSLinear SparseLinear LoRA Embedding Conv1d Conv2d Conv3d VanillaRNNCell "
          "ValinaRNNCell GRUCell MGUCell LSTMCell URLSTMCell MinimalRNNCell MiniGRU MiniLSTM LRUCell CFNCell BatchNorm "
          "BatchNorm0d BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm GroupNorm RMSNorm AvgPool1d AvgPool2d AvgPool3d "
          "MaxPool1d MaxPool2d MaxPool3d Flatten Unflatten ReLU Tanh Sigmoid SiLU GELU ELU SELU Softplus Identity").split()
globals().update({name: getattr(_nn, name) for name in _PLAIN if hasattr(_nn, name)})

Dropout = _brainstate_nn.Dropout


def LeakyRateReadout(in_size, out_size, tau=5.0, w_init=None, name=None, **options):
    if w_init is not None:
        options["weight_init"] = w_init
    return _nn.LeakyRateReadout(in_size, out_size, tau=tau, **_environ.step(options))


_INSTEAD = {"IF": "brainpy.state.IF", "LIF": "brainpy.state.LIF", "ALIF": "brainpy.state.ALIF", "Expon": "brainpy.state.Expon",
            "Alpha": "brainpy.state.Alpha", "DualExpon": "brainpy.state.DualExpon", "STP": "brainpy.state.STP",
            "STD": "brainpy.state.STD"}


def __getattr__(name):
    from . import brainpy

    if hasattr(brainpy.state, name):
        return getattr(brainpy.state, name)
    raise _missing("braintrace.nn", name, _INSTEAD)
