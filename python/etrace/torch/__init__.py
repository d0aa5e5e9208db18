"""Models and weights from PyTorch, snnTorch, Norse and SpikingJelly.

    model = et.torch.from_module(module, example)     # one step of a torch module, with its weights
    …                                                 # compile, train online
    et.torch.load_into(module, model)                 # what was learned, into the torch module

    et.torch.load_state_dict(model, module.state_dict())   # weights for a model that was written here
    module.load_state_dict(et.torch.state_dict(model))

Tensors are arguments wherever arrays are; `torch.from_dlpack(array)` takes an array of ours."""

from ._cells import GRUCell
from ._modules import from_module, load_into
from ._neurons import (
    Lapicque,
    Leaky,
    NorseLI,
    NorseLIF,
    NorseLIFBox,
    NorseLIFRecurrent,
    RLeaky,
    SpikingJellyNode,
    Synaptic,
)
from ._state_dict import load_state_dict, state_dict

__all__ = [
    "GRUCell", "Lapicque", "Leaky", "NorseLI", "NorseLIF", "NorseLIFBox", "NorseLIFRecurrent", "RLeaky",
    "SpikingJellyNode", "Synaptic", "from_module", "load_into", "load_state_dict", "state_dict",
]
