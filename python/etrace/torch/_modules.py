"""Modules of PyTorch, snnTorch, Norse and SpikingJelly become modules here, class by class. Start with `from_module`."""

from __future__ import annotations

import collections
import copy
import warnings

import numpy as np

from .. import nn
from .._containers import Sequential
from .._errors import NotSupportedError, ValueError
from .._module import states
from . import _neurons as own
from ._cells import GRUCell
from ._state_dict import Stack, load_state_dict, state_dict, to_numpy


def from_module(module, example=None, *, surrogate=None):
    """One time step of a module of PyTorch, snnTorch, Norse or SpikingJelly as a model, with its weights.

    example    an input of one step, the batch in front: sizes of neurons, convolutions and norms follow from it. Linear
               layers, embeddings and cells need none
    surrogate  in place of the neurons' own derivative of a spike

    Containers are nn.Sequential and norse's SequentialState. What has no counterpart is refused by name. Attributes keep
    their names, so that `load_into` and `state_dict` find them again. The module is not changed."""
    _require_element_types(module)
    shapes = _shapes(module, example)
    model = _Converter(shapes, surrogate, module.training).convert(module, "")
    values = {name: value for name, value in module.state_dict().items()}
    wanted = set(state_dict(model))
    load_state_dict(model, {name: values[name] for name in wanted if name in values})
    frozen = [name for name, value in module.named_parameters() if not value.requires_grad and name in wanted]
    if frozen:
        warnings.warn(f"{', '.join(frozen)}: no gradient is wanted there, and all parameters are learned here; name them in "
                      "frozen= of the optimiser", RuntimeWarning, stacklevel=2)
    if not module.training:
        model.eval()
    return model


def load_into(module, model):
    """Writes the parameters of `model` into a torch module with the same names. All or none."""
    import torch

    values = state_dict(model)
    there = module.state_dict()
    unknown = sorted(set(values) - set(there))
    missing = sorted(n for n, _ in module.named_parameters() if n not in values)
    if unknown or missing:
        raise ValueError("the module and the model have different parameters: only the model has "
                         f"[{', '.join(unknown)}], only the module [{', '.join(missing)}]", stage="load_into")
    for name, value in values.items():
        if tuple(there[name].shape) != tuple(value.shape) and there[name].numel() != value.numel():
            raise ValueError(f"{name} has shape {tuple(there[name].shape)} there and {tuple(value.shape)} here",
                             stage="load_into")
    with torch.no_grad():
        for name, value in values.items():
            if not name.endswith("num_batches_tracked"):
                there[name].copy_(value.reshape(there[name].shape))


def _require_element_types(module):
    for name, value in module.named_parameters():
        if str(value.dtype) not in ("torch.float32", "torch.float64"):
            raise NotSupportedError(f"{name} is of {value.dtype}; models compute in float32 or float64: convert the module "
                                    "by .float()", stage="from_module")


def _shapes(module, example):
    """{id of a part: shapes of one sample of its inputs, call by call}, from a step of a copy."""
    if example is None:
        return {}
    import torch

    example = example if isinstance(example, torch.Tensor) else torch.as_tensor(np.asarray(example))
    twin = copy.deepcopy(module, _of_a_graph(module)).eval()
    shapes, hooks = {}, []
    names = {name: part for name, part in module.named_modules()}
    for name, part in twin.named_modules():
        def note(part, inputs, name=name):
            if inputs and hasattr(inputs[0], "shape"):
                shapes.setdefault(id(names[name]), []).append(tuple(inputs[0].shape[1:]))
        hooks.append(part.register_forward_pre_hook(note))
    with torch.no_grad():
        twin(example)
    return shapes


def _of_a_graph(module):
    """What deepcopy takes for tensors that it refuses to copy: states of neurons that a loss was computed from."""
    held = [value for part in module.modules() for value in (*vars(part).values(), *part._buffers.values())
            if hasattr(value, "is_leaf") and not value.is_leaf]
    return {id(value): value.detach().clone() for value in held}


