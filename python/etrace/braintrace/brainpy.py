"""Neurons and synapses of brainpy.state: those of et.nn, with brainpy's names of arguments and `dt` of brainstate.environ."""

import types as _types
import warnings as _warnings

from .. import nn as _nn
from ._names import missing as _missing, refuse_options as _refuse
from .brainstate import environ as _environ

_RENAMED = {"spk_fun": "surrogate", "spk_reset": "reset"}
_STARTS = ("V_initializer", "a_initializer", "g_initializer", "w_initializer", "I1_initializer", "I2_initializer",
           "V_th_initializer", "h_initializer", "x_initializer", "u_initializer")


class _Neurons:
    """A constructor under brainpy's name. `desc` is the same with the arguments kept for later."""

    def __init__(self, name, layer, renamed, defaults, differs):
        self.name, self.layer, self.renamed = name, layer, {**_RENAMED, **renamed}
        self.defaults, self.differs = defaults, differs

    def __call__(self, in_size, **options):
        options.pop("name", None)
        for start in _STARTS:
            value = options.pop(start, None)
            if value is not None and not getattr(value, "is_zero", False):
                _refuse(f"brainpy.state.{self.name}", [start], "set the state's value after init_all_states")
        options = {self.renamed.get(k, k): v for k, v in options.items()}
        if self.differs:
            _warnings.warn(f"brainpy.state.{self.name}: {self.differs}", stacklevel=2)
        made = self.layer(in_size, **_environ.step({**self.defaults, **options}))
        object.__setattr__(made, "get_spike", lambda *_: made.spikes()) if hasattr(made, "spikes") else None
        return made

    def desc(self, *args, **options):
        return lambda: self(*args, **options)


def _state():
    rows = {"IF": (_nn.IF, {}), "LIF": (_nn.LIF, {}), "LIFRef": (_nn.LIFRef, {}), "ALIF": (_nn.ALIF, {}),
            "Gif": (_nn.Gif, {}), "AdExIF": (_nn.AdEx, {}), "Izhikevich": (_nn.Izhikevich, {}),
            "HH": (_nn.HodgkinHuxley, {"ENa": "E_Na", "EK": "E_K", "EL": "E_L", "gNa": "g_Na", "gK": "g_K", "gL": "g_L"}),
            "Expon": (_nn.Expon, {}), "Alpha": (_nn.Alpha, {}), "DualExpon": (_nn.DualExpon, {}), "STP": (_nn.STP, {}),
            "STD": (_nn.STD, {}), "AMPA": (_nn.AMPA, {}), "GABAa": (_nn.GABAa, {}), "BioNMDA": (_nn.NMDA, {})}
    defaults = {"AdExIF": {"V_th": -55.0, "reset": "soft"}, "HH": {"g_L": 0.03}}
    differs = {"AdExIF": "V stops at V_th within a step here, so that its exponential cannot overflow",
               "HH": "neurons start at -65 mV here, and between -70 and -60 mV there",
               "Izhikevich": "u starts at b·V here, and at 0 there"}
    module = _types.ModuleType(__name__ + ".state")
    for name, (layer, renamed) in rows.items():
        setattr(module, name, _Neurons(name, layer, renamed, defaults.get(name, {}), differs.get(name)))
    instead = {"AlignPostProj": "et.nn.AlignPost, whose input goes into neuron.step(fired, input)",
               "align_pre_projection": "et.nn.AlignPre", "DeltaProj": "et.nn.SynapticCurrent.delta",
               "CurrentProj": "neuron.step(fired, input)", "CUBA": "et.nn.SynapticCurrent.cuba()",
               "COBA": "et.nn.SynapticCurrent.coba(E)", "MgBlock": "et.nn.SynapticCurrent.mg_block()",
               "Neuron": "brainstate.nn.Module with a state V and get_spike",
               "ExpIF": "et.jax.from_braintrace, which takes the model as it is",
               "QuaIF": "et.jax.from_braintrace, which takes the model as it is",
               "MorrisLecar": "et.jax.from_braintrace, which takes the model as it is"}

    def absent(name):
        raise _missing("brainpy.state", name, instead)
    module.__getattr__ = absent
    return module


state = _state()