def _pair(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


class _Converter:
    def __init__(self, shapes, surrogate, training):
        self.shapes, self.surrogate, self.training = shapes, surrogate, training
        self.uses, self.made = collections.Counter(), {}

    def convert(self, module, name):
        """What stands at several places has one set of weights and states here, too."""
        if id(module) in self.made:
            return self.made[id(module)]
        self._require_plain(module, name)
        made = self.converted(module, name)
        self.uses[id(module)] += 1
        if states(made):
            self.made[id(module)] = made
        return made

    def converted(self, module, name):
        for kind in type(module).__mro__:
            method = getattr(self, "on_" + _ROWS.get(f"{kind.__module__.split('.')[0]}.{kind.__name__}", ""), None)
            if method is not None:
                self._require_same_step(module, kind, name)
                return method(module, name)
        self.refuse(module, name, _REASONS.get(type(module).__name__, _OTHER))

    def _require_same_step(self, module, kind, name):
        """A class derived from a known one may compute something else."""
        if type(module) is not kind and type(module).forward is not kind.forward:
            self.refuse(module, name, f"it derives from {kind.__name__} and has a forward of its own")

    def _require_plain(self, module, name):
        """Code beside the forward would be left out."""
        if hasattr(module, "parametrizations"):
            names = ", ".join(module.parametrizations)
            self.refuse(module, name, f"{names} has a parametrization; torch.nn.utils.parametrize.remove_parametrizations "
                        "makes it a plain parameter")
        if module._forward_hooks or module._forward_pre_hooks:
            self.refuse(module, name, "it has forward hooks, which would be left out; take them away (those of weight and "
                        "spectral norm by torch.nn.utils.remove_weight_norm, remove_spectral_norm)")

    def _require_mode(self, module, name):
        if module.training != self.training:
            self.refuse(module, name, "it is in another mode (train, eval) than the module as a whole; a model has one")

    def refuse(self, module, name, reason):
        kind = type(module)
        where = f" at {name}" if name else ""
        raise NotSupportedError(f"{kind.__module__.split('.')[0]}.{kind.__name__}{where}: {reason}", stage="from_module")

    def shape(self, module, name):
        if id(module) not in self.shapes:
            self.refuse(module, name, "its size is not known; give from_module an example of one step's input, and let "
                        "every part be used in a step")
        shapes = self.shapes[id(module)]
        return shapes[min(self.uses[id(module)], len(shapes) - 1)]

    # Containers ------------------------------------------------------------------------------------------------
    def on_sequential(self, module, name):
        if getattr(module, "return_hidden", False):
            self.refuse(module, name, "return_hidden gives the results of all layers; leave it out")
        return Sequential(*[self.convert(part, f"{name}.{i}" if name else i) for i, part in module._modules.items()])

    # Maps ------------------------------------------------------------------------------------------------------
    def on_linear(self, m, name):
        return nn.Linear(m.in_features, m.out_features, **_bias(m), dtype=_dtype(m))

    def on_embedding(self, m, name):
        if m.max_norm is not None:
            self.refuse(m, name, "max_norm rescales rows while it reads them; leave it out")
        if m.padding_idx is not None:
            self.refuse(m, name, "padding_idx keeps a row from learning; leave it out")
        return nn.Embedding(m.num_embeddings, m.embedding_dim, dtype=_dtype(m))

    def on_conv(self, m, name):
        if m.padding_mode != "zeros":
            self.refuse(m, name, f"padding_mode='{m.padding_mode}'; only zeros are added here")
        if getattr(m, "transposed", False):
            self.refuse(m, name, _OTHER)
        shape = self.shape(m, name)
        space = len(m.kernel_size)
        padding = m.padding.upper() if isinstance(m.padding, str) else [(p, p) for p in m.padding]
        layer = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[space]
        return layer(shape, m.out_channels, list(m.kernel_size), strides=list(m.stride), padding=padding,
                     dilation=list(m.dilation), groups=m.groups, channel_first=True, dtype=_dtype(m),
                     **({} if m.bias is None else {"bias_init": 0.0}))

    def on_layer_norm(self, m, name):
        shape = self.shape(m, name)
        return nn.LayerNorm(shape, axes=len(m.normalized_shape), epsilon=m.eps, scale=m.weight is not None,
                            bias=m.bias is not None, dtype=_dtype(m))

    def on_rms_norm(self, m, name):
        shape = self.shape(m, name)
        eps = m.eps if m.eps is not None else float(np.finfo(_dtype(m)).eps)
        return nn.RMSNorm(shape, axes=len(m.normalized_shape), epsilon=eps, scale=m.weight is not None, dtype=_dtype(m))

    def on_group_norm(self, m, name):
        return nn.GroupNorm(self.shape(m, name), groups=m.num_groups, epsilon=m.eps, scale=m.affine, bias=m.affine,
                            channel_first=True, dtype=_dtype(m))

    def on_batch_norm(self, m, name):
        if not m.track_running_stats:
            self.refuse(m, name, "track_running_stats=False; running averages are always kept here")
        self._require_mode(m, name)
        if m.momentum is None:
            self.refuse(m, name, "momentum=None averages over all batches; give a number")
        return nn.BatchNorm(self.shape(m, name), momentum=1 - m.momentum, epsilon=m.eps, scale=m.affine, bias=m.affine,
                            channel_first=True, dtype=_dtype(m))

    def on_prelu(self, m, name):
        if m.num_parameters == 1:
            return nn.PReLU(self.shape(m, name), dtype=_dtype(m))
        shape = self.shape(m, name)
        if len(shape) != 1:
            self.refuse(m, name, "a slope per channel in front of space has no counterpart; use one slope")
        return nn.PReLU(shape, per_feature=True, dtype=_dtype(m))

    def on_flatten(self, m, name):
        if m.start_dim != 1 or m.end_dim != -1:
            self.refuse(m, name, f"start_dim={m.start_dim}, end_dim={m.end_dim}; only whole samples are flattened here")
        return nn.Flatten(self.shape(m, name))

    def on_pool(self, m, name):
        kind = type(m).__name__
        if getattr(m, "ceil_mode", False) or getattr(m, "return_indices", False):
            self.refuse(m, name, "ceil_mode and return_indices have no counterpart")
        if any(d != 1 for d in _pair(getattr(m, "dilation", 1))) or getattr(m, "divisor_override", None) is not None:
            self.refuse(m, name, "dilation and divisor_override have no counterpart")
        window, space = _pair(m.kernel_size), int(kind[-2])
        window = window * space if len(window) == 1 else window
        stride = _pair(m.stride)
        padding = [(p, p) for p in (_pair(m.padding) * space if len(_pair(m.padding)) == 1 else _pair(m.padding))]
        extra = {"count_padding": m.count_include_pad} if kind.startswith("Avg") else {}
        return getattr(nn, kind)(window, strides=stride * space if len(stride) == 1 else stride, padding=padding,
                                 channel_first=True, **extra)

    def on_dropout(self, m, name):
        self._require_mode(m, name)
        return nn.Dropout(keep=1 - m.p) if m.p else nn.Identity()

    def on_activation(self, m, name):
        kind = type(m).__name__
        if kind == "GELU":
            return nn.GELU(m.approximate == "tanh")
        if kind == "ELU":
            return nn.ELU(m.alpha)
        if kind == "LeakyReLU":
            return nn.LeakyReLU(m.negative_slope)
        if kind == "Softplus" and (m.beta != 1 or m.threshold != 20):
            self.refuse(m, name, "only beta=1, threshold=20 have a counterpart")
        if kind in ("Softmax", "LogSoftmax"):
            if m.dim not in (-1, len(self.shape(m, name))):
                self.refuse(m, name, f"dim={m.dim}; only the last axis has a counterpart")
        return getattr(nn, kind)()

    # Cells -----------------------------------------------------------------------------------------------------
    def _cell(self, m, kind, inputs, hidden, bias):
        options = {"dtype": _dtype(m)} if bias else {"dtype": _dtype(m), "bias_init": None}
        if kind.startswith("GRU"):
            return GRUCell(inputs, hidden, bias=bias, dtype=_dtype(m))
        if kind.startswith("LSTM"):
            return nn.LSTMCell(inputs, hidden, **options)
        return nn.VanillaRNNCell(inputs, hidden, activation=m.nonlinearity, **options)

    def on_cell(self, m, name):
        kind = type(m).__name__
        if kind.startswith("LSTM") and not m.bias:
            self.refuse(m, name, "without biases: the library's cell adds 1 to the forget gate, which a bias takes away "
                        "again; make it with biases")
        return self._cell(m, kind, m.input_size, m.hidden_size, m.bias)

    def on_sequence(self, m, name):
        if m.bidirectional or getattr(m, "proj_size", 0):
            self.refuse(m, name, "bidirectional and projected layers have no step in time")
        if m.dropout:
            self.refuse(m, name, "dropout between layers has no counterpart; stack cells and Dropout")
        if type(m).__name__ == "LSTM" and not m.bias:
            self.refuse(m, name, "without biases; make it with biases")
        sizes = [m.input_size, *[m.hidden_size] * (m.num_layers - 1)]
        return Stack([self._cell(m, type(m).__name__, size, m.hidden_size, m.bias) for size in sizes])

    # snnTorch --------------------------------------------------------------------------------------------------
    def _snn(self, m, name):
        for option, message in (("inhibition", "only the strongest neuron fires"), ("state_quant", "states are rounded")):
            if getattr(m, option, False):
                self.refuse(m, name, f"{option}: {message}, which has no counterpart")
        if not getattr(m, "reset_delay", True):
            self.refuse(m, name, "reset_delay=False has no counterpart; use the default")
        learned = {n for n, _ in m.named_parameters(recurse=False)}
        surrogate = self.surrogate or own.snntorch_surrogate(m.spike_grad, name or type(m).__name__)
        return {"threshold": to_numpy(m.threshold), "reset": m.reset_mechanism, "surrogate": surrogate,
                "learned": sorted(learned), "output": "spikes" if m.init_hidden and not m.output else "states",
                "graded": to_numpy(m.graded_spikes_factor)}

    def on_leaky(self, m, name):
        return own.Leaky(self.shape(m, name), beta=to_numpy(m.beta), **self._snn(m, name))

    def on_lapicque(self, m, name):
        options = self._snn(m, name)
        if "beta" in options["learned"]:
            self.refuse(m, name, "a learned beta, which the step does not read")
        return own.Lapicque(self.shape(m, name), R=to_numpy(m.R), C=to_numpy(m.C), time_step=to_numpy(m.time_step),
                            **options)

    def on_synaptic(self, m, name):
        return own.Synaptic(self.shape(m, name), alpha=to_numpy(m.alpha), beta=to_numpy(m.beta), **self._snn(m, name))

    def on_rleaky(self, m, name):
        if type(m.recurrent).__name__ != "Linear":
            self.refuse(m, name, f"its recurrence is {type(m.recurrent).__name__}; only linear_features has a counterpart")
        if not m.learn_recurrent:
            self.refuse(m, name, "learn_recurrent=False; all weights of a layer are learned here")
        options = self._snn(m, name)
        options["learned"] = [n for n in options["learned"] if n != "V"]
        return own.RLeaky(self.shape(m, name), beta=to_numpy(m.beta), recurrent=self.on_linear(m.recurrent, name), **options)

    # Norse -----------------------------------------------------------------------------------------------------
    def _norse(self, m, name, fields):
        if any(getattr(getattr(m.p, f), "requires_grad", False) for f in fields):
            self.refuse(m, name, "constants that are learned; they are no parameters of the module. Detach them")
        options = {f: to_numpy(getattr(m.p, f)) for f in fields}
        options["dt"] = float(m.dt)
        if "v_th" in fields:
            options["surrogate"] = self.surrogate or own.norse_surrogate(m.p.method, m.p.alpha, name or type(m).__name__)
        return options

    def on_norse_lif(self, m, name):
        return own.NorseLIF(self.shape(m, name), **self._norse(m, name, _LIF))

    def on_norse_recurrent(self, m, name):
        return own.NorseLIFRecurrent(to_numpy(m.input_weights), to_numpy(m.recurrent_weights), autapses=m.autapses,
                                     **self._norse(m, name, _LIF))

    def on_norse_li(self, m, name):
        return own.NorseLI(self.shape(m, name), **self._norse(m, name, _LIF[:3]))

    def on_norse_box(self, m, name):
        reset = getattr(getattr(m.p, "reset_method", None), "__name__", "reset_value")
        if reset != "reset_value":
            self.refuse(m, name, f"reset_method {reset}; only reset_value has a counterpart")
        return own.NorseLIFBox(self.shape(m, name), **self._norse(m, name, _LIF[1:]))

    # SpikingJelly ----------------------------------------------------------------------------------------------
    def _jelly(self, m, name):
        if m.step_mode != "s":
            self.refuse(m, name, "step_mode='m' takes whole sequences; a model is one step: functional.set_step_mode(net, 's')")
        surrogate = self.surrogate or own.spikingjelly_surrogate(m.surrogate_function, name or type(m).__name__)
        return {"v_threshold": m.v_threshold, "v_reset": m.v_reset, "detach_reset": m.detach_reset, "surrogate": surrogate}

    def on_if_node(self, m, name):
        return own.SpikingJellyNode(self.shape(m, name), kind="if", **self._jelly(m, name))

    def on_lif_node(self, m, name):
        return own.SpikingJellyNode(self.shape(m, name), kind="lif", tau=m.tau, decay_input=m.decay_input,
                                    **self._jelly(m, name))

    def on_plif_node(self, m, name):
        return own.SpikingJellyNode(self.shape(m, name), kind="plif", w=to_numpy(m.w), decay_input=m.decay_input,
                                    **self._jelly(m, name))


_LIF = ("tau_syn_inv", "tau_mem_inv", "v_leak", "v_th", "v_reset")
_OTHER = ("there is no counterpart. Write the step as an et.Module with parts of the same names, and take the weights by "
          "et.torch.load_state_dict")
_REASONS = {
    "LSNNCell": "its threshold adapts by equations that et.nn.ALIF has not; write the step as an et.Module",
    "SLSTM": "a spiking LSTM; write the step as an et.Module",
    "Alpha": "its current is a difference of two filters; write the step as an et.Module",
    "Lift": "it runs over time; a model is one step: leave it out",
}


def _rows():
    """{package.Class: name of the method}"""
    out = {"torch.Sequential": "sequential", "torch.Linear": "linear", "torch.Embedding": "embedding",
           "torch.LayerNorm": "layer_norm", "torch.RMSNorm": "rms_norm", "torch.GroupNorm": "group_norm",
           "torch.PReLU": "prelu", "torch.Flatten": "flatten",
           "snntorch.Leaky": "leaky", "snntorch.Lapicque": "lapicque", "snntorch.Synaptic": "synaptic",
           "snntorch.RLeaky": "rleaky",
           "norse.SequentialState": "sequential", "norse.LIFCell": "norse_lif", "norse.LIF": "norse_lif",
           "norse.LIFRecurrentCell": "norse_recurrent", "norse.LIFRecurrent": "norse_recurrent",
           "norse.LICell": "norse_li", "norse.LI": "norse_li", "norse.LIFBoxCell": "norse_box",
           "spikingjelly.IFNode": "if_node", "spikingjelly.LIFNode": "lif_node",
           "spikingjelly.ParametricLIFNode": "plif_node"}
    for d in "123":
        out |= {f"torch.Conv{d}d": "conv", f"torch.BatchNorm{d}d": "batch_norm", f"torch.MaxPool{d}d": "pool",
                f"torch.AvgPool{d}d": "pool", f"torch.Dropout{d}d": ""}
    for kind in "RNN GRU LSTM".split():
        out |= {f"torch.{kind}Cell": "cell", f"torch.{kind}": "sequence"}
    out |= {f"torch.{kind}": "activation" for kind in "ReLU ReLU6 Tanh Sigmoid SiLU Softplus ELU SELU GELU LeakyReLU Mish "
            "Identity Softmax LogSoftmax".split()}
    out["torch.Dropout"] = "dropout"
    return out


_ROWS = _rows()


def _bias(m):
    return {"bias_init": None} if m.bias is None else {}


def _dtype(m):
    for p in m.parameters():
        name = str(p.dtype).removeprefix("torch.")
        return name
    return "float32"
